"""A process workload as a `SparkApplication` of the Kubernetes operator for Apache Spark. Pure; touches no cluster.

The driver is `shoal run` in a pod of the image. The operator starts its executors, and tells it where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shoal.cluster.containers.container_groups import RUNS, WORK, dns_name
from shoal.cluster.containers.documents import Versions
from shoal.spec import Workload

API = "sparkoperator.k8s.io/v1beta2"
FILE = "spark-application.yaml"
ACCOUNT = "spark"
"""The service account with which the driver makes its executors."""
MASTER = "k8s://https://kubernetes.default.svc"
EXECUTOR_MEMORY_BYTES = 1 << 30
"""Where the workload does not say."""
DRIVER_MEMORY_BYTES = 1 << 30
RETRY_S = 10


class SparkWork(NamedTuple):
    """What a workload asks of an application beside what all workloads have."""

    executors: int
    cores: int
    """Of each executor, as the memory."""
    memory_bytes: int
    conf: Mapping[str, str]
    sets: Sequence[str]
    """What to `--set` so that the driver uses the application that it is in, whose master is `MASTER`."""


def spark_application(spec: Workload, work: SparkWork, file: str, versions: Versions) -> dict[str, Any]:
    """The application that runs a workload file, whose folder is in the image."""
    labels = {"app.kubernetes.io/managed-by": "shoal"}
    sets = (*work.sets, "image=null")
    return {
        "apiVersion": API,
        "kind": "SparkApplication",
        "metadata": {"name": dns_name(spec.name), "labels": labels},
        "spec": {
            "type": "Python",
            "pythonVersion": "3",
            "mode": "cluster",
            "sparkVersion": versions.spark,
            "image": spec.image,
            "imagePullPolicy": "IfNotPresent",
            "mainApplicationFile": f"local://{_main(versions.python)}",
            "arguments": ["run", f"{WORK}/{file}", "--inline", *(f"--set={each}" for each in sets)],
            **({"sparkConf": dict(work.conf)} if work.conf else {}),
            "restartPolicy": _restarts(spec.limits.retries),
            "driver": {
                "cores": 1,
                "memory": _memory(DRIVER_MEMORY_BYTES),
                "serviceAccount": ACCOUNT,
                "labels": labels,
                "env": [*_environment(spec), {"name": "SHOAL_HOME", "value": RUNS}],
            },
            "executor": {
                "instances": work.executors,
                "cores": work.cores,
                "memory": _memory(work.memory_bytes),
                "labels": labels,
                "env": _environment(spec),
            },
        },
    }


def _restarts(retries: int) -> dict[str, Any]:
    if not retries:
        return {"type": "Never"}
    return {
        "type": "OnFailure",
        "onFailureRetries": retries,
        "onFailureRetryInterval": RETRY_S,
        "onSubmissionFailureRetries": retries,
        "onSubmissionFailureRetryInterval": RETRY_S,
    }


def _environment(spec: Workload) -> list[dict[str, str]]:
    return [{"name": dns_name(spec.name), "value": value} for name, value in spec.env.items()]


def _memory(size: int) -> str:
    return f"{max(1, size >> 20)}m"


def _main(python: str) -> str:
    """Where an image that is made from Python's own has Shoal's main program."""
    return f"/usr/local/lib/python{python}/site-packages/shoal/__main__.py"

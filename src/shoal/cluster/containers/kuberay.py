"""A cluster as KubeRay's documents: `RayCluster`, `RayJob`, and what they need beside them. Pure; touches no cluster.

The token is never here: documents name the Secret that holds it, under the key `auth_token`.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from shoal.cluster.containers.container_groups import (
    DRIVER_FILE,
    RUNS,
    WORK,
    Group,
    Kind,
    Layout,
    described,
    dns_name,
    is_label_value,
    layout_of,
)
from shoal.cluster.containers.documents import Versions, to_yaml
from shoal.model.marks import HEALTH, HOST_LABEL
from shoal.spec import Cluster, Workload

API = "ray.io/v1"
CLUSTER_LABEL = "shoal.cluster"
"""On everything that is made for a cluster, and on its pods."""
TOKEN_KEY = "auth_token"
"""Where KubeRay looks for the token in the Secret."""
DASHBOARD_PORT = 8265
PORTS = {"gcs-server": 6379, "dashboard": DASHBOARD_PORT, "client": 10001, "metrics": 8080}
KEPT_AFTER_JOB_S = 60


class Target(NamedTuple):
    """What the documents need beside the cluster file."""

    name: str
    image: str
    versions: Versions
    namespace: str | None = None

    @property
    def labels(self) -> dict[str, str]:
        return {"app.kubernetes.io/managed-by": "shoal", CLUSTER_LABEL: self.name}

    def metadata(self, name: str | None = None) -> dict[str, Any]:
        namespace = {"namespace": self.namespace} if self.namespace else {}
        return {"name": name or self.name, **namespace, "labels": self.labels}


def target_of(cluster: Cluster, image: str, versions: Versions) -> Target:
    return Target(dns_name(cluster.name), image, versions, cluster.namespace)


def ray_cluster(cluster: Cluster, target: Target) -> dict[str, Any]:
    """The `RayCluster` of a cluster file."""
    return {
        "apiVersion": API,
        "kind": "RayCluster",
        "metadata": target.metadata(),
        "spec": _cluster_spec(cluster, target),
    }


def ray_job(cluster: Cluster, target: Target, workload: Workload, file: str) -> dict[str, Any]:
    """The `RayJob` that brings a cluster up for one workload, whose folder is in the image.

    With `storage:` the cluster goes when the run has ended; without, it stays, because the run's folder is on it.
    """
    spec = _cluster_spec(cluster, target)
    head = spec["headGroupSpec"]["template"]["spec"]
    head["containers"][0]["volumeMounts"] = [
        {"name": "driver", "mountPath": DRIVER_FILE.rpartition("/")[0], "readOnly": True}
    ]
    head["volumes"] = [{"name": "driver", "configMap": {"name": driver_name(target, workload)}}]
    ends = {"shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": KEPT_AFTER_JOB_S}
    return {
        "apiVersion": API,
        "kind": "RayJob",
        "metadata": target.metadata(dns_name(workload.name)),
        "spec": {
            "entrypoint": entrypoint(file),
            **(ends if cluster.storage else {"shutdownAfterJobFinishes": False}),
            "rayClusterSpec": spec,
            "submitterPodTemplate": _submitter(target),
        },
    }


def entrypoint(file: str) -> str:
    """Ray's job runs this on the head, which is a node of the cluster like any driver's."""
    arguments = ["python", "-m", "shoal", "run", f"{WORK}/{file}", "--cluster", DRIVER_FILE]
    return shlex.join(arguments)


def driver_name(target: Target, workload: Workload) -> str:
    return dns_name(f"{target.name}-{dns_name(workload.name)}-driver", 63)


def driver_config(cluster: Cluster, target: Target, workload: Workload) -> dict[str, Any]:
    """The cluster file that the driver inside the cluster uses."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": target.metadata(driver_name(target, workload)),
        "data": {DRIVER_FILE.rpartition("/")[2]: to_yaml([described(cluster)])},
    }


def network_policy(target: Target) -> dict[str, Any]:
    """Lets in the cluster's own pods, and KubeRay's operator to the dashboard, which it asks for states of jobs."""
    operator = {
        "namespaceSelector": {},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "kuberay-operator"}},
    }
    ours = {"matchLabels": {CLUSTER_LABEL: target.name}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": target.metadata(),
        "spec": {
            "podSelector": ours,
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"podSelector": ours}]},
                {"from": [operator], "ports": [{"protocol": "TCP", "port": DASHBOARD_PORT}]},
            ],
        },
    }


def _cluster_spec(cluster: Cluster, target: Target) -> dict[str, Any]:
    layout = layout_of(cluster)
    spec: dict[str, Any] = {
        "rayVersion": target.versions.ray,
        "authOptions": {"mode": "token", "secretName": target.name},
    }
    if cluster.scale is not None:
        spec["enableInTreeAutoscaling"] = True
        spec["autoscalerOptions"] = {"idleTimeoutSeconds": math.ceil(cluster.scale.idle_s)}
    spec["headGroupSpec"] = _head(layout, target, scaled=cluster.scale is not None)
    spec["workerGroupSpecs"] = [_workers(group, target) for group in layout.workers]
    return spec


def _head(layout: Layout, target: Target, *, scaled: bool) -> dict[str, Any]:
    start = {"dashboard-host": "0.0.0.0", "node-name": "$SHOAL_POD", "disable-usage-stats": "true"}
    if not layout.head_works:
        start["num-cpus"] = "0"
    template = _template(layout.head, target, "ray-head", HEALTH)
    container = template["spec"]["containers"][0]
    container["ports"] = [{"name": name, "containerPort": port} for name, port in PORTS.items()]
    if not scaled:  # The autoscaler, which runs beside the head, talks to Kubernetes; nothing else does.
        template["spec"]["automountServiceAccountToken"] = False
    return {"rayStartParams": start, "labels": _ray_labels(layout.head), "template": template}


def _workers(group: Group, target: Target) -> dict[str, Any]:
    template = _template(group, target, "ray-worker", {})
    template["spec"]["automountServiceAccountToken"] = False
    return {
        "groupName": group.name,
        "replicas": group.least,
        "minReplicas": group.least,
        "maxReplicas": group.most,
        "rayStartParams": {"node-name": "$SHOAL_POD", "disable-usage-stats": "true"},
        "labels": _ray_labels(group),
        "template": template,
    }


def _ray_labels(group: Group) -> dict[str, str]:
    """What Ray says of a node; a host's own name only where exactly one container has it."""
    alone = group.most == 1 and len(group.hosts) == 1 and is_label_value(group.hosts[0])
    return dict(group.kind.labels) | ({HOST_LABEL: group.hosts[0]} if alone else {})


def _template(group: Group, target: Target, container: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """A pod of the group. Labels with a prefix, such as topology.kubernetes.io/zone, choose Kubernetes' nodes."""
    chosen = {name: value for name, value in group.kind.labels if "/" in name}
    resources = _resources(group.kind)
    fixed = {"SHOAL_CLUSTER": target.name, "SHOAL_HOME": RUNS, **environment}
    spec: dict[str, Any] = {
        "containers": [
            {
                "name": container,
                "image": target.image,
                "env": [
                    *({"name": name, "value": value} for name, value in fixed.items()),
                    {"name": "SHOAL_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
                "resources": {"requests": resources, "limits": dict(resources)},
                "securityContext": _careful(),
            }
        ]
    }
    if chosen:
        spec["nodeSelector"] = chosen
    return {"metadata": {"labels": target.labels}, "spec": spec}


def _submitter(target: Target) -> dict[str, Any]:
    """The pod that hands the job to the head: ours, so that the network policy lets it in."""
    container = {
        "name": "ray-job-submitter",
        "image": target.image,
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi"},
            "limits": {"cpu": "1", "memory": "1Gi"},
        },
        "securityContext": _careful(),
    }
    spec = {"restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [container]}
    return {"metadata": {"labels": target.labels}, "spec": spec}


def _careful() -> dict[str, Any]:
    return {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _resources(kind: Kind) -> dict[str, str]:
    gpu = {"nvidia.com/gpu": str(kind.gpu)} if kind.gpu else {}
    return {"cpu": cpu_quantity(kind.cpu), "memory": memory_quantity(kind.memory_bytes), **gpu}


def cpu_quantity(cpu: float) -> str:
    """Whole cores, or thousandths of one."""
    thousandths = max(1, math.ceil(round(cpu * 1000, 6)))
    return f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)


def memory_quantity(memory_bytes: int) -> str:
    for unit, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if memory_bytes % size == 0:
            return f"{memory_bytes // size}{unit}"
    return str(memory_bytes)

"""A cluster as a stack of Docker Swarm: one service a node on an encrypted network of its own. Pure.

Nodes find each other by the names of services. The token is a secret of Swarm's that is there already:
only its name is here.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shoal.cluster.containers.container_groups import (
    DRIVER_FILE,
    RUNS,
    USER_ID,
    WORK,
    Kind,
    Layout,
    described,
    dns_name,
    is_label_value,
    kind_of,
    layout_of,
)
from shoal.cluster.containers.documents import to_yaml
from shoal.model.marks import HEALTH, HOST_LABEL
from shoal.spec import Cluster, ClusterNode, Workload

GCS_PORT, RAYLET_PORT = 6379, 6380
DRIVER_NAME = "driver.yaml"
"""The file beside the stack file that becomes the driver's cluster file."""
SHARED_MEMORY_SHARE = 0.3
"""What Ray takes for objects that processes of a node share."""
NODE_LABEL = "node.labels."
"""A label of the file that starts so is asked of Docker's node, in place of its host name."""
OWN_ADDRESS = "$$(hostname -i | cut -d' ' -f1)"
"""On the stack's network: Ray's own guess would be the way to the internet. `$$` is Compose's way to write `$`."""


class Job(NamedTuple):
    """A workload that the stack runs once, whose folder is in the image."""

    workload: Workload
    file: str


def stack_name(cluster: Cluster) -> str:
    return dns_name(cluster.name)


def secret_name(cluster: Cluster) -> str:
    return f"{stack_name(cluster)}-token"


def service_name(host: str) -> str:
    return dns_name(host, 60)


def stack(cluster: Cluster, image: str, job: Job | None = None) -> dict[str, Any]:
    """The stack file of a cluster, as a value."""
    layout = layout_of(cluster)
    nodes = cluster.nodes or (ClusterNode(host="head", head=True),)
    head = cluster.head or nodes[0]
    services = {service_name(head.host): _head(cluster, image, head, layout)}
    for node in nodes:
        if node is not head:
            services[service_name(node.host)] = _worker(cluster, image, node, head)
    if job is not None:
        services[_free("driver", services)] = _driver(cluster, image, head, job)
    return {
        "version": "3.8",
        "services": services,
        "networks": {
            "cluster": {"driver": "overlay", "attachable": True, "driver_opts": {"encrypted": "true"}}
        },
        "volumes": {"runs": {}},
        "secrets": {"token": {"external": True, "name": secret_name(cluster)}},
        **({"configs": {"driver": {"file": f"./{DRIVER_NAME}"}}} if job else {}),
    }


def _free(name: str, taken: Mapping[str, Any]) -> str:
    found, number = name, 2
    while found in taken:
        found, number = f"{name}-{number}", number + 1
    return found


def _head(cluster: Cluster, image: str, node: ClusterNode, layout: Layout) -> dict[str, Any]:
    cpus = None if layout.head_works else 0
    start = [
        f"ray start --head --port={GCS_PORT} --dashboard-host=127.0.0.1",
        *_start(node, cpus),
        "--block",
    ]
    service = _service(cluster, image, node, start, GCS_PORT, RAYLET_PORT)
    service["environment"] |= HEALTH
    service["volumes"].append({"type": "volume", "source": "runs", "target": RUNS})
    return service


def _worker(cluster: Cluster, image: str, node: ClusterNode, head: ClusterNode) -> dict[str, Any]:
    start = [f"ray start --address={service_name(head.host)}:{GCS_PORT}", *_start(node), "--block"]
    return _service(cluster, image, node, start, RAYLET_PORT)


def _driver(cluster: Cluster, image: str, head: ClusterNode, job: Job) -> dict[str, Any]:
    """Runs the workload once: a node of Ray's without CPUs, on the head's host, so that its runs are kept there."""
    start = [f"ray start --address={service_name(head.host)}:{GCS_PORT}", *_start(head, 0, named="driver")]
    run = ["python", "-m", "shoal", "run", f"{WORK}/{job.file}", "--cluster", DRIVER_FILE]
    line = _literal(shlex.join(run))
    waiting = ["until", *start, "; do sleep 2; done; exec", line]  # The head may come later than the driver.
    service = _service(cluster, image, head, waiting, RAYLET_PORT)
    small = ClusterNode(host="driver", cpu=1, memory_bytes=2 << 30)
    service["hostname"] = "driver"
    service["volumes"] = [
        _shared_memory(small),
        {"type": "volume", "source": "runs", "target": RUNS},
    ]
    service["configs"] = [{"source": "driver", "target": DRIVER_FILE}]
    service["deploy"]["restart_policy"] = {"condition": "none"}
    reserved = {"cpus": "0.1", "memory": "256M"}  # It mostly waits, and must not take a node's place.
    service["deploy"]["resources"] = {
        "limits": _resources(kind_of(small))["limits"],
        "reservations": reserved,
    }
    del service["healthcheck"]
    return service


def ray_labels(node: ClusterNode) -> dict[str, str]:
    """A node's labels as placements name them."""
    return {name.removeprefix(NODE_LABEL): value for name, value in sorted(node.labels.items())}


def _start(node: ClusterNode, cpus: int | None = None, *, named: str | None = None) -> list[str]:
    """Options of `ray start` that every node has. Values were checked to need no quotes."""
    kind = kind_of(node)
    cpus = max(1, int(kind.cpu)) if cpus is None else cpus
    labels = ray_labels(node) if named is None else {}
    host = named or node.host
    if is_label_value(host):
        labels[HOST_LABEL] = host
    written = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
    return [
        f"--node-ip-address={OWN_ADDRESS}",
        f"--node-name={service_name(host)}",
        f"--node-manager-port={RAYLET_PORT}",
        f"--num-cpus={cpus}",
        *([f"--num-gpus={kind.gpu}"] if kind.gpu and named is None else []),
        *([f"--labels={written}"] if written else []),
        "--disable-usage-stats",
    ]


def _service(
    cluster: Cluster, image: str, node: ClusterNode, command: Sequence[str], *ports: int
) -> dict[str, Any]:
    token = {
        "source": "token",
        "target": "ray-token",
        "uid": str(USER_ID),
        "gid": str(USER_ID),
        "mode": 0o400,
    }
    probe = f"import socket; [socket.create_connection(('127.0.0.1', port), 3) for port in {list(ports)}]"
    return {
        "image": _literal(image),
        "hostname": service_name(node.host),
        "init": True,
        "command": ["sh", "-c", ("" if command[-1] != "--block" else "exec ") + " ".join(command)],
        "environment": {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": "/run/secrets/ray-token",
            "SHOAL_CLUSTER": stack_name(cluster),
            "SHOAL_HOME": RUNS,
        },
        "networks": ["cluster"],
        "secrets": [token],
        "volumes": [_shared_memory(node)],
        "healthcheck": {
            "test": ["CMD", "python", "-c", probe],
            "interval": "5s",
            "timeout": "5s",
            "retries": 3,
            "start_period": "60s",
        },
        "stop_grace_period": "30s",
        "deploy": {
            "mode": "replicated",
            "replicas": 1,
            "endpoint_mode": "dnsrr",
            "placement": {"constraints": _constraints(node)},
            "resources": _resources(kind_of(node)),
            "restart_policy": {"condition": "any", "delay": "2s"},
            "update_config": {"order": "stop-first"},
            "labels": {"shoal.cluster": stack_name(cluster), "shoal.host": _literal(node.host)},
        },
    }


def _literal(text: str) -> str:
    """Text in which docker fills in nothing."""
    return text.replace("$", "$$")


def _constraints(node: ClusterNode) -> list[str]:
    asked = [
        f"{name} == {value}" for name, value in sorted(node.labels.items()) if name.startswith(NODE_LABEL)
    ]
    return asked or [f"node.hostname == {_literal(node.host)}"]


def _resources(kind: Kind) -> dict[str, Any]:
    limits = {
        "cpus": f"{max(round(kind.cpu, 3), 0.001):g}",
        "memory": f"{math.ceil(kind.memory_bytes / 2**20)}M",
    }
    gpu = {"discrete_resource_spec": {"kind": "NVIDIA-GPU", "value": kind.gpu}}
    reserved = limits | ({"generic_resources": [gpu]} if kind.gpu else {})
    return {"limits": limits, "reservations": reserved}


def _shared_memory(node: ClusterNode) -> dict[str, Any]:
    size = int(kind_of(node).memory_bytes * SHARED_MEMORY_SHARE)
    return {"type": "tmpfs", "target": "/dev/shm", "tmpfs": {"size": size}}


def driver_text(cluster: Cluster) -> str:
    """The cluster file that the stack's driver uses."""
    return to_yaml([described(cluster)])

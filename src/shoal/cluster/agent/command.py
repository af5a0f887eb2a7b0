"""`ray start` for one node, as a value: the arguments and the variables. Starts nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

from shoal.cluster.agent.requests import TOKEN_FILE, HostFacts, NodeRequest
from shoal.model.marks import DRIVER_ROLE, HEALTH, HOST_LABEL, NODE_VARIABLE, ROLE_LABEL, SPEED_LABEL

LEAST_STORE_BYTES = 80 << 20
MOST_STORE_BYTES = 1 << 30


class Ports(NamedTuple):
    """What only a head needs."""

    head: int
    dashboard: int


class Command(NamedTuple):
    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def ray_start(request: NodeRequest, folder: str, ip: str, has: HostFacts, ports: Ports | None) -> Command:
    """What starts the node. The token is in a file of the folder, never among the arguments."""
    memory = request.memory_bytes or has.memory_bytes
    arguments = [
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--disable-usage-stats"),
        *(f"--temp-dir={folder}", f"--node-ip-address={ip}"),
        *(f"--num-cpus={_whole(request, has)}", f"--num-gpus={_gpus(request, has)}"),
        f"--memory={memory}",
        f"--object-store-memory={_store_bytes(request, memory)}",
        f"--labels={_labels(request, has)}",
        *(_head(ports) if ports is not None else _member(request)),
        "--include-log-monitor=false",  # It would outlive a node that was lost or let go; workers send their logs.
        *("--log-style=record", "--log-color=false"),
    ]
    return Command(tuple(arguments), _environment(folder))


def _head(ports: Ports) -> tuple[str, ...]:
    return (
        *("--head", f"--port={ports.head}", "--include-dashboard=true"),
        *("--dashboard-host=127.0.0.1", f"--dashboard-port={ports.dashboard}"),
    )


def _member(request: NodeRequest) -> tuple[str, ...]:
    return (f"--address={request.address}",)


def _whole(request: NodeRequest, has: HostFacts) -> int:
    """Ray counts whole CPUs of a node."""
    return 0 if request.driver else max(1, int(request.cpu or has.cpu))


def _gpus(request: NodeRequest, has: HostFacts) -> int:
    return 0 if request.driver else int(len(has.devices) if request.gpu is None else request.gpu)


def _store_bytes(request: NodeRequest, memory: int) -> int:
    """Shared memory for what travels, mostly shipped folders: a tenth of the node's, within reason."""
    return (
        LEAST_STORE_BYTES if request.driver else max(LEAST_STORE_BYTES, min(MOST_STORE_BYTES, memory // 10))
    )


def _labels(request: NodeRequest, has: HostFacts) -> str:
    own = (
        {ROLE_LABEL: DRIVER_ROLE}
        if request.driver
        else {HOST_LABEL: request.host, SPEED_LABEL: f"{has.speed:.3f}"}
    )
    return ",".join(f"{name}={value}" for name, value in {**request.labels, **own}.items())


def _environment(folder: str) -> dict[str, str]:
    """What Ray's processes get: little, as everything that runs on the node inherits it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "SHOAL_"))}
    return {
        **kept,
        NODE_VARIABLE: folder,
        "TMPDIR": os.path.join(folder, "tmp"),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": os.path.join(folder, TOKEN_FILE),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL": "minor",
        **HEALTH,
    }

"""What an agent is asked and what it answers. JSON on the way, so plain values only."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from typing import Any, NamedTuple

from shoal.errors import AgentRefused
from shoal.files import own_folder

LONGEST_FOLDER = 40
"""Ray keeps sockets a few folders deeper, and the whole path of a socket has at most 107 characters."""
ANSWER = "shoal-agent: "
"""What the line with an agent's answer begins with; a login shell may print lines of its own before it."""
TOKEN_FILE = "token"
NODE_FILE = "node.json"


class NodeRequest(NamedTuple):
    """A Ray node to start on a host. `address` is the head's; without one this is the head."""

    cluster: str
    host: str
    token: str
    address: str | None = None
    cpu: float | None = None
    memory_bytes: int | None = None
    gpu: float | None = None
    labels: Mapping[str, str] = {}
    driver: bool = False
    """Only there for a driver: it takes no work."""
    alone: bool = False
    """The whole cluster is on this machine: nobody outside needs to reach it."""
    speed: float | None = None
    """What to say of its speed; measured where it is not given."""
    versions: Mapping[str, str] = {}
    """What has to be there, as the driver has it: `python`, `shoal`, `ray`."""


class HostFacts(NamedTuple):
    """A machine, as an agent on it sees it."""

    name: str
    python: str
    """Major and minor version; the rest does not matter."""
    shoal: str
    ray: str | None
    cpu: float
    memory_bytes: int
    devices: tuple[str, ...]
    speed: float


class NodeFacts(NamedTuple):
    """A Ray node that runs on a host."""

    host: str
    address: str
    """The head's address: what other nodes join, and drivers connect to."""
    ip: str
    folder: str
    dashboard: str | None = None
    """Where Ray Jobs are taken, on the head's own loopback."""
    network: str | None = None
    """The namespace it is kept in, where it is kept in one."""
    started_s: float = 0.0
    """When it was up, by that host's clock: another start has another."""
    processes: tuple[int, ...] = ()
    has: Mapping[str, Any] = {}
    """The host's facts as they were when it started."""


def unknown_task(task: str) -> AgentRefused:
    """The error for a request that an agent does not know."""
    return AgentRefused(
        f"The Shoal there is older than this one: it does not know the request {task!r}.",
        hint="Install the same version of Shoal there as here.",
    )


def base_folder() -> str:
    """Where nodes keep their things on this host."""
    temporary = tempfile.gettempdir()
    return own_folder(temporary if len(temporary) <= LONGEST_FOLDER else "/tmp")


def node_folder(cluster: str, host: str) -> str:
    """Short, as sockets are under it; one for each node, as several may be on one machine."""
    digest = hashlib.blake2b(f"{cluster}/{host}".encode(), digest_size=5).hexdigest()
    return os.path.join(base_folder(), "ray", digest)

"""A Ray node on this host: what `ray start` gets, starting it, and ending it so that nothing is left."""

from __future__ import annotations

import fcntl
import hmac
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from shoal import namespaces
from shoal.cluster.agent import host_facts, processes
from shoal.cluster.agent.requests import (
    NODE_FILE,
    TOKEN_FILE,
    HostFacts,
    NodeFacts,
    NodeRequest,
    base_folder,
    node_folder,
)
from shoal.errors import ClusterError
from shoal.files import make_private, write_secret
from shoal.model.marks import DRIVER_ROLE, HEALTH, HOST_LABEL, NODE_VARIABLE, ROLE_LABEL, SPEED_LABEL

START_S = 120.0
RAY_WORKER_PORTS = range(10002, 20000)
"""Ray gives these to its workers: nothing of ours may be in the way."""
TOLD_LINES = 3
LEAST_STORE_BYTES = 80 << 20
MOST_STORE_BYTES = 1 << 30


def start(request: NodeRequest) -> NodeFacts:
    """The node, running: the one that runs already, or a new one. Leaves nothing behind when it cannot."""
    folder = node_folder(request.cluster, request.host)
    with _only_one(folder):
        found = host_facts.node_facts(folder)
        if found is not None and _is_wanted(found, request):
            _check_token(request, folder)
            return found
        _clear(folder)
        has = host_facts.host_facts(request.speed)
        _check_versions(request.versions, has)
        try:
            return _start(request, folder, has)
        except BaseException:
            _clear(folder)
            raise


def _check_token(request: NodeRequest, folder: str) -> None:
    """Whoever has another token would be turned away by Ray later, and in worse words."""
    with open(os.path.join(folder, TOKEN_FILE), encoding="ascii") as file:
        if not hmac.compare_digest(file.read(), request.token):
            raise _wrong_token()


def _wrong_token() -> ClusterError:
    return ClusterError(
        "The cluster does not accept the token that is known here.",
        hint="Copy the token from the machine that brought the cluster up; or end it there, and bring it up here.",
    )


def _is_wanted(found: NodeFacts, request: NodeRequest) -> bool:
    """Whether what runs is what was asked for: a head, or a member of the right cluster."""
    return found.dashboard is not None if request.address is None else found.address == request.address


def _check_versions(expected: Mapping[str, str], has: HostFacts) -> None:
    """Ray and what it carries only work between equals."""
    if has.ray is None:
        raise ClusterError("Ray is not installed there.", hint="Install it there: pip install 'shoal[ray]'")
    found = has._asdict()
    wrong = [
        f"{name} {found[name]} instead of {version}"
        for name, version in expected.items()
        if found[name] != version
    ]
    if wrong:
        raise ClusterError(
            f"Other versions are installed there: {', '.join(wrong)}.",
            hint="Install the same versions on every node; `python:` in the cluster file names another interpreter.",
        )


def _start(request: NodeRequest, folder: str, has: HostFacts) -> NodeFacts:
    os.makedirs(os.path.join(folder, "tmp"), mode=0o700)
    os.chmod(folder, 0o700)
    write_secret(os.path.join(folder, TOKEN_FILE), request.token)
    network = _network(request, folder)
    with namespaces.inside(network):
        ip = _own_address(request)
        if not request.token and not ip.startswith("127."):
            raise ClusterError(
                f"Refused to listen on {ip} without a token.", hint="This is a bug: please report it."
            )
        ports = Ports(free_port(), free_port()) if request.address is None else None
        command = ray_start(request, folder, ip, has, ports)
        environment = dict(command.environment)
        if network is not None:
            environment[namespaces.OUTSIDE] = _outside(request.cluster)
        _run(command.arguments, environment, folder)
    address = request.address or f"{ip}:{ports.head if ports else 0}"
    dashboard = f"127.0.0.1:{ports.dashboard}" if ports else None
    facts = NodeFacts(request.host, address, ip, folder, dashboard, network, time.time(), has=has._asdict())
    with open(os.path.join(folder, NODE_FILE), "w", encoding="utf-8") as file:
        json.dump(facts._asdict(), file)
    return host_facts.node_facts(folder) or facts


def _run(arguments: tuple[str, ...], environment: dict[str, str], folder: str) -> None:
    """To the end of `ray start`, which leaves the node's processes behind."""
    log = os.path.join(folder, "start.log")
    with open(log, "wb") as output:
        process = subprocess.Popen(
            arguments,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        processes.remember_session(folder, process.pid)
        try:
            code = process.wait(START_S)
        except subprocess.TimeoutExpired:
            raise ClusterError(f"Ray did not start within {START_S:g} s: {_last_words(log)}") from None
    if code != 0:
        words = _last_words(log)
        raise _wrong_token() if "InvalidAuthToken" in words else ClusterError(f"Ray did not start: {words}")


def _last_words(log: str) -> str:
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return " / ".join(lines[-TOLD_LINES:]) or "it said nothing"


def _network(request: NodeRequest, folder: str) -> str | None:
    """For a cluster of one machine: a namespace with nothing but loopback, where we may make one."""
    if not request.alone or not namespaces.possible():
        return None
    inside, outside = _inside(request.cluster), _outside(request.cluster)
    if request.address is not None:
        return inside if os.path.exists(inside) else None
    try:
        # A driver that brings its head back is in the old one, and so is this agent of its.
        with namespaces.inside(outside if namespaces.is_in(inside) else None):
            for path in (inside, outside):
                namespaces.forget(path)
            namespaces.keep(outside)
            namespaces.make_lonely(inside)
    except OSError:
        return None  # Root without the right to: Ray's token is what keeps others out.
    return inside


def _inside(cluster: str) -> str:
    return os.path.join(base_folder(), "ray", f"{cluster}.inside")


def _outside(cluster: str) -> str:
    return os.path.join(base_folder(), "ray", f"{cluster}.outside")


def _own_address(request: NodeRequest) -> str:
    """The address that others reach this host at."""
    if request.alone:
        return "127.0.0.1"
    if request.address is not None:
        return address_towards(request.address)
    reached = os.environ.get("SSH_CONNECTION", "").split()  # Client and its port, then this end.
    return reached[2] if len(reached) == 4 else address_towards("192.0.2.1:1")


def address_towards(address: str) -> str:
    """This host's own address on the way to another; nothing is sent."""
    host, _, port = address.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, int(port)))
        except OSError as error:
            raise ClusterError(f"There is no way from here to {address}: {error.strerror}.") from None
        return str(probe.getsockname()[0])


def free_port() -> int:
    """A port that nobody uses, and that Ray will not give to a worker."""
    while True:
        with socket.socket() as probe:
            probe.bind(("", 0))
            port = int(probe.getsockname()[1])
        if port not in RAY_WORKER_PORTS:
            return port


def stop(cluster: str, host: str) -> bool:
    """End the node, and remove everything that was put on this host for it. Whether there was anything."""
    folder = node_folder(cluster, host)
    with _only_one(folder):
        there = os.path.isdir(folder)
        _clear(folder)
        os.unlink(f"{folder}.lock")
    return there


def tidy(cluster: str) -> None:
    """What the nodes of a cluster share on this host goes, if none of them is left here that uses it."""
    inside = _inside(cluster)
    if inside not in host_facts.networks(os.path.dirname(inside)):
        for path in (inside, _outside(cluster)):
            namespaces.forget(path)


def _clear(folder: str) -> None:
    processes.end(folder)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _only_one(folder: str) -> Iterator[None]:
    """Two agents at once take turns."""
    for private in (base_folder(), os.path.dirname(folder)):
        make_private(private)
    path = f"{folder}.lock"
    while True:
        with open(path, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_still(path, lock.fileno()):
                yield
                return


def _is_still(path: str, descriptor: int) -> bool:
    """Whether the file has not been removed while we waited for it: whoever comes next takes another then."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


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

"""This process as a driver of a Ray cluster. The cluster's token, if it has one, is where Ray itself looks for it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shoal.engine.ray.nodes import alive
from shoal.errors import ClusterError, SpecError
from shoal.model import Node

logger = logging.getLogger(__name__)
_lock = Lock()
_printed: Callable[..., None] | None = None
"""How Ray itself prints."""
_users: dict[str, int] = {}
"""How many runs of this process use the connection that was made here, by its address. Ray allows one at a time."""
PATIENCE_S = 30.0
"""A node has to start a process for it, and Python in that."""


def connect(address: str, ip: str | None = None) -> None:
    """Connect to the cluster at `address`; `disconnect` has to follow. A connection that is there is shared."""
    try:
        import ray
    except ImportError:
        raise SpecError(
            "Clusters need the package ray, which is not installed.", hint="pip install 'shoal[ray]'"
        ) from None
    with _lock:
        if ray.is_initialized():
            _share(address)
        else:
            _begin(address, ip)


def _share(address: str) -> None:
    if not _users:
        return  # The user's own, made before: it stays.
    if address not in _users:
        raise SpecError(
            f"This process drives work on another cluster, at {next(iter(_users))}.",
            hint="Wait for that run to end, or use another process.",
        )
    _users[address] += 1


def _begin(address: str, ip: str | None) -> None:
    import ray
    from ray.exceptions import RayError

    own = {} if ip is None else {"_node_ip_address": ip}
    try:
        with _quiet():
            ray.init(
                address=address,
                namespace="shoal",
                log_to_driver=False,
                configure_logging=False,
                logging_level=logging.ERROR,
                **own,
            )
    except (ConnectionError, RuntimeError, ValueError, OSError, RayError) as error:
        with suppress(Exception):
            ray.shutdown()
        if any(_is_about_tokens(each) for each in _chain(error)):
            raise ClusterError(
                f"The Ray cluster at {address} asks for a token, and does not accept what is known here.",
                hint="Set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN_PATH to a file with the cluster's token.",
            ) from error
        raise ClusterError(
            f"No Ray cluster can be joined at {address}: {_first_line(error)}",
            hint="Is it up, can it be reached from here, and does RAY_AUTH_TOKEN_PATH name its token?",
        ) from error
    _users[address] = 1
    _print_with(_note)


def _print_with(way: Callable[..., None]) -> None:
    """Ray prints what it notices of nodes to standard output, where documents go. It has no switch for that."""
    from ray._private import worker

    global _printed
    if _printed is None:
        _printed = getattr(worker, "print_to_stdstream", None)
    if _printed is not None:
        worker.print_to_stdstream = way


def _note(data: Mapping[str, Any], *_: Any, **__: Any) -> None:
    logger.debug("Ray: %s", " ".join(map(str, data.get("lines", ()))))


@contextmanager
def _quiet() -> Iterator[None]:
    """Ray's libraries write remarks to the terminal that nobody can do anything about."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def disconnect(address: str) -> None:
    """A run is over. The last one that shares the connection ends it; one that was there before stays."""
    with _lock:
        if address not in _users:
            return
        _users[address] -= 1
        if _users[address] == 0:
            import ray

            del _users[address]
            ray.shutdown()
            if _printed is not None:
                _print_with(_printed)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and what led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_about_tokens(error: BaseException) -> bool:
    """Ray has a class for it, and in some places only the words."""
    from ray.exceptions import AuthenticationError

    return isinstance(error, AuthenticationError) or "InvalidAuthToken" in str(error)


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


class Answer(NamedTuple):
    """What one node gave, or why it gave nothing."""

    node: Node
    result: Any = None
    error: str = ""


def on_every_node(
    function: Callable[..., Any], arguments: Mapping[str, Any], timeout_s: float = PATIENCE_S
) -> dict[str, Answer]:
    """By host. The function is imported there, so it has to be one of Shoal's."""
    task = ray.remote(num_cpus=0, max_retries=0)(function)
    nodes = alive()
    asked = {
        host: task.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=identity, soft=False)
        ).remote(**arguments)
        for host, (identity, _) in nodes.items()
    }
    if not asked:
        return {}
    ready, late = ray.wait(list(asked.values()), num_returns=len(asked), timeout=timeout_s)
    for each in late:
        ray.cancel(each, force=True)
    return {host: _answer(nodes[host][1], each, each in ready, timeout_s) for host, each in asked.items()}


def _answer(node: Node, reference: Any, is_ready: bool, timeout_s: float) -> Answer:
    if not is_ready:
        return Answer(node, error=f"{node.host} did not answer within {timeout_s:g} s")
    try:
        return Answer(node, ray.get(reference))
    except RayError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return Answer(node, error=f"{node.host}: {lines[-1] if lines else type(error).__name__}")

"""What is done on the head of a cluster, through the agent there: runs that are handed to it, and notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from shoal.cluster import agent_calls
from shoal.cluster.base import Door
from shoal.errors import ClusterError


class AskHead(Protocol):
    """Asks the agent on the head; `payload` goes in behind the request."""

    def __call__(self, request: Mapping[str, Any], payload: bytes = b"") -> Any: ...


class Detached:
    """The detached runs of one cluster.

    `key` is what the cluster is called on its head, the same however often it was up. `described` is the cluster as
    drivers on the head know it, `ray` how the agent finds Ray there.
    """

    def __init__(
        self,
        key: str,
        ask: AskHead,
        described: Mapping[str, Any],
        ray: Mapping[str, Any],
        *,
        is_here: bool = False,
    ) -> None:
        self.key = key
        self.is_here = is_here
        """Whether the head is this machine: then runs need not travel."""
        self._ask = ask
        self._described = described
        self._ray = ray

    def ship(self, run: str, archive: bytes, *, new: bool = False) -> str:
        """Put a workload's folder on the head; the folder there. `AgentRefused` where a `new` run is there already."""
        request = {"do": "receive", "key": self.key, "run": run, "new": new, "as_cluster": self._described}
        return str(self._ask(request, archive))

    def submit(self, run: str, arguments: Sequence[str], **how: Any) -> str:
        """Start `shoal ARGUMENTS` on the head, as a job of the cluster. Returns when the run has begun: `running`.

        `queued` when what it needs first takes long. After an `AgentRefused` there is no such job; after another
        `ClusterError` there may be.
        """
        request = {"do": "submit", "key": self.key, "run": run, "arguments": list(arguments)}
        return str(self._ask({**request, **self._ray, **how}))

    def notebook(self) -> tuple[int, str]:
        """JupyterLab on the head, which has to be up: its port on the head's loopback, and its token."""
        found = self._ask({"do": "notebook", "key": self.key, **self._ray})
        return int(found["port"]), str(found["token"])

    def forget(self, run: str) -> None:
        """What was shipped for it goes."""
        self._ask({"do": "forget", "key": self.key, "run": run})


def ask_through(door: Door) -> AskHead:
    """Asks the agent behind a door."""

    def ask(request: Mapping[str, Any], payload: bytes = b"") -> Any:
        given = agent_calls.line(request) + payload
        done = door.run(
            ["python", "-m", "shoal.cluster.agent"], stdin=given, timeout_s=agent_calls.PATIENCE_S
        )
        if done.code != 0:
            words = done.errors.decode("utf-8", "replace").strip().splitlines()
            raise ClusterError(f"There is no Shoal on the head: {words[-1] if words else 'it said nothing'}")
        return agent_calls.answer(done.output, done.errors)

    return ask

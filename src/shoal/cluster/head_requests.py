"""What is asked of the head of a cluster: runs that were handed to it, and notebooks. The agent there answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shoal.cluster import agent_calls
from shoal.cluster.agent.requests import ANSWER
from shoal.cluster.base import Done, Door
from shoal.model import RunState

AGENT = ("python", "-m", "shoal.cluster.agent")
THERE = ("python", "-m", "shoal.cluster.agent.there")
LIST_S = 20.0
"""How long a list of runs waits for a head."""


class HeadRun(NamedTuple):
    """A run as its head knows it; as it is here, where the head does not know it yet."""

    state: RunState = RunState.QUEUED
    seconds: float = 0.0


class Detached:
    """The detached runs of one cluster.

    `key` is what the cluster is called on its head, the same however often it was up. `described` is the cluster as
    drivers on the head know it, `ray` how the agent finds Ray there. Each request raises `ClusterError` when the head
    cannot be reached, and `AgentRefused` when it can and does not do it.
    """

    def __init__(
        self,
        key: str,
        door: Door,
        described: Mapping[str, Any],
        ray: Mapping[str, Any],
        *,
        is_here: bool = False,
    ) -> None:
        self.key = key
        self.is_here = is_here
        """Whether the head is this machine: then runs need not travel."""
        self._door = door
        self._described = described
        self._ray = ray

    def ship(self, run: str, archive: bytes, *, new: bool = False) -> str:
        """Put a workload's folder on the head; the folder there. Refused where a `new` run is there already."""
        return str(self._ask("receive", archive, run=run, new=new, as_cluster=self._described))

    def submit(self, run: str, arguments: Sequence[str], **how: Any) -> str:
        """Start `shoal ARGUMENTS` on the head, as a job of the cluster. Returns when the run has begun: `running`.

        `queued` when what it needs first takes long. After an `AgentRefused` there is no such job; after another
        `ClusterError` there may be.
        """
        return str(self._ask("submit", run=run, arguments=list(arguments), **self._ray, **how))

    def runs(self) -> dict[str, HeadRun]:
        """The runs that are there, by id; `queued` are those that get ready."""
        found = self._ask("runs", timeout_s=LIST_S)
        return {each["run"]: HeadRun(RunState(each["state"]), each["seconds"]) for each in found}

    def files(self, run: str, item: str | None) -> bytes | None:
        """What a run, or one of its items, left behind: an archive. None where they left nothing."""
        done = self._do("files", run=run, item=item)
        before, mark, told = done.output.rpartition(ANSWER.encode())
        size = agent_calls.answer("files", mark + told if mark else b"", done.errors)
        return None if size is None else before[len(before) - size :]

    def report(self, run: str) -> str:
        """Have the report of a run written there: the page."""
        return str(self._ask("report", timeout_s=None, run=run))

    def remove(self, run: str) -> None:
        """Delete a run there, and what was shipped for it; one that is being driven is refused."""
        self._ask("remove", timeout_s=None, run=run)

    def attach(self, arguments: Sequence[str], *, aside: bool = False) -> int:
        """`shoal ARGUMENTS` there, on this terminal; `aside`, all that it prints is on stderr. Its exit code."""
        return self._door.attach([*THERE, "aside" if aside else "shoal", self.key, *arguments])

    def notebook(self) -> tuple[int, str]:
        """JupyterLab on the head, which has to be up: its port on the head's loopback, and its token."""
        found = self._ask("notebook", **self._ray)
        return int(found["port"]), str(found["token"])

    def _ask(
        self,
        task: str,
        payload: bytes = b"",
        timeout_s: float | None = agent_calls.PATIENCE_S,
        **request: Any,
    ) -> Any:
        """What the agent answers; `payload` goes in behind the request."""
        done = self._do(task, payload, timeout_s, **request)
        return agent_calls.answer(task, done.output, done.errors)

    def _do(self, task: str, payload: bytes = b"", timeout_s: float | None = None, **request: Any) -> Done:
        given = agent_calls.line({"do": task, "key": self.key, **request}) + payload
        return self._door.run(AGENT, stdin=given, timeout_s=timeout_s)

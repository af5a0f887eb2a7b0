"""The docker command line: argument lists in, text out, and what its refusals mean. Knows nothing of clusters."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from shoal.cluster.base import Done
from shoal.errors import ClusterError

TIMEOUT_S = 120.0


class Docker:
    """One docker, by the name of its context; None is the current one."""

    def __init__(self, context: str | None = None, program: Sequence[str] = ("docker",)) -> None:
        self.command = [*program, *(["--context", context] if context else [])]

    def call(self, *arguments: str, stdin: bytes = b"", timeout_s: float | None = TIMEOUT_S) -> Done:
        """Run it to its end, whatever the end is."""
        try:
            done = subprocess.run(
                [*self.command, *arguments], input=stdin, capture_output=True, timeout=timeout_s, check=False
            )
        except FileNotFoundError:
            raise ClusterError(
                "docker is not installed here.", hint="Install Docker's command line."
            ) from None
        except subprocess.TimeoutExpired:
            raise ClusterError(f"docker {arguments[0]} did not answer within {timeout_s:g} s.") from None
        return Done(done.returncode, done.stdout, done.stderr)

    def do(self, what: str, *arguments: str, stdin: bytes = b"") -> str:
        """What it printed; raises `ClusterError` when it failed. `what` says what it was to do."""
        done = self.call(*arguments, stdin=stdin)
        if done.code != 0:
            raise _refusal(what, done.errors.decode(errors="replace").strip())
        return done.output.decode(errors="replace").strip()

    def objects(self, what: str, *arguments: str) -> list[dict[str, Any]]:
        """What `docker ... inspect` printed, as values; what went since it was listed is left out."""
        done = self.call(*arguments)
        said = done.errors.decode(errors="replace").strip()
        if done.code != 0 and "not found" not in said and "no such" not in said.lower():
            raise _refusal(what, said)
        found: list[dict[str, Any]] = json.loads(done.output or b"[]")
        return found


def _refusal(what: str, said: str) -> ClusterError:
    lowered = said.lower()
    if "cannot connect to the docker daemon" in lowered or "permission denied" in lowered:
        return ClusterError(
            f"docker cannot {what}: {said.rstrip('.')}.",
            hint="Is its engine running, and may you use it? `docker info` must work; context: names another one.",
        )
    if "not a swarm manager" in lowered:
        return ClusterError(
            "This Docker engine is not a manager of a swarm.",
            hint="Make one with docker swarm init and docker swarm join, or name a manager's context:.",
        )
    return ClusterError(f"docker cannot {what}: {said.rstrip('.') or 'it gives no reason'}.")

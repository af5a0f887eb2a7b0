"""Asking the agent of a host: the request goes in on stdin, and the answer is a marked line of what it prints."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Protocol

from shoal.cluster.agent.requests import ANSWER, unknown_task
from shoal.errors import AgentRefused, ClusterError

AGENT = (sys.executable, "-m", "shoal.cluster.agent")
PATIENCE_S = 180.0
LEAVE_S = 30.0
_log = logging.getLogger(__name__)


class Hosts(Protocol):
    """A way to the agents of hosts."""

    def ask(self, host: str, request: Mapping[str, Any]) -> Any:
        """What the agent answers.

        Raises `ClusterError` when it cannot be reached, and `AgentRefused` when it answers with an error.
        """


class ThisMachine:
    """Every host is this machine: for clusters on one."""

    patience_s = PATIENCE_S

    def ask(self, host: str, request: Mapping[str, Any]) -> Any:
        try:
            done = subprocess.run(
                AGENT, input=line(request), capture_output=True, timeout=self.patience_s, check=False, cwd="/"
            )
        except subprocess.TimeoutExpired:
            raise ClusterError(f"{host}: the agent did not answer within {self.patience_s:g} s.") from None
        return answer(request["do"], done.stdout, done.stderr)


class Held:
    """A node of this machine that lives as long as this process, or until `leave`."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._process = subprocess.Popen(
            AGENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # Ctrl-C is for the driver, which still needs it.
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line({"do": "hold", **request}))
        self._process.stdin.flush()
        try:
            self.facts = answer("hold", self._process.stdout.readline(), b"")
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
            try:
                self._process.wait(timeout=LEAVE_S)
            except subprocess.TimeoutExpired:
                _log.warning(
                    "The node of this driver has not ended after %g s; its agent goes on trying.", LEAVE_S
                )
            assert self._process.stdout is not None
            self._process.stdout.close()


def line(request: Mapping[str, Any]) -> bytes:
    return json.dumps(request).encode() + b"\n"


def answer(task: str, printed: bytes, complaints: bytes) -> Any:
    """What it found, from what it printed. Older agents end with a `KeyError` where they do not know a task."""
    output, errors = printed.decode("utf-8", "replace"), complaints.decode("utf-8", "replace")
    told = next((text for text in reversed(output.splitlines()) if text.startswith(ANSWER)), None)
    if told is None:
        words = [text.strip() for text in (errors or output).splitlines() if text.strip()]
        if words[-1:] == [f"KeyError: {task!r}"]:
            raise unknown_task(task)
        raise ClusterError(f"The agent there did not answer: {words[-1] if words else 'it said nothing'}")
    try:
        found = json.loads(told.removeprefix(ANSWER))
    except ValueError:
        raise ClusterError("The agent there was cut off while it answered.") from None
    if "error" in found:
        raise AgentRefused(found["error"], hint=found.get("hint"))
    return found["ok"]

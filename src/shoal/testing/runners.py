"""A runner that does what each item's parameters say: for tests of engines that run real code.

`shoal.testing.simulated` gives the same behaviour to the simulation. Loaded in workers: keep it light.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from shoal.engine.workers.runner import Broken, Cancelled, NoRoom, Work

TARGET = "shoal.testing.runners:Scripted"


class Scripted:
    """The item's `do` is one of `_ACTIONS`, or `blob`: the content of the factory's blob as a metric, or `tell`: the
    worker's facts are those of the item from then on."""

    def __init__(
        self,
        start_s: float = 0.0,
        fail_start: bool = False,
        blob: bytes = b"",
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self._blob = blob
        self.facts = dict(facts or {})
        time.sleep(start_s)
        if fail_start:
            raise RuntimeError("the factory was told to fail")

    def run(self, work: Work) -> Mapping[str, Any] | None:
        if work.params.get("do") == "blob":
            return {"value": self._blob.decode()}
        if work.params.get("do") == "tell":
            self.facts = work.params["facts"]
            return None
        return _ACTIONS[work.params.get("do", "sleep")](work)


def _sleep(work: Work) -> Mapping[str, Any]:
    """`seconds`, then `value` as a metric."""
    time.sleep(work.params.get("seconds", 0.0))
    return {"value": work.params.get("value")}


def _raise(work: Work) -> None:
    raise ValueError(work.params.get("message", "told to fail"))


def _exit(work: Work) -> None:
    """Leave without a word, as `os._exit` in user code does."""
    time.sleep(work.params.get("seconds", 0.0))
    os._exit(work.params.get("status", 1))


def _signal(work: Work) -> None:
    """Die of a signal: `name` is SIGSEGV, SIGKILL, ..."""
    time.sleep(work.params.get("seconds", 0.0))
    os.kill(os.getpid(), getattr(signal, work.params.get("name", "SIGKILL")))
    time.sleep(60)


def _leave(work: Work) -> None:
    """Say that there is no room for this worker."""
    time.sleep(work.params.get("seconds", 0.0))
    raise NoRoom("told to leave")


def _break(work: Work) -> None:
    """Say that this process is of no use any more."""
    time.sleep(work.params.get("seconds", 0.0))
    raise Broken("told to break")


def _hang(work: Work) -> None:
    while True:
        time.sleep(0.02)


def _stubborn(work: Work) -> None:
    """Hang, and listen neither to a request to end nor to SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        try:
            while True:
                time.sleep(0.02)
        except (Cancelled, KeyboardInterrupt):
            continue


def _babble(work: Work) -> None:
    """Write to every socket that this process has, and stay."""
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):
            if stat.S_ISSOCK(os.stat(int(name)).st_mode):
                os.write(int(name), b"told to babble\n")
    _hang(work)


def _report(work: Work) -> Mapping[str, Any]:
    """`n` reports with the steps 0, 1, ...; `seconds` is the time for all of them; `hang` makes it stay."""
    count = work.params.get("n", 3)
    for step in range(count):
        time.sleep(work.params.get("seconds", 0.0) / count)
        work.report({"value": step, "last": step}, step)
    while work.params.get("hang", False):
        time.sleep(0.02)
    return {"value": count}


def _print(work: Work) -> None:
    """`text`, `n` times."""
    for _ in range(work.params.get("n", 1)):
        sys.stdout.write(work.params.get("text", "hello") + "\n")
    sys.stdout.flush()


def _env(work: Work) -> Mapping[str, Any]:
    """The environment variable `name` as a metric."""
    return {"value": os.environ.get(work.params["name"])}


_ACTIONS: dict[str, Callable[[Work], Mapping[str, Any] | None]] = {
    "sleep": _sleep,
    "raise": _raise,
    "exit": _exit,
    "signal": _signal,
    "leave": _leave,
    "break": _break,
    "hang": _hang,
    "stubborn": _stubborn,
    "babble": _babble,
    "report": _report,
    "print": _print,
    "env": _env,
}

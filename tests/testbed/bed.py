"""The test bed: hosts, the network between them, and their end. What tests hold; the work is the keeper's."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testbed import wire
from testbed.blueprint import BedPlan, HostPlan
from testbed.furniture import STRANGER
from testbed.host import Host
from testbed.keeper import clear_away
from testbed.requirements import SYSTEM_PATH, why_not_here

TESTS = Path(__file__).resolve().parents[1]
ENDED_WITHIN_S = 30.0


class CannotStart(Exception):  # noqa: N818 it reads as a sentence in the tests
    """The bed cannot be had here, with the reason; or a host did not start."""


class Testbed:
    """Hosts by name. Everything is up when the constructor returns, and nothing is left after `close()`.

    `delay_ms` has the delay of packets from the first to the second host of a pair, and back, unless the way back
    has its own entry. `visible` names further folders that all hosts see, read-only, under the same path.
    """

    __test__ = False  # pytest takes any class called Test... for one of its own

    def __init__(
        self,
        hosts: Sequence[str],
        *,
        delay_ms: Mapping[tuple[str, str], float] | None = None,
        visible: Sequence[Path] = (),
    ) -> None:
        reason = why_not_here()
        if reason is not None:
            raise CannotStart(reason)
        check_names(hosts)
        self.plan = make_plan(hosts, visible)
        self._hosts = {plan.name: Host(self, plan) for plan in self.plan.hosts}
        self._delays_ms = both_ways(delay_ms or {})
        self._lock = threading.Lock()
        self._asked = 0
        self._group: Path | None = None
        self._keeper, self._control = start_keeper(self.plan)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        group = self.ask("furnish")
        self._group = None if group is None else Path(group)
        for name, pid in self.ask("boot", *self._hosts).items():
            self._hosts[name].set_init(pid)
        for (source, target), delay_ms in self._delays_ms.items():
            self.delay(source, target, delay_ms)

    def __getitem__(self, name: str) -> Host:
        return self._hosts[name]

    def __iter__(self) -> Iterator[Host]:
        return iter(self._hosts.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def keeper_pid(self) -> int:
        """The process that holds the bed."""
        return self._keeper.pid

    @property
    def stranger_key(self) -> str:
        """The name in `~/.ssh` of a private key that no host lets in."""
        return STRANGER

    def delay(self, source: str, target: str, delay_ms: float, *, both: bool = False) -> None:
        """From now on, packets from one host take that long to the other; `both` sets the way back, too."""
        for one, other in [(source, target), (target, source)][: 2 if both else 1]:
            self.ask("delay", self[one].name, self[other].name, delay_ms / 1000)

    def cut(self, source: str, target: str, *, both: bool = False) -> None:
        """Drop packets from one host to the other, but not those of the way back, unless `both`."""
        self._cut(source, target, both, cut=True)

    def mend(self, source: str, target: str, *, both: bool = False) -> None:
        """Undo `cut` for a direction."""
        self._cut(source, target, both, cut=False)

    def _cut(self, source: str, target: str, both: bool, *, cut: bool) -> None:
        for one, other in [(source, target), (target, source)][: 2 if both else 1]:
            self.ask("cut link", self[one].name, self[other].name, cut)

    def reset(self) -> None:
        """As it was at first, for the next test that shares the bed: all hosts up, no cut, no limit, first delays.

        Files and processes stay.
        """
        for host in self:
            host.boot()
            host.mend()
            if self._group is not None:
                host.limit_cpu(None)
        for one in self._hosts:
            for other in self._hosts:
                self.delay(one, other, self._delays_ms.get((one, other), 0.0))
                self.mend(one, other)

    def group_of(self, host: str) -> Path | None:
        """The cgroup of a host, where there may be one."""
        return None if self._group is None else self._group / host

    def ask(self, *request: Any) -> Any:
        """Have the keeper do something. May be called from several threads."""
        with self._lock:
            self._asked += 1
            try:
                said = wire.ask(self._control, [self._asked, *request])
                while said is not None and said["to"] != self._asked:  # an earlier call was interrupted
                    said, _ = wire.receive(self._control)
            except OSError:
                said = None
        if said is None:
            raise CannotStart("The keeper of the bed is gone; it was closed, or killed.")
        if "error" in said:
            raise CannotStart(said["error"])
        return said["answer"]

    def close(self) -> None:
        """End every process of the bed and remove all its files. May be called twice."""
        for host in self:
            host.set_init(None)
        with suppress(OSError):
            wire.send(self._control, [0, "close"])
        self._control.close()
        self._keeper.wait(ENDED_WITHIN_S)
        for host in self:
            host.collect()
        clear_away(self.plan.scratch, self._group)  # the keeper did, unless it was killed


def check_names(hosts: Sequence[str]) -> None:
    for name in hosts:
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", name) or name == "localhost":
            raise ValueError(
                f"{name!r} is no name for a host: small letters, digits and `-`, a letter first."
            )
    if len(set(hosts)) != len(hosts) or not 1 <= len(hosts) <= 200:
        raise ValueError(f"1 to 200 hosts with different names must be given, but got {list(hosts)}")


def make_plan(hosts: Sequence[str], visible: Sequence[Path]) -> BedPlan:
    bed = secrets.token_hex(4)
    subnet = secrets.randbelow(256)
    environment = [TESTS.parent, Path(sys.prefix), Path(sys.base_prefix)]
    return BedPlan(
        id=bed,
        scratch=Path(tempfile.mkdtemp(prefix=f"shoal-bed-{bed}-")),
        owner_pid=os.getpid(),
        hosts=tuple(HostPlan(name, f"10.88.{subnet}.{number}") for number, name in enumerate(hosts, start=1)),
        visible=tuple(sorted(os.path.realpath(path) for path in (*environment, *visible))),
        path=f"{sys.prefix}/bin:{SYSTEM_PATH}",
    )


def both_ways(delay_ms: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    back = {(target, source): each for (source, target), each in delay_ms.items()}
    return {**back, **delay_ms}


def start_keeper(plan: BedPlan) -> tuple[subprocess.Popen[bytes], Any]:
    """A session of its own: Ctrl-C in the terminal is for the tester, who closes the bed."""
    ours, theirs = wire.pair()
    with open(plan.scratch / "keeper.log", "wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-S", "-m", "testbed.keeper", str(theirs.fileno()), plan.id],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={"PYTHONPATH": str(TESTS), "PATH": SYSTEM_PATH, "LANG": "C.UTF-8"},
            cwd="/",
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    theirs.close()
    wire.send(ours, plan.to_json())
    return keeper, ours

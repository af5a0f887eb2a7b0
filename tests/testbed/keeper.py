"""The process that starts everything of a bed and takes it away again, also when the tester is killed with SIGKILL.

It is the parent of the switch and of every host's first process, which the kernel kills when the keeper dies. Tests
never speak to it: `bed.py` does.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from testbed import cgroups, furniture, hostinit, linux, switch, wire
from testbed.blueprint import BedPlan

UP_WITHIN_S = 30.0
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Keeper:
    """What is running now. One request at a time."""

    def __init__(self, plan: BedPlan) -> None:
        self.plan = plan
        self.hosts = {host.name: host for host in plan.hosts}
        self.group: Path | None = None
        self.inits: dict[str, int] = {}
        self.own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self.switch, self.switch_pid = start_switch(plan)

    def obey(self, request: list[Any]) -> Any:
        match request:
            case ["furnish"]:
                furniture.furnish(self.plan)
                self.group = cgroups.create(self.plan.id, tuple(self.hosts))
                return None if self.group is None else str(self.group)
            case ["boot", *names]:
                return self.boot(names)
            case ["kill", name]:
                return self.kill(name)
            case _:
                return wire.ask(self.switch, request)

    def boot(self, names: list[str]) -> dict[str, int]:
        """Start hosts side by side, all or none. Their first processes, as seen from here."""
        reports = {name: self.start_init(name) for name in names}
        try:
            self.wait_for(reports)
        except BaseException:
            for name in names:
                self.kill(name)
            raise
        return {name: self.inits[name] for name in names}

    def wait_for(self, reports: dict[str, socket.socket]) -> None:
        """Until all listen, each plugged in as soon as it has its device."""
        for name, report in reports.items():
            tun, descriptors = hear(report, name)
            if tun != "tun":
                raise RuntimeError(f"{name} did not start: {tun}")
            wire.ask(self.switch, ["plug", name], descriptors)
            os.close(descriptors[0])
        for name, report in reports.items():
            said, _ = hear(report, name)
            if said != "up":
                raise RuntimeError(f"{name} did not start: {said}")
            report.close()

    def start_init(self, name: str) -> socket.socket:
        ours, theirs = wire.pair()
        linux.unshare(linux.NEW_PIDS)  # of the children; the keeper stays where it is
        pid = os.fork()
        if pid == 0:
            become_child(theirs)
            group = None if self.group is None else self.group / name
            hostinit.main(self.plan, self.hosts[name], group, theirs)
        linux.set_namespace(self.own_pids, linux.NEW_PIDS)
        theirs.close()
        self.inits[name] = pid
        return ours

    def kill(self, name: str) -> None:
        """First off the network: the others must not hear that connections were closed. Gone when it returns."""
        wire.ask(self.switch, ["unplug", name])
        pid = self.inits.pop(name)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def close(self) -> None:
        for pid in [*self.inits.values(), self.switch_pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in [*self.inits.values(), self.switch_pid]:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        clear_away(self.plan.scratch, self.group)


def start_switch(plan: BedPlan) -> tuple[socket.socket, int]:
    ours, theirs = wire.pair()
    pid = os.fork()
    if pid == 0:
        linux.die_with_parent(signal.SIGKILL)
        become_child(theirs)
        switch.main({host.name: host.address for host in plan.hosts}, theirs)
        os._exit(0)
    theirs.close()
    return ours, pid


def become_child(kept: socket.socket) -> None:
    """After a fork: nothing of the keeper but one socket."""
    for number in ENDS:
        signal.signal(number, signal.SIG_DFL)
    os.closerange(3, kept.fileno())
    os.closerange(kept.fileno() + 1, 1 << 16)


def hear(report: socket.socket, name: str) -> tuple[Any, list[int]]:
    report.settimeout(UP_WITHIN_S)
    try:
        return wire.receive(report)
    except TimeoutError:
        return f"nothing was heard of {name} for {UP_WITHIN_S:.0f} s", []


def clear_away(scratch: Path, group: Path | None) -> None:
    """What is left of a bed whose processes have ended. May be called twice."""
    if group is not None:
        cgroups.remove(group)
    shutil.rmtree(scratch, ignore_errors=True)


def serve(keeper: Keeper, control: socket.socket, owner: int) -> None:
    """Until the owner asks for the end, closes its socket, or dies."""
    while True:
        ready, _, _ = select.select([control.fileno(), owner], [], [])
        if control.fileno() not in ready:
            return
        packet, _ = wire.receive(control)
        if packet is None or packet[1:] == ["close"]:
            return
        number, *request = packet
        try:
            answer = {"to": number, "answer": keeper.obey(request)}
        except Exception as error:  # noqa: BLE001 the owner raises it again, in the test
            answer = {"to": number, "error": f"{type(error).__name__}: {error}"}
        with suppress(ConnectionError):
            wire.send(control, answer)


def main(control_descriptor: int) -> None:
    """`python -m testbed.keeper DESCRIPTOR BED`: the bed's id is there to be seen in lists of processes."""
    control = socket.socket(fileno=control_descriptor)
    value, _ = wire.receive(control)
    if value is None:
        return
    plan = BedPlan.from_json(value)
    for number in ENDS:
        signal.signal(number, lambda *_: sys.exit(1))
    owner = os.pidfd_open(plan.owner_pid)
    keeper = Keeper(plan)
    try:
        serve(keeper, control, owner)
    finally:
        keeper.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))

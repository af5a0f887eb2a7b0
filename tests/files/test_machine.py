"""A machine is told apart from others that have its name, and from containers on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from shoal.files import machine

PROGRAM = "from shoal.files.machine import machine_identity as i, machine_name as n; print(n(), i())"


def asked(*before: str) -> list[str]:
    command = [*before, sys.executable, "-c", PROGRAM]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.split()


def test_processes_that_see_each_other_agree() -> None:
    assert asked() == [machine.machine_name(), machine.machine_identity()]


@pytest.mark.root
def test_other_mounts_are_another_identity_on_the_same_machine() -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare, to have mounts of its own")
    name, identity = asked("unshare", "--mount")
    assert name == machine.machine_name()
    assert identity != machine.machine_identity()


def test_where_the_system_says_nothing_the_name_of_the_host_has_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = machine.machine_identity()
    monkeypatch.setattr(machine, "_read", lambda path: "")
    monkeypatch.setattr(machine, "_link", lambda path: "")
    alone = machine.machine_identity()
    assert len(alone) == len(usual)
    assert alone != usual
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "other", "", "", "")))
    assert machine.machine_identity() != alone


def test_a_process_that_has_ended_and_that_nobody_waited_for_is_not_alive() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert os.path.exists(f"/proc/{child.pid}")
    assert machine.process_start(child.pid) is None
    child.wait()

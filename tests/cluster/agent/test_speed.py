"""How fast a host is: its core, and the time it gets on it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.cluster.agent import host_facts as module
from shoal.cluster.agent.host_facts import speed

QUOTA = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
PROGRAM = "from shoal.cluster.agent.host_facts import host_facts; facts = host_facts(); print(facts.speed, facts.cpu)"


@pytest.mark.serial
def test_a_host_that_takes_twice_the_time_for_the_same_work_is_half_as_fast(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work, once = module._work, speed()
    monkeypatch.setattr(module, "_work", lambda: (work(), work()))
    assert speed() == pytest.approx(once / 2, rel=0.25)


@pytest.fixture
def half() -> Iterator[Path]:
    """A control group that gets half a CPU's time."""
    if not os.access(QUOTA, os.W_OK):
        pytest.skip("needs control groups (version 1) that it may make")
    group = QUOTA.parent / f"shoal-test-{os.getpid()}"
    group.mkdir()
    (group / QUOTA.name).write_text("50000")
    yield group
    group.rmdir()


@pytest.mark.root
def test_half_a_cpu_is_half_the_speed(half: Path) -> None:
    def measured(group: Path) -> list[float]:
        program = f"open({str(group / 'cgroup.procs')!r}, 'w').write('0'); {PROGRAM}"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        return [float(text) for text in done.stdout.split()]

    slow, cpus = measured(half)
    fast = max(measured(half.parent)[0] for _ in range(3))  # Others may have had the core meanwhile.
    assert cpus == 0.5
    assert slow / fast == pytest.approx(0.5, rel=0.25)

"""How fast a host is: its core, and the time it gets on it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.cluster.agent import host_facts as module
from shoal.cluster.agent.host_facts import Round, speed, time_share

QUOTA = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
PROGRAM = "from shoal.cluster.agent.host_facts import host_facts; facts = host_facts(); print(facts.speed, facts.cpu)"


def rounds(quota_s: float, first_s: float, total_s: float = 0.45, period_s: float = 0.1) -> list[Round]:
    """Rounds of 2 ms under a quota: `first_s` of CPU time is left in the period in which they begin."""
    found: list[Round] = []
    now_s, left_s, next_s = 0.0, first_s, period_s / 2
    while now_s < total_s:
        began_s, needed_s = now_s, 0.002
        while needed_s > 0:
            if left_s <= 0:
                now_s, left_s, next_s = next_s, quota_s, next_s + period_s
            step_s = min(needed_s, left_s, next_s - now_s)
            now_s, left_s, needed_s = now_s + step_s, left_s - step_s, needed_s - step_s
            if now_s >= next_s:
                left_s, next_s = quota_s, next_s + period_s
        found.append(Round(now_s, now_s - began_s, 0.002))
    return found


@pytest.mark.parametrize("first_s", [0.0, 0.01, 0.03, 0.05])
@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.8])
def test_the_share_of_a_quota_is_seen_wherever_in_a_period_the_measuring_begins(
    share: float, first_s: float
) -> None:
    assert time_share(rounds(share * 0.1, first_s)) == pytest.approx(share, abs=0.05)


def test_waiting_for_ones_turn_among_others_is_no_quota() -> None:
    assert time_share([Round(number * 0.014, 0.014, 0.005) for number in range(30)]) == 1.0


def test_standstills_that_come_at_any_moment_are_no_quota() -> None:
    found, now_s = [], 0.0
    for number in range(60):
        wall_s = 0.03 if number in (5, 17, 20, 33, 51) else 0.005
        now_s += wall_s
        found.append(Round(now_s, wall_s, 0.005))
    assert time_share(found) == 1.0


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

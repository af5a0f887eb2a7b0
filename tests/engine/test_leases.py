"""Several drivers, one machine: who gets what, and what happens when one of them dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.engine import claims
from shoal.engine.claims import Ask
from shoal.engine.local import leases
from shoal.engine.local.leases import PATIENCE_S, Leases
from shoal.errors import CannotPlace
from shoal.files.machine import process_start
from shoal.model import Need, Node, Place

NODES = [Node("here", 2, 1 << 34, gpu=2)]
WANTS = st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 64), min_size=1)


@given(st.floats(0.5, 64), WANTS)
def test_nobody_gets_more_than_wanted_and_nothing_is_left_that_somebody_wants(
    total: float, wants: dict[str, float]
) -> None:
    found = claims.fair_shares(total, wants)
    assert all(0 <= found[name] <= wants[name] + 1e-6 for name in wants)
    assert sum(found.values()) == pytest.approx(min(total, sum(wants.values())), abs=1e-6)
    unmet = [found[name] for name in wants if found[name] < wants[name] - 1e-6]
    assert not unmet or max(found.values()) <= min(unmet) + 1e-6, "someone has more while another lacks"


@pytest.fixture
def table(tmp_path: Path) -> str:
    return str(tmp_path / "table" / "leases.json")


def take(driver: Leases, count: int = 1, waited_s: float = 0.0, need: Need = Need()) -> tuple[Place, ...]:  # noqa: B008
    """The places, which have workers from then on; what is not granted is waited for."""
    settled = driver.settle([Ask(1, (need,) * count, 0.0)], driver._claim.holds, waited_s)
    driver.settle([] if settled.granted else [Ask(1, (need,) * count, 0.0)], driver._claim.holds, waited_s)
    return settled.granted.get(1, ())


def owed(driver: Leases) -> int:
    """How many of its places others are owed."""
    return len(driver.settle([], driver._claim.holds, 0.0).recalled)


def test_one_driver_may_have_the_whole_machine_while_it_is_alone(table: str) -> None:
    driver = Leases(NODES, "machine", table)
    assert take(driver)
    assert take(driver)
    assert not take(driver)


def test_a_second_driver_is_owed_half_and_the_first_is_told_so(table: str) -> None:
    first, second = Leases(NODES, "machine", table), Leases(NODES, "machine", table)
    places = take(first, 2)
    assert not take(second)
    assert first.changed()
    assert owed(first) == 1
    first.give(places[1])
    assert not take(first), "what was given back for another must not be taken again"
    assert take(second)
    assert owed(first) == 0


def test_drivers_of_other_nodes_do_not_count(table: str) -> None:
    first, second = Leases(NODES, "machine", table), Leases(NODES, "cluster lab", table)
    assert take(first, 2)
    assert take(second, 2)


def test_a_driver_that_holds_nothing_is_not_stuck_for_ever(table: str) -> None:
    first, second = Leases(NODES, "machine", table), Leases(NODES, "machine", table)
    assert take(first, 2)
    assert not take(second)
    assert take(second, waited_s=PATIENCE_S)
    assert not take(second, waited_s=PATIENCE_S), "only the first worker may exceed the machine"


def test_devices_are_never_shared_between_drivers(table: str) -> None:
    first, second = Leases(NODES, "machine", table), Leases(NODES, "machine", table)
    one = take(first, need=Need(cpu=0.5, gpu=1))
    two = take(second, need=Need(cpu=0.5, gpu=1))
    assert {one[0].devices, two[0].devices} == {("0",), ("1",)}


def test_what_a_dead_driver_held_is_free_again(table: str) -> None:
    program = (
        "import os, sys\n"
        "from shoal.engine.claims import Ask\n"
        "from shoal.engine.local.leases import Leases\n"
        "from shoal.model import Need, Node\n"
        "leases = Leases([Node('here', 2, 1 << 34, gpu=2)], 'machine', sys.argv[1])\n"
        "assert leases.settle([Ask(1, (Need(), Need()), 0.0)], (), 0.0).granted\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", program, table])
    assert len(json.loads(Path(leases.numbered(table)).read_text())) == 1
    assert take(Leases(NODES, "machine", table), 2)


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b"\xff\xfe", b'{"x": 3}'], ids=repr)
def test_a_damaged_table_heals(table: str, damage: bytes) -> None:
    first, second = Leases(NODES, "machine", table), Leases(NODES, "machine", table)
    assert take(first)
    Path(leases.numbered(table)).write_bytes(damage)
    assert owed(first) == 0
    assert take(second)
    assert not take(second), "the first driver's entry is back in the table"


def test_the_table_is_for_its_owner_only(table: str) -> None:
    assert take(Leases(NODES, "machine", table))
    assert os.stat(leases.numbered(table)).st_mode & 0o077 == 0
    assert os.stat(os.path.dirname(table)).st_mode & 0o077 == 0


def test_a_driver_that_is_suspended_with_the_table_locked_holds_up_nobody(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LOCKED_S", 0.1)
    sleeper, driver = Leases(NODES, "machine", table), Leases(NODES, "machine", table)
    with sleeper._table():
        assert take(driver, 2)
    assert sleeper.changed()
    assert not take(sleeper), (
        "it wrote to a table that nobody reads any more, and does not know of the new one"
    )
    driver.close()
    assert take(sleeper)


@pytest.mark.parametrize("protocol", [None, 99])
def test_a_driver_of_another_protocol_that_is_at_work_here_is_said(protocol: int | None) -> None:
    table = leases.table_path()
    other = Path(table if protocol is None else leases.numbered(table, protocol))
    entry = {"pid": os.getpid(), "start": process_start(os.getpid()), "scope": "machine"}
    other.write_text(json.dumps({"x": entry}))
    with pytest.raises(CannotPlace, match=f"Another version of Shoal.*process {os.getpid()}") as error:
        leases.ensure_understood("machine")
    assert error.value.exit_code == 2
    leases.ensure_understood("another machine")
    other.write_text(json.dumps({"x": {**entry, "start": "long ago"}}))
    take(Leases(NODES, "machine", table))
    leases.ensure_understood("machine")

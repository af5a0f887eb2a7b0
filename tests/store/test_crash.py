"""Real processes, really killed: what was committed is there, whole, and another driver can go on."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from shoal.model import Item, Outcome
from shoal.store import RunStore, list_runs

BATCH = 200
DRIVER = f"""
import sys
from shoal.model import Item, LogSlice, Outcome
from shoal.store import RunStore, list_runs

home, run = sys.argv[1], sys.argv[2]
if run:
    store = RunStore.open(home, run, write=True, now=2.0)
else:
    store = RunStore.create(home, name="x", kind="sweep", spec_text="", document={{}}, token=lambda: "0000", now=1.0)
store.set_state("running", 2.0)
journal = store.journal()
seq = store.max_seq()
print("begin", seq, flush=True)
while True:
    items = [Item(seq + i, f"t{{seq + i}}", {{"lr": seq + i}}) for i in range(1, {BATCH} + 1)]
    journal.add(items)
    for item in items[:-1]:
        journal.started(item.seq, 1, "node0", 2.0, LogSlice("w.log", 1))
        journal.progressed(item.seq, 1, 2.0, {{"loss": 1}}, 1)
        journal.ended(item.seq, 1, 0, "node0", 2.0, Outcome("done", {{"accuracy": item.seq}}, None, 0.1))
    journal.started(items[-1].seq, 1, "node0", 2.0, None)
    journal.commit()
    seq += {BATCH}
    print("committed", seq, flush=True)
"""


def killed_after(home: str, run: str, seconds: float) -> int:
    """Drive the run until it is killed; the highest seq that the driver said was committed."""
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, home, run], stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        said = driver.stdout.readline().split()
        assert said[0] == "begin"
        timer = threading.Timer(seconds, driver.send_signal, [signal.SIGKILL])
        timer.start()
        lines = driver.stdout.read().rpartition("\n")[0].splitlines()  # The last may be cut off.
        timer.join()
    whole = [line for line in lines if line.startswith("committed ")]
    return int(whole[-1].split()[1]) if whole else int(said[1])


def test_killed_at_any_moment_a_driver_loses_nothing_committed_and_leaves_nothing_half(
    tmp_path: Path,
) -> None:
    home, run, chance = str(tmp_path / ".shoal"), "", random.Random(7)
    for turn in range(1, 9):
        promised = killed_after(home, run, chance.uniform(0.0, 0.25))
        (summary,) = list_runs(home)
        run = summary.run
        assert summary.state == "interrupted"
        with RunStore.open(home, run, write=False) as store:
            records = list(store.items())
            assert store.info().turn == turn
            found = store.counts()
        assert len(records) >= promised
        assert len(records) % BATCH == 0
        assert [record.item.seq for record in records] == list(range(1, len(records) + 1))
        assert [record.state for record in records].count("done") == found["done"]
        assert sum(found.values()) == len(records)
        assert all(record.metrics for record in records if record.state == "done")
    with RunStore.open(home, run, write=True) as store:
        journal = store.journal()
        left = list(store.waiting_items())
        assert len(left) * BATCH == store.max_seq()
        assert {item.attempt for item in left} == {1}
        for item in left:
            journal.ended(item.seq, 2, 0, "node0", 3.0, Outcome("done"))
        journal.commit()
        assert store.counts()["done"] == store.max_seq()
        assert list(store.waiting_items()) == []


def test_a_reader_sees_whole_commits_while_another_process_writes(tmp_path: Path) -> None:
    home = str(tmp_path / ".shoal")
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, home, ""], stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "begin 0\n"
        try:
            with RunStore.open(home, "x-0000", write=False) as reader:
                seen = [_look(reader, driver.stdout.readline()) for _ in range(100)]
        finally:
            driver.kill()
    assert seen == sorted(seen)


def _look(reader: RunStore, said: str) -> int:
    assert reader.state() == "running"
    counts = reader.counts()
    assert sum(counts.values()) >= int(said.split()[1])
    assert counts["running"] * BATCH == sum(counts.values())
    assert reader.max_seq() >= sum(counts.values())
    return sum(counts.values())


@pytest.mark.parametrize("kind", ["done", "failed"])
def test_what_one_driver_ended_another_process_reads_at_once(tmp_path: Path, kind: str) -> None:
    home = str(tmp_path / ".shoal")
    script = "import sys\nfrom shoal.store import RunStore\n"
    script += "with RunStore.open(sys.argv[1], 'x-0000', write=False) as store: print(store.item('t1').state)"
    with RunStore.create(
        home, name="x", kind="sweep", spec_text="", document={}, token=lambda: "0000", now=1.0
    ) as store:
        journal = store.journal()
        journal.add([Item(1, "t1", {})])
        journal.ended(1, 1, 0, "node0", 2.0, Outcome(kind))
        journal.commit()
        found = subprocess.run(
            [sys.executable, "-c", script, home], capture_output=True, text=True, check=True
        )
    assert found.stdout.strip() == kind

"""A run's folder: made, opened, described, and taken up again by another driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.errors import NotFound, RunLocked, SpecError, StoreError
from shoal.model import Decision, Item, LogSlice, Outcome, Plan, Prediction
from shoal.model.record import Kept, WorkerUse
from shoal.store import RunStore

NOW = 1_700_000_000.0
DONE = Outcome("done", {"accuracy": 0.5}, None, 2.0)


def items(count: int, first: int = 1) -> list[Item]:
    return [Item(seq, f"t{seq}", {"lr": seq / 10}, None, f"c{seq}") for seq in range(first, first + count)]


def reopened(store: RunStore, **options: bool) -> RunStore:
    store.close()
    return RunStore.open(store.home, store.run, write=True, now=NOW + 100, **options)


def test_a_new_run_is_queued_and_has_its_files(make_run: Callable[..., RunStore]) -> None:
    store = make_run(spec_text="kind: sweep\nname: ü\n", document={"sets": ["a=1"]})
    assert store.run == "next-cell-0000"
    assert store.state() == "queued"
    assert store.document == {"sets": ["a=1"]}
    assert store.spec_text == "kind: sweep\nname: ü\n"
    assert Path(store.folder, "spec.yaml").read_text(encoding="utf-8") == store.spec_text
    assert {"lock", "run.db", "spec.yaml"} <= set(os.listdir(store.folder))


def test_an_id_that_is_taken_is_not_used_again(home: str, make_run: Callable[..., RunStore]) -> None:
    make_run()
    tokens = iter(["0000", "0000", "beef"])
    with RunStore.create(
        home, name="next-cell", kind="sweep", spec_text="", document={}, token=lambda: next(tokens), now=NOW
    ) as other:
        assert other.run == "next-cell-beef"


def test_a_name_without_free_ids_is_an_error_and_not_a_loop(
    home: str, make_run: Callable[..., RunStore]
) -> None:
    make_run()
    with pytest.raises(SpecError, match="too many runs"):
        RunStore.create(
            home, name="next-cell", kind="sweep", spec_text="", document={}, token=lambda: "0000", now=NOW
        )


def test_closing_leaves_no_files_of_sqlite_behind(run: RunStore) -> None:
    run.journal().add(items(3))
    run.journal().commit()
    run.close()
    run.close()
    with RunStore.open(run.home, run.run, write=False) as reader:
        assert reader.max_seq() == 3
    assert not [name for name in os.listdir(run.folder) if name.endswith(("-wal", "-shm", ".part"))]


def test_a_second_driver_is_refused_and_told_who_has_the_run(run: RunStore) -> None:
    with pytest.raises(RunLocked, match=f"process {os.getpid()} on ") as caught:
        RunStore.open(run.home, run.run, write=True)
    assert f"shoal stop {run.run}" in (caught.value.hint or "")


def test_every_driver_takes_a_new_turn(run: RunStore) -> None:
    assert run.info().turn == 0
    for turn in (1, 2, 3):
        run.journal()
        assert run.info().turn == turn
        run = reopened(run)
    run.close()


def test_who_only_opens_a_run_takes_no_turn(run: RunStore) -> None:
    for _ in range(2):
        with RunStore.open(run.home, run.run, write=False) as reader:
            assert reader.info().turn == 0
    run = reopened(run)
    assert run.info().turn == 0
    run.close()


@pytest.mark.parametrize("name", ["nothing-0000", "", ".", "..", "../runs", "next-cell-0000/"])
def test_a_run_that_is_not_there_is_not_found(run: RunStore, name: str) -> None:
    with pytest.raises(NotFound, match="no run"):
        RunStore.open(run.home, name, write=False)


def test_a_damaged_record_is_an_error_with_a_sentence(run: RunStore) -> None:
    run.close()
    Path(run.folder, "run.db").write_bytes(b"garbage" * 1000)
    for write in (False, True):
        with pytest.raises(StoreError, match="not a database") as caught:
            RunStore.open(run.home, run.run, write=write)
        assert caught.value.hint


def test_a_record_damaged_in_the_middle_is_an_error_with_a_sentence(run: RunStore) -> None:
    run.journal().add(items(5000))
    run.journal().commit()
    run.close()
    path = Path(run.folder, "run.db")
    content = bytearray(path.read_bytes())
    content[40_000:200_000] = b"\xff" * 160_000
    path.write_bytes(content)
    with RunStore.open(run.home, run.run, write=False) as reader, pytest.raises(StoreError, match="damaged"):
        list(reader.rows())


def test_a_record_of_a_newer_shoal_is_left_alone(run: RunStore) -> None:
    run.close()
    import sqlite3

    connection = sqlite3.connect(Path(run.folder, "run.db"))
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(StoreError, match="newer"):
        RunStore.open(run.home, run.run, write=True)
    with pytest.raises(StoreError, match="newer"):
        RunStore.open(run.home, run.run, write=True)  # and the lock was given back


def test_the_state_goes_from_queued_to_running_to_an_end(run: RunStore) -> None:
    run.set_state("running", NOW + 1)
    assert run.state() == "running"
    run.set_state("succeeded", NOW + 11)
    info = run.info()
    assert (info.state, info.created, info.started, info.ended) == ("succeeded", NOW, NOW + 1, NOW + 11)
    assert info.seconds == 10.0
    with pytest.raises(ValueError, match="not a valid RunState"):
        run.set_state("finished", NOW)


def test_a_run_whose_driver_is_gone_is_interrupted(run: RunStore) -> None:
    run.set_state("running", NOW)
    with RunStore.open(run.home, run.run, write=False) as reader:
        assert reader.state() == "running"
        run.close()
        assert reader.state() == "interrupted"
        assert reader.info().driver is None


def test_time_of_a_killed_driver_counts_up_to_its_last_sign_of_life(run: RunStore) -> None:
    journal = run.journal()
    run.set_state("running", NOW)
    journal.add(items(1))
    journal.ended(1, 1, 0, "node0", NOW + 3, DONE)
    journal.commit()
    run = reopened(run)
    run.journal()
    assert run.info().seconds == 5.0
    run.set_state("running", NOW + 100)
    assert run.info(now=NOW + 107).seconds == 12.0
    run.set_state("stopped", NOW + 110)
    assert run.info().seconds == 15.0
    assert run.info().started == NOW
    run.close()


def test_info_says_who_drives_and_how_far_it_is(make_run: Callable[..., RunStore]) -> None:
    plan = Plan("sweep", "next-cell", 3, 2, Prediction(1, 2, 3), (Decision("workers", 2, "two cores"),))
    run = make_run(objective=("accuracy", "max"), plan=plan)
    journal = run.journal()
    journal.add(items(3))
    journal.ended(2, 1, 0, "node0", NOW, DONE)
    journal.commit()
    info = run.info()
    assert info.driver is not None
    assert info.driver["pid"] == os.getpid()
    assert info.items["waiting"] == 2
    assert info.items["done"] == 1
    assert info.total == 3
    assert info.predicted_seconds == {"low": 1, "mid": 2, "high": 3}
    assert info.best is not None
    assert info.best["item"] == "t2"
    assert json.loads(Path(run.folder, "plan.json").read_text())["decisions"][0]["why"] == "two cores"


def test_what_sessions_leave_is_kept_and_cannot_break_the_record(make_run: Callable[..., RunStore]) -> None:
    run = make_run(kind="state")
    assert run.kept() == Kept(workers=[])
    assert run.results_path() == str(Path(run.folder, "results.csv"))
    kept = Kept(
        "s3://out", ["a note"], [WorkerUse(1, "node0", 0.1, 2.0, 0.5, 7)], {"any": ["thing", None, 1.5]}
    )
    run.keep(kept)
    assert run.kept() == kept
    assert run.results_path() == "s3://out"
    run.keep(kept._replace(notes=[]))
    assert run.kept() == kept._replace(notes=[])
    assert run.state() == "queued"
    assert run.counts()["done"] == 0


def test_a_new_driver_goes_on_with_all_that_has_no_end(run: RunStore) -> None:
    journal = run.journal()
    journal.add(items(6))
    journal.ended(1, 1, 0, "a", NOW, DONE)
    journal.started(2, 1, "a", NOW, LogSlice("w.log", 5))
    journal.requeued(3, 1, 1, "crashed")
    journal.ended(4, 1, 0, "a", NOW, Outcome("stopped"))
    journal.ended(5, 2, 1, "a", NOW, Outcome("failed", {}, "exit 3"))
    journal.commit()
    run = reopened(run)
    found = {item.seq: (item.attempt, item.used) for item in run.waiting_items()}
    assert found == {2: (1, 0), 3: (1, 1), 4: (1, 0), 6: (0, 0)}
    run.journal()
    assert run.counts() == {
        **dict.fromkeys(("running", "cached", "pruned", "stopped"), 0),
        "waiting": 4,
        "done": 1,
        "failed": 1,
    }
    run.close()


def test_failed_items_can_be_taken_again_with_all_their_attempts(run: RunStore) -> None:
    journal = run.journal()
    journal.add(items(3))
    journal.ended(1, 3, 2, "a", NOW, Outcome("failed", {"accuracy": 0.1}, "exit 3", 1.0))
    journal.ended(2, 1, 0, "a", NOW, DONE)
    assert [item.seq for item in run.failed_items()] == []
    assert run.take_failed_again() == 1
    again = run.item("t1")
    assert (again.state, again.item.attempt, again.item.used, again.error) == ("waiting", 3, 0, None)
    journal.ended(1, 4, 0, "a", NOW, DONE)
    journal.commit()
    assert run.counts()["done"] == 2
    assert run.counts()["failed"] == 0


def test_contents_and_durations_are_known_to_the_next_driver(run: RunStore) -> None:
    twice = [item._replace(content="same", occurrence=item.seq - 1) for item in items(2)]
    journal = run.journal()
    journal.add([*twice, *items(1, first=3), items(1, first=4)[0]._replace(content="")])
    journal.ended(3, 1, 0, "node1", NOW, DONE)
    journal.commit()
    assert run.known_contents() == {"same": 2, "c3": 1}
    assert list(run.durations()) == [("c3", {"lr": 0.3}, 2.0, "node1")]
    assert run.max_seq() == 4


def test_an_item_is_found_by_its_id_whatever_its_number(run: RunStore) -> None:
    journal = run.journal()
    journal.add([Item(1, "t2", {}), Item(2, "lr-0.1", {}), Item(3, "t3", {})])
    journal.commit()
    assert [run.item(name).item.seq for name in ("t2", "lr-0.1", "t3")] == [1, 2, 3]
    with pytest.raises(NotFound, match="no item 't33'") as caught:
        run.item("t33")
    assert caught.value.hint == "Did you mean 't3'?"


def test_items_can_be_listed_by_state_and_up_to_a_limit(run: RunStore) -> None:
    journal = run.journal()
    journal.add(items(5000))
    for seq in range(1, 5001, 2):
        journal.ended(seq, 1, 0, "a", NOW, DONE)
    journal.commit()
    assert len(list(run.items())) == 5000
    assert [record.item.seq for record in run.items(["waiting"], limit=3)] == [2, 4, 6]
    assert len(list(run.items(["done", "waiting"], limit=2001))) == 2001
    assert list(run.items([])) == []


def test_metrics_are_added_up_over_what_is_done(run: RunStore) -> None:
    journal = run.journal()
    journal.add(items(6))
    told = [{"rows": 10, "errors": 1}, {"rows": 5}, {"rows": float("nan")}, {"other": 3}, {}]
    for seq, metrics in enumerate(told, 1):
        journal.ended(seq, 1, 0, "a", NOW, Outcome("done", metrics))
    journal.ended(6, 1, 0, "a", NOW, Outcome("failed", {"rows": 99}))
    assert run.sum_of("rows") == 0, "nothing is durable yet"
    journal.commit()
    assert (run.sum_of("rows", "errors"), run.sum_of("errors"), run.sum_of("none")) == (16, 1, 0)


def test_a_run_open_for_reading_has_no_journal(run: RunStore) -> None:
    with RunStore.open(run.home, run.run, write=False) as reader:
        with pytest.raises(ValueError, match="reading only"):
            reader.journal()
        with pytest.raises(StoreError, match="read-only"):
            reader.keep(Kept())


def test_a_reader_in_the_middle_of_its_rows_keeps_no_writer_waiting(
    make_run: Callable[..., RunStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    for network in (False, True):
        monkeypatch.setattr("shoal.store.sqlite.on_network", lambda path, answer=network: answer)
        run = make_run()
        mode = run._connection.execute("PRAGMA journal_mode").fetchone()[0]
        assert mode == ("truncate" if network else "wal")
        journal = run.journal()
        journal.add(items(5000))
        journal.commit()
        with RunStore.open(run.home, run.run, write=False) as reader:
            rows = reader.rows()
            assert next(rows)["state"] == "waiting"
            for seq in range(1, 5001):
                journal.ended(seq, 1, 0, "a", NOW, DONE)
            journal.commit()
            assert len(list(rows)) == 4999
            assert reader.counts()["done"] == 5000
        assert os.path.exists(os.path.join(run.folder, "run.db-wal")) != network


def test_importing_the_store_loads_nothing_heavy() -> None:
    heavy = [
        "pyarrow",
        "pandas",
        "logging",
        "pathlib",
        "shutil",
        "tempfile",
        "statistics",
        "shoal.spec",
        "csv",
    ]
    script = f"import sys, shoal.store, shoal.store.profiles; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, env=_paths())
    assert found.stdout.strip() == "[]", found.stderr


def _paths() -> dict[str, str]:
    import shoal

    return {"PYTHONPATH": os.path.dirname(os.path.dirname(os.path.abspath(shoal.__file__ or "")))}


def test_what_is_committed_is_on_the_disk(run: RunStore) -> None:
    for store in (lambda: run, lambda: reopened(run)):
        full = store()._connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert full, "a power cut would lose what was shown as done"


@pytest.mark.parametrize("folder", ["items/t0009", "checkpoints/t0009-3154d8b4", "checkpoints/t0009"])
def test_numbers_go_on_above_folders_whose_items_nobody_has_a_record_of(run: RunStore, folder: str) -> None:
    run.journal().add(items(4))
    run.journal().commit()
    assert run.highest_number() == 4
    os.makedirs(os.path.join(run.folder, "items", ".spare-77"))
    os.makedirs(os.path.join(run.folder, "items", "t0002"))
    assert run.highest_number() == 4
    os.makedirs(os.path.join(run.folder, folder))
    assert run.highest_number() == 9

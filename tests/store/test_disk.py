"""Disks that are full, read-only or shared: an error that says so, and a run that can go on afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from shoal.errors import SpecError, StoreError
from shoal.model import Item, Outcome
from shoal.store import RunStore, list_runs, make_home, resolve_run

NOW = 1_700_000_000.0

FILE_SIZE_LIMIT = """
import resource, sys
from shoal.errors import StoreError
from shoal.model import Item, Outcome
from shoal.store import RunStore

store = RunStore.create(sys.argv[1], name="x", kind="sweep", spec_text="", document={}, token=lambda: "0000", now=1.0)
journal = store.journal()
journal.add([Item(seq, f"t{seq}", {"text": "x" * 100}) for seq in range(1, 101)])
journal.commit()
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
journal.add([Item(seq, f"t{seq}", {"text": "x" * 1000}) for seq in range(101, 501)])
for seq in range(1, 51):
    journal.ended(seq, 1, 0, "node0", 1.0, Outcome("done", {"accuracy": 1.0}, None, 1.0))
for attempt in range(3):
    try:
        journal.commit()
    except StoreError as error:
        assert "shoal resume x-0000" in error.hint, error.hint
        print("refused", flush=True)
    assert store.counts()["done"] == 0
    assert store.max_seq() == 100
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
journal.ended(51, 1, 0, "node0", 1.0, Outcome("done"))
journal.commit()
print(store.counts()["done"], store.counts()["waiting"], len(list(store.items())), flush=True)
store.close()
"""

KILLED = """
import os, signal, sys
from shoal.model import Item, Outcome
from shoal.store import RunStore

store = RunStore.create(sys.argv[1], name="x", kind="sweep", spec_text="", document={}, token=lambda: "0000", now=1.0)
store.set_state("running", 1.0)
journal = store.journal()
journal.add([Item(1, "t1", {"lr": 1})])
journal.ended(1, 1, 0, "node0", 1.0, Outcome("done", {"accuracy": 1.0}))
journal.commit()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_file_that_may_not_grow_fails_the_commit_and_a_later_one_writes_it_all(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", FILE_SIZE_LIMIT, str(tmp_path / ".shoal")], capture_output=True, text=True
    )
    assert found.stdout.split("\n") == ["refused"] * 3 + ["51 449 500", ""], found.stderr


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    """A disk of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"this system does not let us mount a disk: {made.stderr.strip()}")
    yield str(folder)
    subprocess.run(["umount", "-l", str(folder)], check=True)


def read_only(disk: str) -> None:
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)


def fill(disk: str) -> None:
    with suppress(OSError), open(os.path.join(disk, "filler"), "wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass


class TestSmallDisk:
    """Needs root, for the disk."""

    pytestmark = pytest.mark.root

    def test_a_full_disk_fails_the_commit_and_with_space_again_nothing_is_missing_or_double(
        self, disk: str
    ) -> None:
        home = os.path.join(disk, ".shoal")
        with RunStore.create(
            home, name="x", kind="sweep", spec_text="", document={}, token=lambda: "0000", now=NOW
        ) as store:
            journal = store.journal()
            journal.add([Item(seq, f"t{seq}", {"lr": seq}) for seq in range(1, 101)])
            journal.commit()
            fill(disk)
            for seq in range(1, 101):
                journal.ended(seq, 1, 0, "node0", NOW, Outcome("done", {"text": "y" * 2000}))
            with pytest.raises(StoreError, match="the disk is full") as caught:
                journal.commit()
            assert caught.value.hint == "Free some space, then `shoal resume x-0000`."
            with RunStore.open(home, "x-0000", write=False) as reader:
                assert reader.counts()["waiting"] == 100
            os.unlink(os.path.join(disk, "filler"))
            journal.commit()
            assert store.counts()["done"] == 100
        with RunStore.open(home, "x-0000", write=False) as reader:
            assert [record.state for record in reader.items()] == ["done"] * 100

    def test_on_a_full_disk_no_run_is_made_and_nothing_is_left_of_it(self, disk: str) -> None:
        home = os.path.join(disk, ".shoal")
        make_home(home)
        fill(disk)
        with pytest.raises(SpecError, match=r"full|No space"):
            RunStore.create(
                home, name="x", kind="sweep", spec_text="", document={}, token=lambda: "0000", now=NOW
            )
        assert os.listdir(os.path.join(home, "runs")) == []

    def test_on_a_read_only_disk_a_finished_run_can_be_read(self, disk: str) -> None:
        home = os.path.join(disk, ".shoal")
        with RunStore.create(
            home, name="x", kind="sweep", spec_text="", document={}, token=lambda: "0000", now=NOW
        ) as store:
            store.journal().add([Item(1, "t1", {"lr": 1})])
            store.journal().commit()
            store.set_state("succeeded", NOW)
        os.unlink(os.path.join(home, "index.db"))
        read_only(disk)
        assert [summary.state for summary in list_runs(home)] == ["succeeded"]
        with RunStore.open(home, resolve_run(home, "x"), write=False) as reader:
            assert [row["item"] for row in reader.rows()] == ["t1"]
            assert reader.info().state == "succeeded"
        with pytest.raises(SpecError, match="Read-only file system"):
            RunStore.open(home, "x-0000", write=True)
        with pytest.raises(SpecError, match="Read-only file system") as caught:
            RunStore.create(
                home, name="x", kind="sweep", spec_text="", document={}, token=lambda: "0001", now=NOW
            )
        assert "SHOAL_HOME" in (caught.value.hint or "")
        with pytest.raises(SpecError, match="Read-only file system"):
            make_home(os.path.join(disk, "other"))

    def test_on_a_read_only_disk_the_run_of_a_killed_driver_can_be_read(self, disk: str) -> None:
        home = os.path.join(disk, ".shoal")
        killed = subprocess.run([sys.executable, "-c", KILLED, home])
        assert killed.returncode == -signal.SIGKILL
        assert os.path.getsize(os.path.join(home, "runs", "x-0000", "run.db-wal")) > 0
        read_only(disk)
        with RunStore.open(home, "x-0000", write=False) as reader:
            assert reader.state() == "interrupted"
            assert reader.counts()["done"] == 1


@pytest.mark.user
def test_in_a_folder_without_permission_a_run_can_be_read_but_not_driven(run: RunStore) -> None:
    run.journal().add([Item(1, "t1", {"lr": 1})])
    run.journal().commit()
    run.close()
    for name in os.listdir(run.folder):
        os.chmod(os.path.join(run.folder, name), 0o444)
    os.chmod(run.folder, 0o555)
    try:
        with RunStore.open(run.home, run.run, write=False) as reader:
            assert [row["item"] for row in reader.rows()] == ["t1"]
        with pytest.raises(SpecError, match="Permission denied"):
            RunStore.open(run.home, run.run, write=True)
    finally:
        os.chmod(run.folder, 0o755)


def test_on_a_network_file_system_a_run_does_without_shared_memory(
    make_run: Callable[..., RunStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.store.sqlite.on_network", lambda path: True)
    run = make_run()
    journal = run.journal()
    journal.add([Item(1, "t1", {"lr": 1})])
    journal.commit()
    with RunStore.open(run.home, run.run, write=False) as reader:
        assert reader.max_seq() == 1
    assert not {"run.db-wal", "run.db-shm"} & set(os.listdir(run.folder))


def test_a_run_that_was_moved_to_a_network_file_system_goes_on_there(
    make_run: Callable[..., RunStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run()
    run.close()
    monkeypatch.setattr("shoal.store.sqlite.on_network", lambda path: True)
    with RunStore.open(run.home, run.run, write=True) as moved:
        moved.journal().add([Item(1, "t1", {"lr": 1})])
        moved.journal().commit()
        assert not {"run.db-wal", "run.db-shm"} & set(os.listdir(run.folder))

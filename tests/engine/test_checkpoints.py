"""What an actor does with checkpoints, without a cluster: it needs a folder and a storage only."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shoal.engine.ray import checkpoints
from shoal.engine.ray.checkpoints import Checkpoints, Home, home_of, restoring
from shoal.engine.ray.remote_worker import Arrivals
from shoal.engine.workers import parcels
from shoal.engine.workers.messages import Entry, Parcel, Stored
from shoal.errors import FileError
from shoal.files import Storage, open_storage
from shoal.files.local import LocalStorage

NOWHERE = "http://127.0.0.1:1/nobody-writes-here"
PREFIX = "runs/r/checkpoints"


class Node:
    """A folder of a node, and what was said there. Its items are called t1, ..., and their checkpoints t1-c, ..."""

    def __init__(self, folder: Path, storage: Storage | None, turn: int = 1) -> None:
        self.folder = folder
        self.reported: list[str] = []
        home = Home() if storage is None else Home(None, storage, PREFIX, turn)
        self.checkpoints = Checkpoints(str(folder), home, self.reported.append)

    def write(self, item: str, **files: str) -> None:
        (self.folder / f"{item}-c").mkdir(exist_ok=True)
        for name, text in files.items():
            (self.folder / f"{item}-c" / name).write_text(text)

    def read(self, item: str) -> dict[str, str]:
        return {path.name: path.read_text() for path in sorted((self.folder / f"{item}-c").glob("*"))}

    def bring(self, item: str, attempt: int) -> dict[str, str]:
        return asyncio.run(self.checkpoints.bring([entry(item, attempt)]))

    def leave(self, item: str) -> list[Parcel | Stored]:
        return list(asyncio.run(self.checkpoints.leave(f"{item}-c")))

    def keep(self, item: str) -> None:
        """What `watch` does when the folder looks the same twice."""
        folder = str(self.folder / f"{item}-c")
        asyncio.run(self.checkpoints._keep(f"{item}-c", folder, checkpoints._signature(folder)))


def entry(item: str, attempt: int) -> Entry:
    return Entry(1, attempt, 1, item, {}, {}, f"{item}-c")


def keys(storage: Storage, item: str) -> list[str]:
    prefix = f"{PREFIX}/{item}"
    return sorted(each.key.removeprefix(f"{prefix}/") for each in storage.list(prefix, hidden=True))


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path / "storage"))


def test_an_item_whose_checkpoint_cannot_be_brought_is_named(tmp_path: Path) -> None:
    node = Node(tmp_path / "node", open_storage(NOWHERE))
    failed = node.bring("t1", 2)
    assert list(failed) == ["t1-c"]
    assert "cannot be brought from http://127.0.0.1:1" in failed["t1-c"]
    assert node.bring("t2", 1) == {}


def test_what_the_storage_refuses_goes_to_the_driver_and_comes_back_from_there(tmp_path: Path) -> None:
    storage = open_storage(NOWHERE)
    node, root = Node(tmp_path / "node", storage), tmp_path / "run"
    node.bring("t1", 1)
    node.write("t1", step="1")
    told = node.leave("t1")
    assert len(node.reported) == 1
    assert node.reported[0].startswith("The checkpoint of t1-c cannot be kept: ")
    assert node.reported[0].endswith(" It is sent to the driver instead.")
    home = Home(None, storage, PREFIX, 1)
    driver = Arrivals(str(root), "log", home)
    for message in told:
        assert driver.take(message) is None
    assert not (node.folder / "t1-c").exists(), "it is gone here once it travels"
    heir = Node(tmp_path / "heir", storage)
    given = restoring(str(root / home.at_driver / "t1-c"), "t1-c")
    assert given is not None
    for message in given:
        heir.checkpoints.take(message)
    assert heir.bring("t1", 2) == {}, "the storage is not asked"
    assert heir.read("t1") == {"step": "1"}


def test_what_the_storage_has_again_is_no_longer_the_drivers(tmp_path: Path, storage: Storage) -> None:
    home = home_of(str(tmp_path / "run"), storage, "1", same_machine=False)
    unstored = tmp_path / "run" / home.at_driver / "t1-c"
    unstored.mkdir(parents=True)
    node = Node(tmp_path / "node", storage)
    node.bring("t1", 1)
    node.write("t1", step="1")
    told = node.leave("t1")
    driver = Arrivals(str(tmp_path / "run"), "log", home)
    for message in told:
        driver.take(message)
    assert not unstored.parent.exists()
    node.bring("t2", 1)
    node.write("t2", step="1")
    node.keep("t2")
    assert node.checkpoints.sending() == Stored("t2-c"), "also while the item runs"


def test_a_checkpoint_that_the_driver_gave_and_that_did_not_fit_fails_its_item(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / "t1-c").mkdir(parents=True)
    given = restoring(str(tmp_path / "checkpoints" / "t1-c"), "t1-c")
    assert given is not None
    [message] = given
    message.block[-1] = parcels.Seal("another digest")
    node = Node(tmp_path / "node", None)
    node.checkpoints.take(message)
    failed = node.bring("t1", 2)
    assert "its checkpoint cannot be brought from the driver: what arrived is not" in failed["t1-c"]
    assert node.bring("t1", 3) == {}


def test_watching_goes_on_after_a_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path / "node", open_storage(NOWHERE))

    async def watched() -> None:
        watching = asyncio.create_task(node.checkpoints.watch(lambda: running[0], lambda: None))
        for item in ("t1", "t2"):
            await node.checkpoints.bring([entry(item, 1)])
            running[0] = f"{item}-c"
            node.write(item, step="1")
            while not any(item in line for line in node.reported):
                await asyncio.sleep(0.01)
                assert not watching.done()
        watching.cancel()

    running: list[str | None] = [None]
    monkeypatch.setattr(checkpoints, "LOOK_S", 0.01)
    asyncio.run(asyncio.wait_for(watched(), 30))
    assert len(node.reported) == 2


def test_a_large_checkpoint_is_sent_to_its_end_before_it_is_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path / "node", None)
    node.write("t1", a="1")
    (tmp_path / "node" / "t1-c" / "large").write_bytes(bytes(5 << 20))
    told: list[Any] = []

    async def watched() -> None:
        watching = asyncio.create_task(node.checkpoints.watch(lambda: "t1-c", lambda: None))
        while not told or not parcels.is_last(told[-1]):
            await asyncio.sleep(0.03)  # Several looks go by between two blocks.
            if (message := node.checkpoints.sending()) is not None:
                told.append(message)
        watching.cancel()

    monkeypatch.setattr(checkpoints, "LOOK_S", 0.01)
    asyncio.run(asyncio.wait_for(watched(), 30))
    assert [message.number for message in told] == list(range(len(told)))
    assert node.checkpoints.sending() is None
    assert [message for message in node.leave("t1") if isinstance(message, Parcel)] == [], "the driver has it"


def test_a_parcel_whose_folder_is_written_to_meanwhile_is_not_sealed(tmp_path: Path) -> None:
    node = Node(tmp_path / "node", None)
    node.write("t1", a="1")
    (tmp_path / "node" / "t1-c" / "large").write_bytes(bytes(3 << 20))
    node.keep("t1")
    told = [node.checkpoints.sending()]
    node.write("t1", a="another")
    while told[-1] is not None:
        told.append(node.checkpoints.sending())
    assert told[-2] is not None
    assert not parcels.is_last(told[-2])
    assert parcels.is_last(node.leave("t1")[-1]), "at its end it is sent as it is"


def test_a_node_that_was_cut_off_spoils_nothing_that_came_after_it(tmp_path: Path, storage: Storage) -> None:
    cut_off, heir, third = (Node(tmp_path / name, storage) for name in ("cut-off", "heir", "third"))
    assert cut_off.bring("t1", 1) == {}
    cut_off.write("t1", step="1", **{".metadata": "1"})
    cut_off.keep("t1")
    assert heir.bring("t1", 2) == {}
    assert heir.read("t1") == {".metadata": "1", "step": "1"}
    heir.write("t1", step="5")
    heir.leave("t1")
    cut_off.write("t1", step="2", other="2")
    cut_off.leave("t1")
    assert third.bring("t1", 3) == {}
    assert third.read("t1") == {".metadata": "1", "step": "5"}


def test_a_folder_that_all_nodes_see_is_a_storage_like_others(tmp_path: Path, storage: Storage) -> None:
    """Two attempts must not write to one folder: a node that was cut off works on for a while."""
    assert home_of(str(tmp_path / "r"), storage, "3", same_machine=False) == Home(None, storage, PREFIX, 3)
    assert home_of(str(tmp_path / "r"), storage, "3", same_machine=True).path == str(
        tmp_path / "r/checkpoints"
    )


def test_only_a_complete_checkpoint_counts_and_older_ones_go(tmp_path: Path, storage: Storage) -> None:
    node = Node(tmp_path / "node", storage)
    node.bring("t1", 1)
    node.write("t1", step="1", **{".metadata": "1"})
    node.leave("t1")
    storage.write(f"{PREFIX}/t1-c/1.2.1/step", b"half")
    node.bring("t1", 3)
    assert node.read("t1") == {".metadata": "1", "step": "1"}
    node.write("t1", step="3")
    node.leave("t1")
    assert keys(storage, "t1-c") == ["1.3.1.complete", "1.3.1/.metadata", "1.3.1/step"]
    assert sorted(os.listdir(tmp_path / "storage" / PREFIX / "t1-c")) == ["1.3.1", "1.3.1.complete"]


class Dying(LocalStorage):
    """A storage whose node is lost at the write that `when` names."""

    when: Callable[[str], bool] = staticmethod(lambda key: False)

    def write(self, key: str, data: bytes | Path) -> None:
        if type(self).when(key):
            raise FileError("the node was lost here")
        super().write(key, data)


@pytest.mark.parametrize("lost_at", ["step", "optimizer", ".complete"])
def test_a_node_that_is_lost_while_it_copies_leaves_the_version_before(tmp_path: Path, lost_at: str) -> None:
    storage = Dying(str(tmp_path / "storage"))
    node = Node(tmp_path / "node", storage)
    node.bring("t1", 1)
    node.write("t1", step="1", optimizer="1")
    node.keep("t1")
    node.write("t1", step="22", optimizer="22")
    Dying.when = staticmethod(lambda key: key.endswith(lost_at))
    node.keep("t1")
    assert len(node.reported) == 1
    Dying.when = staticmethod(lambda key: False)
    heir = Node(tmp_path / "heir", storage)
    heir.bring("t1", 2)
    assert heir.read("t1") == {"step": "1", "optimizer": "1"}


def test_a_folder_that_is_written_to_while_it_is_copied_is_no_version(tmp_path: Path) -> None:
    storage = Dying(str(tmp_path / "storage"))
    node = Node(tmp_path / "node", storage)
    node.bring("t1", 1)
    node.write("t1", step="1", optimizer="1")

    def write_on(key: str) -> bool:
        node.write("t1", optimizer="another")
        return False

    Dying.when = staticmethod(write_on)
    node.keep("t1")
    Dying.when = staticmethod(lambda key: False)
    assert [key for key in keys(storage, "t1-c") if key.endswith(".complete")] == []
    node.leave("t1")
    assert keys(storage, "t1-c")[0] == "1.1.2.complete"


def test_a_run_that_counts_anew_goes_on_from_the_newest_checkpoint(tmp_path: Path, storage: Storage) -> None:
    node = Node(tmp_path / "node", storage)
    for attempt, step in ((1, "1"), (5, "5"), (2, "6"), (3, "7")):
        node.bring("t1", attempt)
        node.write("t1", step=step)
        node.leave("t1")
    node.bring("t1", 4)
    assert node.read("t1") == {"step": "7"}


def test_a_later_drivers_checkpoint_is_newer_whatever_the_attempts_are(
    tmp_path: Path, storage: Storage
) -> None:
    before, after = Node(tmp_path / "before", storage, 2), Node(tmp_path / "after", storage, 10)
    before.bring("t1", 7)
    after.bring("t1", 1)
    after.write("t1", step="of turn 10")
    after.leave("t1")
    before.write("t1", step="of turn 2, still at work")
    before.leave("t1")
    assert after.bring("t1", 2) == {}
    assert after.read("t1") == {"step": "of turn 10"}


def test_a_checkpoint_of_another_item_with_the_same_id_is_not_found(tmp_path: Path, storage: Storage) -> None:
    node = Node(tmp_path / "node", storage)
    node.bring("t1", 1)
    node.write("t1", step="1")
    node.leave("t1")
    assert asyncio.run(node.checkpoints.bring([Entry(1, 2, 1, "t1", {}, {}, "t1-other")])) == {}
    assert not (node.folder / "t1-other").exists()


def test_what_the_first_version_of_shoal_left_in_the_storage_is_found(
    tmp_path: Path, storage: Storage
) -> None:
    """It knew a checkpoint by the item's id and the attempt."""
    for attempt in (1, 2):
        storage.write(f"{PREFIX}/t1/{attempt}/step", str(attempt).encode())
        storage.write(f"{PREFIX}/t1/{attempt}.complete", b"")
    node = Node(tmp_path / "node", storage)
    node.bring("t1", 3)
    assert node.read("t1") == {"step": "2"}
    node.bring("t1", 1)
    node.write("t1", step="3")
    node.leave("t1")
    assert "1.1.1.complete" in keys(storage, "t1-c")


def test_files_of_every_name_are_part_of_a_checkpoint(tmp_path: Path, storage: Storage) -> None:
    node, heir = Node(tmp_path / "node", storage), Node(tmp_path / "heir", storage)
    names = ("study.db", "study.db-wal", "study.db-shm", "train-journal")
    node.bring("t1", 1)
    node.write("t1", **dict.fromkeys(names, "x"))
    node.leave("t1")
    heir.bring("t1", 2)
    assert sorted(heir.read("t1")) == sorted(names)


def test_workers_of_one_node_may_begin_at_the_same_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "islink", lambda path: False)  # As it was when both looked.
    for _ in range(2):
        Checkpoints(str(tmp_path / "node"), Home(str(tmp_path / "shared")), print)
    assert os.readlink(tmp_path / "node") == str(tmp_path / "shared")

"""What an actor does with checkpoints, without a cluster: it needs a folder and a storage only."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from shoal.engine.ray import checkpoints
from shoal.engine.ray.checkpoints import Checkpoints, Home
from shoal.engine.workers.messages import Message
from shoal.files import Storage, open_storage

NOWHERE = "http://127.0.0.1:1/nobody-writes-here"


class Node:
    """A folder of a node, and what was said there."""

    def __init__(self, folder: Path, storage: Storage) -> None:
        self.folder = folder
        self.told: list[Message] = []
        self.reported: list[str] = []
        home = Home(None, storage, "runs/r/checkpoints")
        self.checkpoints = Checkpoints(str(folder), home, self.told.append, self.reported.append)

    def write(self, item: str, **files: str) -> None:
        (self.folder / item).mkdir(exist_ok=True)
        for name, text in files.items():
            (self.folder / item / name).write_text(text)

    def read(self, item: str) -> dict[str, str]:
        return {path.name: path.read_text() for path in sorted((self.folder / item).glob("*"))}

    def bring(self, item: str, attempt: int) -> dict[str, str]:
        return asyncio.run(self.checkpoints.bring([(1, attempt, 1, item, {}, {})]))

    def leave(self, item: str) -> None:
        asyncio.run(self.checkpoints.leave(item))


def test_an_item_whose_checkpoint_cannot_be_brought_is_named(tmp_path: Path) -> None:
    node = Node(tmp_path / "node", open_storage(NOWHERE))
    failed = node.bring("t1", 2)
    assert list(failed) == ["t1"]
    assert "cannot be brought from http://127.0.0.1:1" in failed["t1"]
    assert node.bring("t2", 1) == {}


def test_what_cannot_be_kept_is_reported_and_stops_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path / "node", open_storage(NOWHERE))
    node.bring("t1", 1)
    node.write("t1", step="1")
    node.leave("t1")
    assert len(node.reported) == 1
    assert node.reported[0].startswith("The checkpoint of t1 cannot be kept: ")
    assert not (node.folder / "t1").exists()


def test_watching_goes_on_after_a_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path / "node", open_storage(NOWHERE))

    async def watched() -> None:
        watching = asyncio.create_task(node.checkpoints.watch(lambda: running[0]))
        for item in ("t1", "t2"):
            await node.checkpoints.bring([(1, 1, 1, item, {}, {})])
            running[0] = item
            node.write(item, step="1")
            while not any(item in line for line in node.reported):
                await asyncio.sleep(0.01)
                assert not watching.done()
        watching.cancel()

    running: list[str | None] = [None]
    monkeypatch.setattr(checkpoints, "LOOK_S", 0.01)
    asyncio.run(asyncio.wait_for(watched(), 30))
    assert len(node.reported) == 2


def test_a_node_that_was_cut_off_spoils_nothing_that_came_after_it(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path / "storage"))
    cut_off, heir, third = (Node(tmp_path / name, storage) for name in ("cut-off", "heir", "third"))
    assert cut_off.bring("t1", 1) == {}
    cut_off.write("t1", step="1", **{".metadata": "1"})
    asyncio.run(cut_off.checkpoints._keep("t1"))
    assert heir.bring("t1", 2) == {}
    assert heir.read("t1") == {".metadata": "1", "step": "1"}
    heir.write("t1", step="5")
    heir.leave("t1")
    cut_off.write("t1", step="2", other="2")
    cut_off.leave("t1")
    assert third.bring("t1", 3) == {}
    assert third.read("t1") == {".metadata": "1", "step": "5"}


def test_only_a_complete_checkpoint_counts_and_older_ones_go(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path / "storage"))
    node = Node(tmp_path / "node", storage)
    node.bring("t1", 1)
    node.write("t1", step="1", **{".metadata": "1"})
    node.leave("t1")
    storage.write("runs/r/checkpoints/t1/2/step", b"half")
    node.bring("t1", 3)
    assert node.read("t1") == {".metadata": "1", "step": "1"}
    node.write("t1", step="3")
    node.leave("t1")
    keys = sorted(entry.key for entry in storage.list("runs/r/checkpoints/t1", hidden=True))
    assert [key.removeprefix("runs/r/checkpoints/t1/") for key in keys] == [
        "3.complete",
        "3/.metadata",
        "3/step",
    ]


def test_a_run_that_counts_anew_goes_on_from_the_newest_checkpoint(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path / "storage"))
    node = Node(tmp_path / "node", storage)
    for attempt, step in ((1, "1"), (5, "5"), (2, "6"), (3, "7")):
        node.bring("t1", attempt)
        node.write("t1", step=step)
        node.leave("t1")
    node.bring("t1", 4)
    assert node.read("t1") == {"step": "7"}


def test_workers_of_one_node_may_begin_at_the_same_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "islink", lambda path: False)  # As it was when both looked.
    for _ in range(2):
        Checkpoints(str(tmp_path / "node"), Home(str(tmp_path / "shared")), print, print)
    assert os.readlink(tmp_path / "node") == str(tmp_path / "shared")

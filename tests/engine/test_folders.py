"""The folders of items, when several workers share a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shoal.engine.workers.runner import ItemFolder


@pytest.mark.parametrize("then", ["close", "enter"])
def test_a_retry_keeps_its_folder_whatever_becomes_of_the_worker_that_failed_it(
    tmp_path: Path, then: str
) -> None:
    failed, retrying = ItemFolder(str(tmp_path), keeps=False), ItemFolder(str(tmp_path), keeps=False)
    failed.enter("t1")
    failed.leave()
    failed.park()
    folder = Path(retrying.enter("t1"))
    if then == "close":
        failed.close()
    else:
        failed.enter("t2")
    (folder / "out").write_text("x")
    assert retrying.leave()


def test_an_empty_folder_serves_the_next_item_and_is_gone_at_the_end(tmp_path: Path) -> None:
    folder = ItemFolder(str(tmp_path), keeps=False)
    for item in ("t1", "t2"):
        folder.enter(item)
        assert not folder.leave()
        folder.park()
    folder.close()
    assert list(tmp_path.iterdir()) == []


def test_what_an_item_made_and_removed_leaves_its_folder_empty(tmp_path: Path) -> None:
    folder = ItemFolder(str(tmp_path), keeps=False)
    path = folder.enter("a")
    (tmp_path / "a" / "scratch").write_text("x")
    (tmp_path / "a" / "scratch").unlink()
    assert not folder.leave()
    assert folder.enter("b") != path
    (tmp_path / "b" / "result").write_text("x")
    assert folder.leave(), "what is made after that is seen again"


@pytest.mark.parametrize("content", [0, 3])
def test_a_folder_that_an_item_made_anew_counts_by_what_is_in_it(tmp_path: Path, content: int) -> None:
    folder = ItemFolder(str(tmp_path), keeps=False)
    for _ in range(2):
        folder.enter("spare")
        folder.leave()
    made = folder.enter("a")
    os.rmdir(made)
    os.mkdir(made)
    for number in range(content):
        (tmp_path / "a" / str(number)).mkdir()
    assert folder.leave() is bool(content)
    folder.enter("b")
    assert os.listdir(tmp_path / "b") == []
    assert len(os.listdir(tmp_path / "a")) == content if content else not (tmp_path / "a").exists()

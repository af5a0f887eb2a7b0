"""The folders of items, when several workers share a run."""

from __future__ import annotations

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

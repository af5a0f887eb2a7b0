"""`shoal report` on a run that ended: three trials, the second failed."""

from __future__ import annotations

import os


def test_a_page_can_be_printed_for_who_asks_from_afar(look, finished):
    code, out, _ = look("report", finished.run, "--print")
    path = finished.folder / ".shoal" / "runs" / finished.run / "report.html"
    assert (code, out) == (0, path.read_text(encoding="utf-8"))


def test_writing_it_again_leaves_one_file(look, finished):
    for _ in range(2):
        look("report", "last")
    names = os.listdir(finished.folder / ".shoal" / "runs" / finished.run)
    assert [name for name in names if "report.html" in name] == ["report.html"]


def test_a_run_that_is_not_there_is_a_wrong_request(look):
    code, out, err = look("report", "nothing")
    assert (code, out) == (2, "")
    assert "There is no run 'nothing'" in err

"""`shoal report` on a run that ended: three trials, the second failed."""

from __future__ import annotations

import json
import os


def test_an_agent_is_told_in_json_where_the_page_is(look, finished):
    code, out, _ = look("report", finished.run, "--json")
    path = finished.folder / ".shoal" / "runs" / finished.run / "report.html"
    assert (code, json.loads(out)) == (0, {"report": str(path)})
    assert path.is_file()


def test_writing_it_again_leaves_one_file(look, finished):
    for _ in range(2):
        look("report", "last")
    names = os.listdir(finished.folder / ".shoal" / "runs" / finished.run)
    assert [name for name in names if "report.html" in name] == ["report.html"]


def test_a_run_that_is_not_there_is_a_wrong_request(look):
    code, out, err = look("report", "nothing")
    assert (code, out) == (2, "")
    assert "There is no run 'nothing'" in err

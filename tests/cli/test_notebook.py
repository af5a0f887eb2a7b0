"""A notebook: a function that is defined in a cell, and a display that is changed in place below it."""

from __future__ import annotations

import os

import nbclient
import nbformat
import pytest

CELLS = [
    """
    def trial(x):
        import time
        time.sleep(0.05)
        return {"score": x * x}
    """,
    """
    import shoal
    run = shoal.run(trial, [{"x": x} for x in range(20)], objective={"metric": "score", "goal": "max"}, name="cells")
    """,
    "(run.state, run.best['x'], len(run.rows()))",
]


@pytest.fixture
def executed(tmp_path, monkeypatch):
    from textwrap import dedent

    monkeypatch.setenv("SHOAL_LEASES", str(tmp_path / "leases"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    cells = [nbformat.v4.new_code_cell(dedent(text).strip()) for text in CELLS]
    book = nbformat.v4.new_notebook(cells=cells)
    client = nbclient.NotebookClient(book, timeout=60, resources={"metadata": {"path": os.fspath(tmp_path)}})
    client.execute()
    return book


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_notebook_shows_one_output_that_ends_with_the_end_of_the_run(executed):
    outputs = executed.cells[1].outputs
    assert [output.output_type for output in outputs] == ["display_data"]
    text = outputs[0].data["text/plain"]
    assert "20/20" in text
    assert "best score 361 by t0020 (x=19)" in text
    assert "width:100.0%" in outputs[0].data["text/html"]
    assert executed.cells[2].outputs[0].data["text/plain"] == "('succeeded', 19, 20)"

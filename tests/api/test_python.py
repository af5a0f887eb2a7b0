"""Shoal from Python: functions and rows, results as they come, notebooks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shoal

ROWS = [{"x": number} for number in range(6)]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".shoal").mkdir()  # So that none further up is found.


def square(x: int) -> dict[str, Any]:
    return {"y": x * x}


def test_a_function_runs_once_per_row() -> None:
    run = shoal.run(square, ROWS)
    assert run.state == "succeeded"
    assert [(row["x"], row["y"]) for row in run.rows()] == [(number, number**2) for number in range(6)]


def test_a_function_that_cannot_be_imported_is_sent_by_value() -> None:
    offset = 10
    run = shoal.run(lambda x: {"y": x + offset}, ROWS)
    assert [row["y"] for row in run.rows()] == list(range(10, 16))


def test_a_large_function_is_not_copied_again_and_again_on_its_way() -> None:
    data = bytes(16 << 20)
    shoal.run(lambda x: {"y": x}, ROWS[:1])  # So that all is imported.
    tracemalloc.start()
    try:
        run = shoal.run(lambda x: {"y": len(data)}, ROWS[:1])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [row["y"] for row in run.rows()] == [len(data)]
    assert peak < 3 * len(data)


def test_rows_come_as_trials_finish_and_are_recorded_by_then() -> None:
    def slow_last(x: int) -> dict[str, Any]:
        import time

        time.sleep(20 if x == 5 else 0.01)
        return {"y": x}

    run = shoal.start(slow_last, ROWS)
    seen = []
    for row in run.results():
        seen.append(row["y"])
        if len(seen) == 5:
            run.stop()
    assert sorted(seen[:5]) == [0, 1, 2, 3, 4]
    assert run.wait().state == "stopped"


def test_inline_a_function_runs_in_this_process_and_its_output_stays_here(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def told(x: int) -> dict[str, Any]:
        print("told", x)
        return {"pid": os.getpid(), "thread": threading.get_ident()}

    run = shoal.run(told, ROWS[:2], inline=True)
    assert run.state == "succeeded"
    here = (os.getpid(), threading.get_ident())
    assert [(row["pid"], row["thread"]) for row in run.rows()] == [here, here]
    assert capsys.readouterr().out == "told 0\ntold 1\n"


def test_inline_ctrl_c_stops_the_run_and_returns_it() -> None:
    def interrupted(x: int) -> dict[str, Any]:
        import signal

        signal.raise_signal(signal.SIGINT)
        return {"y": x}

    before = signal.getsignal(signal.SIGINT)
    run = shoal.run(interrupted, ROWS, inline=True)
    assert run.state == "stopped"
    assert [row["state"] for row in run.rows()][:1] == ["stopped"]
    assert not any(row["state"] == "done" for row in run.rows())
    assert signal.getsignal(signal.SIGINT) is before


def test_the_best_row_is_known_by_the_objective() -> None:
    run = shoal.run(square, ROWS, objective={"metric": "y", "goal": "max"})
    assert run.best is not None
    assert run.best["x"] == 5
    assert run.table().num_rows == 6


def test_failures_are_results_too() -> None:
    def picky(x: int) -> dict[str, Any]:
        if x == 3:
            raise ValueError("not three")
        return {"y": x}

    run = shoal.run(picky, ROWS)
    assert run.state == "failed"
    [failed] = [row for row in run.rows() if row["state"] == "failed"]
    assert "ValueError: not three" in failed["error"]


def test_a_run_can_be_resumed_from_python_with_the_function_it_was_sent() -> None:
    def fails_once(x: int) -> dict[str, Any]:
        from pathlib import Path

        mark = Path(f"seen-{x}")
        if x == 2 and not mark.exists():
            mark.touch()
            raise ValueError("first time")
        return {"y": x}

    run = shoal.run(fails_once, ROWS)
    assert run.state == "failed"
    again = shoal.resume(run.id, failed=True)
    assert again.state == "succeeded"
    assert again.id == run.id
    assert shoal.resume(run.id).state == "succeeded"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: shoal.run(square), "needs rows"),
        (lambda: shoal.run(square, []), "no rows"),
        (lambda: shoal.run(square, [1]), "Row 1 is a int"),  # type: ignore[list-item]
        (lambda: shoal.run(square, [{"x": object()}]), "cannot be recorded"),
        (lambda: shoal.run(square, [{"state": 1}]), "Reserved"),
        (lambda: shoal.run(square, ROWS, retires=1), "Unknown setting 'retires'"),
        (lambda: shoal.run(square, ROWS, retries=-1), "limits.retries"),
        (lambda: shoal.run("missing.yaml"), "missing.yaml"),
        (lambda: shoal.run("sweep.yaml", ROWS), "go with a function"),
        (lambda: shoal.run("sweep.yaml", limit=0), "limit: expected a whole number of at least 1, found 0"),
        (lambda: shoal.run(square, ROWS, limit="2"), "limit: .* found '2'"),  # type: ignore[arg-type]
    ],
    ids=[
        "no rows given",
        "empty",
        "not a dict",
        "object",
        "reserved",
        "misspelt",
        "impossible",
        "no file",
        "both",
        "no items",
        "text for a number",
    ],
)
def test_a_wrong_request_is_refused_before_anything_starts(call: Callable[[], object], words: str) -> None:
    with pytest.raises(shoal.SpecError, match=words):
        call()
    assert not Path(".shoal/runs").exists() or not list(Path(".shoal/runs").iterdir())


def test_a_script_needs_no_main_guard() -> None:
    Path("script.py").write_text(
        "import shoal\n"
        "def trial(x):\n"
        "    shoal.report(step=1, loss=x)\n"
        "    return {'y': x}\n"
        "run = shoal.run(trial, [{'x': 1}, {'x': 2}])\n"
        "print(run.state, [row['loss'] for row in run.rows()])\n"
    )
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True)
    assert done.stdout == "succeeded [1, 2]\n", done.stderr


def test_a_notebook_runs_a_function_of_a_cell_and_shows_its_progress() -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook()
    notebook.cells = [
        nbformat.v4.new_code_cell("import shoal\ndef trial(x):\n    return {'y': x + 1}"),
        nbformat.v4.new_code_cell("run = shoal.run(trial, [{'x': 1}, {'x': 2}])\nrun"),
        nbformat.v4.new_code_cell("[row['y'] for row in run.rows()]"),
    ]
    NotebookClient(notebook, timeout=60).execute()
    assert notebook.cells[2].outputs[0]["data"]["text/plain"] == "[2, 3]"
    shown = str(notebook.cells[1].outputs)
    assert "succeeded" in shown
    assert any(output.output_type == "display_data" for output in notebook.cells[1].outputs)


def test_a_run_that_stopped_after_failures_has_failed_however_many_are_allowed() -> None:
    def fails(x: int) -> dict[str, Any]:
        raise ValueError("no")

    run = shoal.run(fails, [{"x": number} for number in range(50)], stop_after=2, failures=10, concurrent=1)
    assert run.state == "failed"


def test_the_attempt_an_item_is_told_is_the_one_that_counts() -> None:
    def tell(x: int) -> dict[str, Any]:
        import os

        if x == 3 and os.environ["SHOAL_ATTEMPT"] == "1":
            raise ValueError("first time")
        return {"attempt_told": int(os.environ["SHOAL_ATTEMPT"])}

    run = shoal.run(tell, [{"x": number} for number in range(40)], retries=1)
    assert [row["attempt_told"] for row in run.rows()] == [2 if number == 3 else 1 for number in range(40)]
    assert [row["attempt"] for row in run.rows()] == [row["attempt_told"] for row in run.rows()]


def test_columns_of_several_types_are_text_in_the_table() -> None:
    run = shoal.run(lambda x: {"m": x}, [{"x": 1}, {"x": "007"}])
    assert run.table().column("m").to_pylist() == ["1", "007"]


def test_ctrl_c_stops_a_script_cleanly() -> None:
    Path("script.py").write_text(
        "import shoal, time\n"
        "def trial(x):\n"
        "    open('started', 'w').close()\n"
        "    time.sleep(60)\n"
        "run = shoal.run(trial, [{'x': 1}, {'x': 2}])\n"
        "print(run.state)\n"
    )
    process = subprocess.Popen([sys.executable, "script.py"], stdout=subprocess.PIPE, text=True)
    while not Path("started").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[0] == "stopped\n"


def test_a_run_that_was_opened_can_be_stopped() -> None:
    def wait(x: int) -> None:
        Path("started").touch()
        time.sleep(60)

    run = shoal.start(wait, [{"x": 1}, {"x": 2}])
    while not Path("started").exists():
        assert run.state == "running"
        time.sleep(0.01)
    opened = shoal.open(run.id)
    opened.stop()
    assert (run.wait().state, opened.wait().state) == ("stopped", "stopped")
    assert [row["state"] for row in opened.results()] == [row["state"] for row in run.rows()]


def test_what_an_item_reported_can_be_read() -> None:
    def curve(x: int) -> None:
        for step in range(3):
            shoal.report(step=step, loss=x / (step + 1))

    run = shoal.run(curve, [{"x": 6}])
    assert [(each["step"], each["loss"]) for each in run.reports("t0001")] == [(0, 6.0), (1, 3.0), (2, 2.0)]
    assert Path(run.folder, "metrics", "reports.csv").read_text().count("t0001") == 3

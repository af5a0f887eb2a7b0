"""Reports of inferences: what was measured and chosen, phases, errors; of runs that failed, go on, or are old."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.cli import main
from shoal.model import Item, Outcome
from shoal.model.record import Kept
from shoal.store import RunStore
from shoal.work.infer.item_fields import COUNT, FACTS

NOW = 1_700_000_000.0
MODEL = """\
class Loud:
    def __call__(self, batch):
        return [{"said": text.upper()} for text in batch]

class Broken:
    def __call__(self, batch):
        raise RuntimeError("no <b>voice</b>")
"""
WORKLOAD = """\
kind: infer
name: loud
input: {text: lines.txt}
model: {function: "loud:Loud"}
output: out/
tune: {item: 50}
"""
BY_BATCH = "inputs a second of a worker by batch"
BY_WORKERS = "inputs a second of a node by workers"

Report = Callable[[str], Any]
Make = Callable[..., RunStore]


@pytest.fixture(autouse=True)
def _workload(_folder: None) -> None:
    Path("loud.py").write_text(MODEL)
    Path("loud.yaml").write_text(WORKLOAD)
    Path("lines.txt").write_text("".join(f"word{number}\n" for number in range(400)))


def point(runtime: str, batch: int, rate: float, workers: int = 2, threads: int = 1) -> dict[str, Any]:
    return {
        "runtime": runtime,
        "batch": batch,
        "threads": threads,
        "workers": workers,
        "rows": 100,
        "seconds": 1.0,
        "samples": 3,
        "memory_bytes": 1 << 20,
        "device_bytes": 0,
        "rate": rate,
        "node_rate": rate * workers,
    }


def curve(**changed: Any) -> dict[str, Any]:
    """What a tuner of a node with four cores may have found out."""
    points = [point("as-given", 2**power, 100.0 + power) for power in range(5)]
    points += [point("openvino", 2**power, 300.0 - power) for power in range(5)]
    points += [point("openvino", 4, 310.0, workers=4), point("openvino", 4, 290.0, workers=1, threads=4)]
    return {
        "chosen": {
            "runtime": "openvino",
            "batch": 4,
            "threads": 1,
            "workers": 2,
            "at_work": 2,
            "rate": 596.0,
        },
        "points": points,
        "scaling": [[1, 300.0], [2, 596.0], [4, 1000.0]],
        "arrangements": [{"workers": 1, "threads": 4, "node_rate": 290.0}],
        "usl": {"first": 300.0, "contention": 0.05, "coherence": 0.002},
        "memory": {},
        "differences": {"openvino": 3e-6},
    } | changed


def document(**changed: Any) -> dict[str, Any]:
    """As a session of an inference leaves it."""
    return {
        "rows": 19_000,
        "errors": 1_000,
        "parts": 118,
        "bytes": 3 << 30,
        "seconds": 100.0,
        "rows_per_second": 190.0,
        "rows_per_second_without_listing": 200.0,
        "phase_seconds": {"listing": 5.0, "reading": 60.0, "predicting": 150.0, "writing": 0.0},
        "reasons": {f"reason {number}": 12 - number for number in range(12)},
        "missing": [],
        "runtime": "openvino",
        "decisions": [],
        "curves": {"4cpu-8gib": curve()},
    } | changed


def concluded(make_run: Make, found: dict[str, Any]) -> str:
    store = make_run("infer")
    store.keep(Kept(document=found))
    store.set_state("succeeded", NOW + 100)
    store.close()
    return store.run


def test_a_report_shows_what_was_measured_and_what_was_chosen(report: Report) -> None:
    run = shoal.run("loud.yaml")
    page = report(run.id)
    assert (page.tile("rows"), page.tile("errors")) == ("400", "0")
    assert {"What was measured", "Seconds by phase", "Decisions", "Where the time went"} <= {*page.headings}
    assert "Found out while it ran" in page.headings
    assert any(title.startswith("as-given, batch ") for title in page.titles(BY_BATCH))
    (chosen,) = [text for text in page.texts if text.startswith("Chosen: as-given, batch ")]
    found = next(entry for entry in run.wait().infer["decisions"] if entry["name"] == "batch")
    assert f"batch {found['choice']}, " in chosen


def test_the_curves_are_in_the_documents_of_run_and_show(capsys: pytest.CaptureFixture[str]) -> None:
    run = shoal.run("loud.yaml")
    curves = run.wait().infer["curves"]
    (found,) = curves.values()
    assert set(found) == set(curve())
    assert sum(point["rows"] for point in found["points"]) <= 400
    assert found["chosen"]["batch"] in [point["batch"] for point in found["points"]]
    capsys.readouterr()
    assert main(["show", run.id, "--json", "--why"]) == 0
    assert json.loads(capsys.readouterr().out)["infer"]["curves"] == json.loads(json.dumps(curves))


def test_each_runtime_is_a_line_and_the_chosen_point_has_a_ring(report: Report, make_run: Make) -> None:
    page = report(concluded(make_run, document()))
    titles = page.titles(BY_BATCH)
    assert len(titles) == 10, "one for each runtime and batch, as many workers as were chosen"
    assert "openvino, batch 4, 2 workers with 1 thread: 298 a second, over 100 inputs" in titles
    assert [text for text in page.texts if text in ("as-given", "openvino")][:2] == ["as-given", "openvino"]
    drawing = page.drawing(BY_BATCH)
    rings = [group for group in drawing.iter("g") if group.get("class") == "ring"]
    assert [ring.findtext("text") for ring in rings] == ["chosen"]
    dots = {
        circle.findtext("title"): circle
        for circle in drawing.iter("circle")
        if circle.find("title") is not None
    }
    chosen = dots["openvino, batch 4, 2 workers with 1 thread: 298 a second, over 100 inputs"]
    (ring,) = [circle for group in rings for circle in group.iter("circle")]
    assert (ring.get("cx"), ring.get("cy")) == (chosen.get("cx"), chosen.get("cy"))


def test_workers_are_drawn_with_the_law_that_was_fitted(report: Report, make_run: Make) -> None:
    page = report(concluded(make_run, document()))
    assert page.titles(BY_WORKERS) == [
        "1 worker: 300 a second",
        "2 workers: 596 a second",
        "4 workers: 1,000 a second",
        "1 worker with 4 threads: 290 a second",
    ]
    lines = [path for path in page.drawing(BY_WORKERS).iter("path") if path.get("class") == "line"]
    assert len(lines) == 1
    assert "contention 0.05" in page.text
    assert "coherence 0.002" in page.text
    assert "openvino 3e-06" in page.text


def test_a_law_is_not_drawn_through_a_single_point(report: Report, make_run: Make) -> None:
    one = curve(scaling=[[2, 596.0]], arrangements=[])
    page = report(concluded(make_run, document(curves={"4cpu-8gib": one})))
    assert "Inputs a second of a node, by workers" not in page.headings


def test_kinds_of_nodes_have_sections_of_their_own(report: Report, make_run: Make) -> None:
    both = {"4cpu-8gib": curve(), "<b>64cpu</b>": curve()}
    page = report(concluded(make_run, document(curves=both)))
    measured = [heading for heading in page.headings if heading.startswith("What was measured")]
    assert measured == ["What was measured on 4cpu-8gib", "What was measured on <b>64cpu</b>"]


def test_the_ten_most_frequent_reasons_of_errors_are_told(report: Report, make_run: Make) -> None:
    page = report(concluded(make_run, document()))
    assert page.tile("without listing") == "200"
    assert [text for text in page.texts if text.startswith("reason ")] == [f"reason {n}" for n in range(10)]
    assert f"And {1000 - sum(range(3, 13))} more." in page.text


def test_phases_that_took_time_are_bars(report: Report, make_run: Make) -> None:
    page = report(concluded(make_run, document()))
    drawing = page.drawing("seconds by phase")
    widths = [float(bar.get("width", "0")) for bar in drawing.iter("rect")]
    assert [text.text for text in drawing.iter("text")][::2] == ["listing", "reading", "predicting"]
    assert widths[1] / widths[2] == pytest.approx(60 / 150, rel=0.01)


def test_an_inference_whose_items_all_failed_has_a_report(report: Report) -> None:
    run = shoal.run("loud.yaml", sets=["model.function=loud:Broken"])
    page = report(run.id)
    assert (run.state, page.tile("rows")) == ("failed", "0")
    assert "Why items failed" in page.headings
    assert "no <b>voice</b>" in page.text


def test_inputs_that_could_not_be_used_are_counted_by_reason(report: Report) -> None:
    Path("rows.jsonl").write_text('{"t": "a"}\n{"u": "b"}\n{"t": "c"}\n')
    run = shoal.run("loud.yaml", sets=["input={jsonl: rows.jsonl, column: t}", "limits.errors=1"])
    page = report(run.id)
    assert page.tile("errors") == "1"
    assert "Inputs that could not be used" in page.headings


def test_a_running_inference_is_told_by_the_items_that_are_done(report: Report, make_run: Make) -> None:
    store = make_run("infer")
    store.set_state("running", NOW)
    journal = store.journal()
    journal.add([Item(seq, f"i{seq:05d}", {COUNT: 50}) for seq in (1, 2, 3)])
    for seq in (1, 2):
        facts = {"rows": 49, "errors": 1, "bytes": 10, "seconds": {"predicting": 2.0}, "attempt": 1}
        journal.ended(seq, 1, 1, "node0", NOW + seq, Outcome("done", {FACTS: facts}, None, 1.0))
    journal.commit()
    page = report(store.run)
    assert "It is running" in page.text
    assert (page.tile("rows"), page.tile("errors")) == ("98", "2")
    assert "without listing" not in page.texts
    assert "4.0s" in page.text


def test_a_run_of_before_there_were_curves_has_a_report(report: Report, make_run: Make) -> None:
    old = document()
    del old["curves"]
    page = report(concluded(make_run, old))
    assert page.tile("rows") == "19,000"
    assert not any(heading.startswith("What was measured") for heading in page.headings)


def test_an_inference_without_items_has_a_report(report: Report, make_run: Make) -> None:
    store = make_run("infer")
    store.close()
    assert report(store.run).tile("rows") == "0"

"""Reports of sweeps: what they show, of real runs and of ones that are empty, hostile, going on, or very large."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.errors import FileError, NotFound
from shoal.model import Item, Outcome
from shoal.model.record import Kept, WorkerUse
from shoal.reports import write
from shoal.store import RunStore

NOW = 1_700_000_000.0
TRIAL = """\
def main(lr, layers, opt, seed=1):
    if opt == "broken":
        raise ValueError(f"no such optimizer: {opt}")
    return {"score": layers * 10 - lr, "other": layers}
"""
EVIL = '"><img src=x onerror=alert(1)></svg><script>alert(2)</script>'

Report = Callable[[str], Any]
Make = Callable[..., RunStore]


def sweep(grid: dict[str, list[Any]], **more: Any) -> str:
    """A workload file over a grid of parameters of `main`."""
    Path("trial.py").write_text(TRIAL)
    workload = {"kind": "sweep", "name": "tried", "trials": {"grid": grid}, "run": {"function": "trial:main"}}
    Path("tried.yaml").write_text(json.dumps(workload | more))
    return "tried.yaml"


def record(
    store: RunStore, params: list[dict[str, Any]], outcomes: list[Outcome], node: str = "node0"
) -> None:
    """Items, the first of which ended so, each a second after the one before."""
    journal = store.journal()
    journal.add([Item(seq, f"t{seq:04d}", values) for seq, values in enumerate(params, 1)])
    for seq, outcome in enumerate(outcomes, 1):
        journal.ended(seq, 1, 1, node, NOW + seq, outcome)
    journal.commit()


def test_a_report_shows_the_best_trials_and_the_objective_over_what_differs(report: Report) -> None:
    file = sweep(
        {"lr": [0.001, 0.01, 0.1], "layers": [1, 2], "opt": ["adam", "sgd"], "seed": [1]},
        objective={"metric": "score", "goal": "max"},
    )
    run = shoal.run(file)
    page = report(run.id)
    assert page.tile("trials done") == "12 of 12"
    assert page.tile("best score") == "19.999"
    assert {"The best trials", "score over time", "score by parameter", "Durations by node"} <= {
        *page.headings
    }
    assert [name for name in page.headings if name in ("lr", "layers", "opt", "seed")] == [
        "lr",
        "layers",
        "opt",
    ]
    assert len(page.titles("score by lr")) == 12
    assert any(title.startswith("t0001: score ") for title in page.titles("score by layers"))
    assert {each.text for each in page.drawing("opt by score").iter("text")} >= {"adam", "sgd", "best"}
    assert "Where the time went" in page.headings
    assert "Decisions" in page.headings
    assert "workers" in page.texts


def test_the_best_trials_are_those_of_results(report: Report) -> None:
    run = shoal.run(
        sweep(
            {"lr": [0.1], "layers": [*range(30)], "opt": ["adam"]},
            objective={"metric": "score", "goal": "max"},
        )
    )
    page = report(run.id)
    best = [row["item"] for row in sorted(run.rows(), key=lambda row: -row["score"])][:20]
    assert [text for text in page.texts if text in {row["item"] for row in run.rows()}] == best


def test_one_number_and_words_are_drawn_as_lines(report: Report) -> None:
    best = {"metric": "score", "goal": "max"}
    page = report(
        shoal.run(sweep({"lr": [0.1], "layers": [1, 2], "opt": ["adam", "sgd"]}, objective=best)).id
    )
    assert "score by layers and opt" in page.headings
    at = page.texts.index("score by layers and opt")
    assert {"adam", "sgd"} <= {*page.texts[at : at + 40]}
    page = report(
        shoal.run(sweep({"lr": [1, 2], "layers": [1, 2], "opt": ["adam", "sgd"]}, objective=best)).id
    )
    assert not any(" and opt" in heading for heading in page.headings)


def test_reasons_of_failures_are_counted(report: Report) -> None:
    run = shoal.run(sweep({"lr": [0.1, 0.2], "layers": [1], "opt": ["broken", "adam"]}))
    page = report(run.id)
    assert (run.state, page.tile("failed")) == ("failed", "2")
    told = page.texts[page.texts.index("Why trials failed") :]
    at = next(n for n, text in enumerate(told) if text.startswith("ValueError: no such optimizer: broken"))
    assert told[at + 1] == "2"


def test_a_sweep_whose_trials_all_failed_has_a_report(report: Report) -> None:
    run = shoal.run(
        sweep(
            {"lr": [0.1], "layers": [1, 2], "opt": ["broken"]}, objective={"metric": "score", "goal": "max"}
        )
    )
    page = report(run.id)
    assert page.tile("trials done") == "0 of 2"
    assert "Why trials failed" in page.headings
    assert "The first trials" in page.headings
    assert not any("over time" in heading for heading in page.headings)


def test_names_and_values_of_users_are_text_and_nothing_else(report: Report, make_run: Make) -> None:
    store = make_run(objective=(EVIL, "min"))
    params = [{EVIL: f"{EVIL}{number % 2}", "x": number} for number in range(6)]
    done = [Outcome("done", {EVIL: float(number)}, None, 1.0) for number in range(4)]
    record(store, params, [*done, Outcome("failed", {}, f"{EVIL}\x1b[31m\u202e", 1.0)], node=EVIL)
    store.keep(Kept(notes=[EVIL], workers=[WorkerUse(1, EVIL, 1, 1, 1, 1)]))
    store.journal().noted(NOW, EVIL, EVIL, EVIL)
    store.journal().commit()
    Path(store.folder, "plan.json").write_text(
        json.dumps({"decisions": [{"name": EVIL, "choice": EVIL, "why": EVIL}]})
    )
    page = report(store.run)  # Whose elements and attributes are looked at as it is read.
    assert page.text.count(EVIL) >= 8
    assert "<script" not in page.source
    assert "\x1b" not in page.source
    assert "\u202e" not in page.source


def test_a_run_without_items_has_a_report(report: Report, make_run: Make) -> None:
    store = make_run()
    assert "It is queued" in report(store.run).text
    store.set_state("running", NOW)
    store.close()
    page = report(store.run)
    assert f"shoal resume {store.run}" in page.text
    assert "There are none yet." in page.text


def test_a_run_that_goes_on_is_shown_as_it_is(report: Report, make_run: Make) -> None:
    store = make_run(objective=("y", "max"))
    store.set_state("running", NOW)
    record(store, [{"x": number} for number in range(5)], [Outcome("done", {"y": 1.0}, None, 1.0)] * 2)
    page = report(store.run)
    assert "It is running" in page.text
    assert (page.tile("trials done"), page.tile("waiting")) == ("2", "3")
    store.journal().ended(3, 1, 1, "n", NOW, Outcome("done", {"y": 2.0}, None, 1.0))
    store.journal().commit()
    assert report(store.run).tile("trials done") == "3"


@pytest.mark.long
def test_a_hundred_thousand_trials_make_a_small_page(report: Report, make_run: Make) -> None:
    store = make_run(objective=("loss", "min"))
    count = 100_000
    names = [f"parameter-{number}" for number in range(8)]
    params = [
        {
            name: (seq * (number + 1)) % 97 if number % 2 else f"word-{seq % 7}"
            for number, name in enumerate(names)
        }
        for seq in range(count)
    ]
    outcomes = [
        Outcome("done", {"loss": 1000.0 / (seq + 1)}, None, 0.01)
        if seq % 10
        else Outcome("failed", {}, f"ValueError: the {seq}th one", 0.01)
        for seq in range(count)
    ]
    record(store, params, outcomes)
    page = report(store.run)
    assert len(page.source.encode()) < 300_000
    assert page.tile("trials done") == "90,000"
    assert "Drawn are 1,000 of the 90,000 trials" in page.text
    assert "Not drawn: parameter-6" in page.text
    assert "And 9,990 more, for other reasons." in page.text


def test_predicted_and_actual_time_are_compared(report: Report) -> None:
    file = sweep({"lr": [0.1], "layers": [1, 2], "opt": ["adam"]})
    shoal.run(file)
    run = shoal.run(file)
    page = report(run.id)
    assert "Predicted and actual time" in page.headings
    assert "nine times out of ten. It took " in page.text


def test_without_an_objective_the_first_metric_is_drawn_and_nothing_is_best(report: Report) -> None:
    page = report(shoal.run(sweep({"lr": [0.1, 0.2], "layers": [1, 2], "opt": ["adam"]})).id)
    assert "score over time" in page.headings
    assert "The first trials" in page.headings
    assert "best" not in page.text


def test_numbers_that_cannot_be_drawn_are_left_out(report: Report, make_run: Make) -> None:
    store = make_run(objective=("y", "max"))
    values = [float("nan"), float("inf"), 10**400, True, "text", 1e308, -1e308, 5e-324, 2.0]
    record(
        store,
        [{"x": value} for value in reversed(values)],
        [Outcome("done", {"y": value}, None, 1.0) for value in values],
    )
    page = report(store.run)
    drawn = [text.partition(":")[0] for text in page.texts if ": y " in text]
    assert drawn == ["t0006", "t0007", "t0008", "t0009"] * 2, (
        "in time and by parameter: numbers that are finite"
    )
    drawings = page.source.split("<svg")[1:]
    assert not [each for each in drawings if re.search(r'="[^"]*\b(nan|inf)', each)], "no place is"


def test_a_run_that_is_not_there_is_a_sentence() -> None:
    with pytest.raises(NotFound, match="There is no run 'nothing'"):
        write("nothing")


def test_a_page_that_cannot_be_written_is_a_sentence_and_leaves_nothing_beside_it(make_run: Make) -> None:
    store = make_run()
    Path(store.folder, "report.html").mkdir()
    before = sorted(path.name for path in Path(store.folder).iterdir())
    with pytest.raises(FileError, match=r"report\.html cannot be written"):
        write(store.run)
    assert sorted(path.name for path in Path(store.folder).iterdir()) == before

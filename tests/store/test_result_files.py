"""Result rows, and the files made of them: one row an item, exact texts, types that hold every value."""

from __future__ import annotations

import csv
import json
import math
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import StoreError
from shoal.model import Item, Outcome
from shoal.store import Columns, ItemRecord, RunStore, result_row

NOW = 1_700_000_000.0
NASTY = [
    "two words",
    'a "quote"',
    "$(rm -rf /)",
    "line\nbreak",
    "carriage\rreturn",
    "ünïcödé ✓",
    "a,b;c\td",
    "",
    "=1+1",
]


def record(run: RunStore, params: list[dict[str, Any]], metrics: list[dict[str, Any]], **given: Any) -> None:
    journal = run.journal()
    journal.add([Item(seq, f"t{seq}", values, **given) for seq, values in enumerate(params, 1)])
    for seq, values in enumerate(metrics, 1):
        journal.ended(seq, 1, 0, "node0", NOW + 0.25, Outcome("done", values, None, 1.5))
    journal.commit()


def read_csv(run: RunStore) -> list[dict[str, str]]:
    with open(run.write_results(), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read_parquet(run: RunStore) -> Any:
    import pyarrow.parquet

    run.write_results()
    return pyarrow.parquet.read_table(os.path.join(run.folder, "results.parquet"))


def test_a_row_has_parameters_metrics_and_what_happened(run: RunStore) -> None:
    record(run, [{"lr": 0.1, "DS": "a"}, {"lr": 0.2, "DS": None}], [{"accuracy": 0.5}])
    first, second = run.rows()
    assert list(first) == run.columns()
    assert first == {
        "item": "t1",
        "state": "done",
        "lr": 0.1,
        "DS": "a",
        "accuracy": 0.5,
        "seconds": 1.5,
        "attempt": 1,
        "node": "node0",
        "started": "2023-11-14T22:13:20.250Z",
        "error": None,
    }
    assert second["state"] == "waiting"
    assert second["accuracy"] is None
    assert [row["item"] for row in run.rows(["done"])] == ["t1"]


def test_columns_come_in_the_order_in_which_they_first_appeared(run: RunStore) -> None:
    record(run, [{"b": 1, "a": 2}, {"b": 1, "c": 3}], [{"z": 1}, {"y": 2, "z": 3}])
    wanted = ["item", "state", "b", "a", "c", "z", "y", "seconds", "attempt", "node", "started", "error"]
    assert run.columns() == wanted
    run.close()
    with RunStore.open(run.home, run.run, write=True) as again:
        again.journal().add([Item(3, "t3", {"d": 1})])
        again.journal().commit()
        assert again.columns()[2:6] == ["b", "a", "c", "d"]


def test_a_metric_named_like_a_parameter_or_a_reserved_word_is_told_apart(run: RunStore) -> None:
    params = {"lr": 0.1, "metric.epochs": 7, "epochs": 3}
    record(run, [params], [{"lr": 0.5, "seconds": 9, "state": "x", "epochs": 4, "metric.lr": 1}])
    (row,) = run.rows()
    assert (row["lr"], row["metric.lr"], row["metric.metric.lr"]) == (0.1, 0.5, 1)
    assert (row["seconds"], row["metric.seconds"]) == (1.5, 9)
    assert (row["state"], row["metric.state"]) == ("done", "x")
    assert (row["epochs"], row["metric.epochs"], row["metric.metric.epochs"]) == (3, 7, 4)
    assert len(set(run.columns())) == len(run.columns())
    assert run.best("metric.seconds", "max")[0]["metric.seconds"] == 9
    (line,) = read_csv(run)
    assert line["metric.lr"] == "0.5"


def test_the_row_of_a_record_is_the_row_that_is_read(run: RunStore) -> None:
    record(run, [{"lr": 0.1}], [{"lr": 0.5}])
    (row,) = run.rows()
    made: ItemRecord = run.item("t1")
    assert result_row(made, Columns.of(["lr"], ["lr"])) == row


def test_the_best_rows_are_those_of_done_items_with_a_number(run: RunStore) -> None:
    values = [0.5, math.nan, None, "9", 0.7, True, 0.7, -1, math.inf, 10**400]
    record(run, [{} for _ in values], [{"accuracy": value} for value in values])
    journal = run.journal()
    journal.add([Item(11, "t11", {})])
    journal.ended(11, 1, 0, "a", NOW, Outcome("pruned", {"accuracy": 10**401}))
    journal.commit()
    assert [row["item"] for row in run.best("accuracy", "max", 9)] == ["t9", "t10", "t5", "t7", "t1", "t8"]
    assert [row["item"] for row in run.best("accuracy", "min", 2)] == ["t8", "t1"]
    assert run.best("nothing", "max", 5) == []


def test_every_cell_survives_the_csv(run: RunStore) -> None:
    record(run, [{"cell": text} for text in NASTY], [{"note": text} for text in NASTY])
    rows = read_csv(run)
    assert [row["cell"] for row in rows] == NASTY
    assert [row["note"] for row in rows] == NASTY


def test_parameters_are_written_with_their_exact_text(run: RunStore) -> None:
    params = {"id": 7, "lr": 0.1, "on": True, "none": None, "f": 1e-5, "list": [1, 2]}
    record(run, [params], [{"ok": True, "x": math.nan, "deep": {"a": 1}}], texts={"id": "007", "lr": "0.10"})
    (row,) = read_csv(run)
    assert (row["id"], row["lr"], row["on"], row["none"], row["f"]) == ("007", "0.10", "true", "", "1e-05")
    assert (row["ok"], row["x"], row["deep"]) == ("true", "nan", '{"a": 1}')


def test_parquet_columns_have_the_type_that_holds_every_value(run: RunStore) -> None:
    params = [
        {
            "i": 1,
            "f": 0.5,
            "if": 1,
            "b": True,
            "s": "x",
            "mix": 7,
            "bi": True,
            "big": 2**70,
            "wide": 2**60,
            "no": None,
        },
        {
            "i": None,
            "f": 2.0,
            "if": 0.5,
            "b": False,
            "s": "\udcff",
            "mix": "x",
            "bi": 1,
            "big": 1,
            "wide": 0.5,
        },
    ]
    record(run, params, [{"loss": math.nan, "list": [1]}, {"loss": 3}], texts={"mix": "007"})
    table = read_parquet(run)
    types = {name: str(table.schema.field(name).type) for name in table.column_names}
    assert list(types) == run.columns()
    assert [types[name] for name in ("i", "f", "if", "b", "s")] == [
        "int64",
        "double",
        "double",
        "bool",
        "string",
    ]
    assert {types[name] for name in ("mix", "bi", "big", "wide", "no", "list")} == {"string"}
    assert (types["seconds"], types["attempt"], types["started"]) == ("double", "int64", "string")
    values = table.to_pydict()
    assert values["i"] == [1, None]
    assert values["mix"] == ["007", "x"]
    assert values["big"] == [str(2**70), "1"]
    assert values["list"] == ["[1]", None]
    assert math.isnan(values["loss"][0])
    assert values["loss"][1] == 3.0


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": [value]}
    return value


def test_whatever_is_recorded_already_is_written_all_the_same(run: RunStore) -> None:
    odd = [{"half\ud800": 1, "y": 1}, {"deep": nested(300), "y": 10**4000}, {"deep": nested(50), "y": 3}]
    record(run, [{"x": 1}, {"x": 2, "\udfff": 5}, {"x": 3}], odd)
    first, second, third = read_csv(run)
    assert (first["half?"], second["y"], third["deep"]) == ("1", str(10**4000), json.dumps(nested(50)))
    assert second["deep"].startswith('{"a":[{"a":[')
    table = read_parquet(run)
    assert table.column("half?").to_pylist() == [1, None, None]
    assert table.column("?").to_pylist() == [None, 5, None]
    assert table.column("deep").to_pylist() == [None, second["deep"], third["deep"]]
    assert [row["deep"] for row in run.rows()] == [None, second["deep"], nested(50)]
    assert [each.metrics.get("deep") for each in run.items()] == [None, second["deep"], nested(50)]


def test_a_run_without_items_has_files_without_rows(run: RunStore) -> None:
    assert read_csv(run) == []
    assert read_parquet(run).num_rows == 0


def test_fifty_thousand_items_make_exactly_one_row_each(run: RunStore) -> None:
    journal = run.journal()
    count = 50_000
    for first in range(1, count + 1, 1000):
        journal.add([Item(seq, f"t{seq}", {"lr": seq, "DS": "user"}) for seq in range(first, first + 1000)])
        for seq in range(first, first + 1000):
            journal.ended(seq, 1, 0, "node0", NOW, Outcome("done", {"accuracy": seq / count}, None, 0.1))
        journal.commit()
    rows = read_csv(run)
    assert [row["item"] for row in rows] == [f"t{seq}" for seq in range(1, count + 1)]
    table = read_parquet(run)
    assert table.column("item").to_pylist() == [f"t{seq}" for seq in range(1, count + 1)]
    assert table.column("accuracy").to_pylist()[-1] == 1.0
    assert run.counts()["done"] == count


def test_memory_does_not_grow_with_the_number_of_rows(
    make_run: Callable[..., RunStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet  # noqa: F401  not to be counted

    monkeypatch.setattr("shoal.store.result_files._GROUP", 2000)
    peaks = []
    for count in (1, 10_000, 40_000):
        run = make_run()
        record(run, [{"lr": seq} for seq in range(count)], [])
        tracemalloc.start()
        run.write_results()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < peaks[1] * 1.3, peaks


def test_old_results_stay_when_new_ones_cannot_be_written(
    run: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(run, [{"lr": 1}], [])
    path = Path(run.write_results())
    before = path.read_bytes()
    record_more = run.journal()
    record_more.add([Item(2, "t2", {"lr": 2})])
    record_more.commit()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="the disk is full") as caught:
        run.write_results()
    assert "Free some space" in (caught.value.hint or "")
    assert path.read_bytes() == before
    assert not [name for name in os.listdir(run.folder) if name.endswith(".part")]


def test_an_error_has_nothing_in_it_that_a_terminal_obeys(run: RunStore) -> None:
    said = "no luck: \x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J\tütf\nsecond\r line"
    journal = run.journal()
    journal.add([Item(1, "t1", {})])
    journal.ended(1, 1, 0, "node0", NOW, Outcome("failed", {}, said, 1.5))
    journal.commit()
    plain = "no luck: red ]0;title 2J\tütf\nsecond line"
    found = [next(iter(run.rows())), read_csv(run)[0], read_parquet(run).to_pylist()[0]]
    assert [row["error"] for row in found] == [plain] * 3
    assert result_row(next(iter(run.items())), Columns.of([], []))["error"] == plain

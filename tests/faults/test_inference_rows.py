"""Rows of a model's output that do not fit the others: each costs itself, and no other row."""

from __future__ import annotations

import json

import pyarrow.parquet as pq

COUNT = 400


def write(place, row, *, limits=None, **output):
    """An inference over numbers, one in each line; `row` is Python, what the model gives for `number`."""
    place.write("numbers.txt", "".join(f"{number}\n" for number in range(COUNT)))
    model = f"class Model:\n    def __call__(self, batch):\n        return [row(int(text)) for text in batch]\n\n{row}"
    place.write("mine.py", model)
    document = {
        "kind": "infer",
        "name": "rows",
        "input": {"text": "numbers.txt"},
        "model": {"function": "mine:Model"},
        "output": {"path": "out/", **output},
        "tune": {"item": 40, "batch": 16, "workers": 2},
        "limits": limits or {"errors": "1%"},
    }
    place.write("rows.yaml", json.dumps(document))
    return "rows.yaml"


def read(place):
    """Rows and errors by their line, as anybody reads the folder as a whole."""
    table = pq.read_table(place.folder / "out").to_pylist()
    errors = {each["row"]: each["reason"] for each in table if each.get("reason")}
    good = {each["row"]: each for each in table if not each.get("reason")}
    assert len(good) + len(errors) == len(table)
    return good, errors


ODD = """
def row(number):
    found = {"score": number, "label": str(number % 7)}
    if number == 57:
        found["score"] = "N/A"
    if number == 123:
        found["note"] = "rather large"
    if number == 256:
        del found["label"]
    if number == 301:
        found["score"] = 0.5
    if number == 302:
        found = None
    return found
"""


def test_an_odd_row_costs_itself_alone(place):
    ended = place.json("run", write(place, ODD), "--json")
    assert (ended["state"], ended["items"]["failed"]) == ("succeeded", 0)
    assert (ended["infer"]["rows"], ended["infer"]["errors"]) == (COUNT - 2, 2)
    good, errors = read(place)
    assert good.keys() == set(range(COUNT)) - {57, 302}
    assert errors == {
        57: "the model gave a value of another type than in other rows, in column 'score'; it gave \"N/A\"",
        302: "the model gave None instead of a row",
    }
    assert good[123]["note"] == "rather large"
    assert [good[number]["note"] for number in (0, 122, 124, 399)] == [None] * 4
    assert good[256]["label"] is None
    assert [good[number]["score"] for number in (300, 301, 303)] == [300.0, 0.5, 303.0]


def test_odd_rows_count_against_the_limit_of_errors(place):
    done = place.shoal("run", write(place, ODD, limits={"errors": 0}), "--json", code=1)
    assert json.loads(done.stdout)["state"] == "failed"
    assert "0.5% of the inputs could not be used, and limits.errors allows 0%" in done.stdout + done.stderr
    good, errors = read(place)
    assert (len(good), len(errors)) == (COUNT - 2, 2)


NESTED = """
def row(number):
    return {"answer": [1, {"words": [number]}, None][number % 3] if number % 100 else "none"}
"""


def test_nested_values_of_any_form_are_kept_as_json(place):
    ended = place.json("run", write(place, NESTED, json=["answer"]), "--json")
    assert (ended["infer"]["rows"], ended["infer"]["errors"]) == (COUNT, 0)
    good, _ = read(place)
    found = {number: each["answer"] and json.loads(each["answer"]) for number, each in good.items()}
    assert [found[number] for number in (0, 1, 2, 3, 4)] == ["none", {"words": [1]}, None, 1, {"words": [4]}]

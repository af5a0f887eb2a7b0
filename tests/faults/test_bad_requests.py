"""Requests that are wrong: each is refused with exit code 2 and a sentence, and nothing is started."""

from __future__ import annotations

import json

import pytest

ECHO = "python echo.py {x}"
GRID = "{grid: {x: [1, 2]}}"


@pytest.fixture
def echo(place):
    place.write("echo.py", "import sys; print(sys.argv[1:])")
    return place


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("limitz: {retries: 1}", ["limitz", "s.yaml:6:", "Did you mean 'limits'?"]),
        ("limits: {retires: 1}", ["retires", "s.yaml:6:", "retries"]),
        ("limits: {retries: many}", ["limits.retries", "s.yaml:6:", "many"]),
        ("limits: {retries: -1}", ["limits.retries", "-1"]),
        ("limits: {timeout: soon}", ["limits.timeout", "soon"]),
        ("limits: [1, 2]", ["limits", "s.yaml:6:"]),
        ("resources: {cpu: lots}", ["resources.cpu", "lots"]),
        ("resources: {memory: 4 potatoes}", ["resources.memory", "potatoes"]),
        ("env: {A: [1]}", ["env"]),
        ("metrics: {score: '(unclosed'}", ["metrics.score"]),
        ("objective: {metric: score, goal: most}", ["objective.goal", "most"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_unknown_key_or_a_wrong_type_is_refused_with_its_line(echo, more, words):
    said = echo.refused("run", echo.sweep("s", GRID, ECHO, more))
    for word in words:
        assert word in said, said


@pytest.mark.parametrize(
    "trials",
    [
        "{table: t.csv, grid: {x: [1]}}",
        "{grid: {x: [1]}, search: {x: {int: [1, 4]}}, count: 3}",
        "{table: t.csv, search: {x: {int: [1, 4]}}, count: 3}",
        "{repeat: 2}",
    ],
    ids=["table-grid", "grid-search", "table-search", "none"],
)
def test_exactly_one_of_table_grid_and_search_may_be_given(echo, trials):
    echo.write("t.csv", "x\n1\n")
    said = echo.refused("run", echo.sweep("s", trials, ECHO))
    for word in ("table", "grid", "search"):
        assert word in said, said


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("", ["t.csv", "empty"]),
        ("\n\n", ["t.csv", "empty"]),
        ("x,y\n", ["t.csv", "no rows"]),
        ("x,x\n1,2\n", ["'x'", "2 times", "column 1 and column 2"]),
        ("x,,y\n1,2,3\n", ["column 2", "no name"]),
        ("x,seconds\n1,2\n", ["'seconds'", "reserved"]),
        ("x,state,node\n1,2,3\n", ["'state'", "'node'", "reserved"]),
        ("x,y\n1,2,3\n", ["line 2", "more cells"]),
        ('x\n"1\n', ["never closed"]),
    ],
    ids=[
        "no bytes",
        "blank",
        "no rows",
        "duplicate",
        "no name",
        "reserved",
        "two reserved",
        "wide",
        "open quote",
    ],
)
def test_a_table_that_cannot_be_used_is_refused(echo, table, words):
    echo.write("t.csv", table)
    said = echo.refused("run", echo.sweep("s", "{table: t.csv}", ECHO))
    for word in words:
        assert word in said, said


@pytest.mark.parametrize(
    ("data", "word"),
    [(b"x\n\xff\xfe\n", "UTF-8"), (b"x\na\0b\n", "NUL"), ("x\n1\n".encode("utf-16"), "UTF-16")],
    ids=["latin", "nul", "utf-16"],
)
def test_a_table_that_is_not_text_is_refused(echo, data, word):
    (echo.folder / "t.csv").write_bytes(data)
    assert word in echo.refused("run", echo.sweep("s", "{table: t.csv}", ECHO))


def test_a_table_that_is_not_there_is_refused_with_the_nearest_name(echo):
    echo.write("experiments.csv", "x\n1\n")
    said = echo.refused("run", echo.sweep("s", "{table: experimens.csv}", ECHO))
    assert "Did you mean 'experiments.csv'?" in said


def test_a_workload_file_that_is_not_there_is_refused(place):
    assert "sweep.yaml" in place.refused("run", "sweep.yaml")


def test_a_column_that_does_not_exist_is_refused_with_the_nearest_name(echo):
    echo.write("t.csv", "LR,DS\n1,2\n")
    said = echo.refused("run", echo.sweep("s", "{table: t.csv}", "python echo.py {LR} {DSS}"))
    assert "no column 'DSS'" in said
    assert "'DS'" in said


def test_a_script_that_is_not_there_is_refused_with_the_nearest_name(echo):
    said = echo.refused("run", echo.sweep("s", GRID, "python ecko.py {x}"))
    assert "no file ecko.py" in said
    assert "echo.py" in said


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("nowhere:main", ["nowhere"]),
        ("train:mian", ["'mian'", "'main'"]),
        ("train:other", ["'x'", "other()"]),
        ("train", ["train"]),
        ("broken:main", ["broken.py:1"]),
    ],
)
def test_a_function_that_cannot_be_called_is_refused(place, function, words):
    place.write("train.py", "def main(x): ...\ndef other(y): ...\n")
    place.write("broken.py", "def main(x: ...\n")
    said = place.refused("run", place.sweep("s", GRID, f"function: {function}"))
    for word in words:
        assert word in said, said


@pytest.mark.parametrize("name", ["../up", "a b", "", ".hidden", "x" * 64])
def test_a_name_that_is_no_safe_file_name_is_refused(echo, name):
    file = echo.sweep("s", GRID, ECHO)
    echo.write(file, (echo.folder / file).read_text().replace("name: s", f"name: {json.dumps(name)}"))
    assert "name" in echo.refused("run", file)


def test_only_what_is_a_run_can_be_named_as_one(echo):
    echo.shoal("run", echo.sweep("s", GRID, ECHO), code=0)
    before = sorted(path for path in echo.folder.rglob("*"))
    for command, run in [("rm", "../work"), ("rm", ".."), ("get", ".."), ("logs", "../runs"), ("resume", "")]:
        assert "no run" in echo.refused(command, run)
    said = echo.refused("get", "s", "../../../..")
    assert "no item" in said
    assert sorted(path for path in echo.folder.rglob("*")) == before


def test_more_than_the_machine_has_is_refused_before_anything_starts(echo):
    assert "memory" in echo.refused("run", echo.sweep("s", GRID, ECHO, "resources: {memory: 900TiB}"))
    assert "cpu" in echo.refused("run", echo.sweep("s", GRID, ECHO, "resources: {cpu: 5000}")).lower()


@pytest.mark.parametrize(
    "text",
    [
        "kind: sweep\nname: !!python/object/apply:os.system ['touch hacked']\n",
        "kind: sweep\n\tname: x\n",
        "kind: sweep\nname: [1, 2\n",
        "- 1\n- 2\n",
        "",
        "kind: swep\n",
        "\x00\x01",
        "kind: sweep\nkind: sweep\n",
        "a: &a [*a]\n",
    ],
    ids=[
        "python tag",
        "tab",
        "open list",
        "a list",
        "empty",
        "misspelt kind",
        "binary",
        "key twice",
        "cycle",
    ],
)
def test_a_file_that_is_no_workload_is_refused_and_runs_nothing(place, text):
    place.write("s.yaml", text)
    place.refused("run", "s.yaml")
    assert not (place.folder / "hacked").exists()

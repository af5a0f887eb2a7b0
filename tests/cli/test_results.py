"""`ls`, `show`, `results`, `logs`, `get` and `rm` on a run that ended: three trials, the second failed."""

from __future__ import annotations

import json

import pytest

from shoal.store import RunStore


def test_ls_is_newest_first(shoal, sweep):
    sweep("first", ["ok"])
    sweep("second", ["ok"])
    shoal("run", "first.yaml")
    shoal("run", "second.yaml")
    names = [run["run"].rpartition("-")[0] for run in json.loads(shoal("ls", "--json").stdout)]
    assert names == ["second", "first"]


def test_ls_without_runs_is_an_empty_list(shoal):
    assert json.loads(shoal("ls", "--json").stdout) == []
    nothing = shoal("ls")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "no runs" in nothing.stderr


@pytest.mark.parametrize("name", ["last", "three", None], ids=["last", "name", "id"])
def test_show_prints_the_run_with_its_items(look, finished, name):
    code, out, _ = look("show", name or finished.run, "--json")
    assert code == 0
    shown = json.loads(out)
    assert (shown["run"], shown["state"]) == (finished.run, "failed")
    assert shown["counts"]["done"] == 2
    assert [(item["item"], item["state"]) for item in shown["items"]] == [
        ("t0001", "done"),
        ("t0002", "failed"),
        ("t0003", "done"),
    ]
    assert shown["items"][0]["metrics"] == {"score": 10.0}


def test_show_names_failures_and_why_gives_reasons(look):
    _, out, _ = look("show", "last")
    assert "2 done, 1 failed" in out
    assert "failed: t0002" in out
    assert "no luck" in out
    assert "workers:" not in out
    assert "workers:" in look("show", "last", "--why")[1]
    assert json.loads(look("show", "last", "--why", "--json")[1])["plan"]["decisions"]


def test_show_has_earlier_attempts_and_events(shoal, sweep, tmp_path):
    path = sweep("again", ["fail"])
    path.write_text(path.read_text() + "limits: {retries: 1}\n")
    shoal("run", "again.yaml")
    run = next((tmp_path / ".shoal" / "runs").iterdir()).name
    with RunStore.open(str(tmp_path / ".shoal"), run, write=True) as store:
        store.journal().noted(1.0, "node far", "requested", "it saves 25s")
        store.journal().commit()
    shown = json.loads(shoal("show", run, "--json", "--why").stdout)
    [trial] = shown["items"]
    [first] = trial["earlier_attempts"]
    assert (trial["attempt"], first["attempt"], first["how"]) == (2, 1, "failed")
    assert first["node"] == trial["node"]
    assert first["started"] < trial["started"]
    assert "no luck" in first["error"]
    assert first["log"]["end"] > first["log"]["start"]
    event = {"at": "1970-01-01T00:00:01.000Z", "why": "it saves 25s"}
    assert shown["events"] == [event | {"subject": "node far", "what": "requested"}]
    assert shown["scaling"] == [event | {"host": "far", "change": "requested"}]
    assert f"(before: failed on {trial['node']})" in shoal("show", run).stdout
    assert "events: 1, last node far requested" in shoal("show", run).stdout
    assert shoal("logs", run, "t0001").stdout.count("no luck") == 1, "that of the last attempt"


def test_results_as_csv_are_the_file(look, finished):
    _, out, _ = look("results", "last", "--format", "csv")
    path = finished.folder / ".shoal" / "runs" / finished.run / "results.csv"
    assert out == path.read_text()
    assert "\nt0001,done,001," in out


def test_results_as_json_are_a_list_of_rows(look):
    rows = json.loads(look("results", "last", "--format", "json")[1])
    assert [row["item"] for row in rows] == ["t0001", "t0002", "t0003"]
    assert set(rows[0]) == {
        *("item", "state", "x", "how", "score", "seconds", "attempt", "node", "started", "error")
    }


def test_best_results_come_best_first_in_every_format(look):
    assert [
        row["item"] for row in json.loads(look("results", "last", "--format", "json", "--best", "5")[1])
    ] == [
        "t0003",
        "t0001",
    ]
    lines = look("results", "last", "--format", "csv", "--best", "1")[1].splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("t0003,done,003,ok,")
    assert look("results", "last", "--best", "1")[1].splitlines()[1].startswith("t0003")


def test_results_as_a_table_have_every_column_when_piped(look):
    header = look("results", "last")[1].splitlines()[0]
    assert header.split() == [
        "item",
        "state",
        "x",
        "how",
        "score",
        "seconds",
        "attempt",
        "node",
        "started",
        "error",
    ]


def test_rm_removes_several_runs(shoal, sweep):
    sweep("good", ["ok"])
    runs = [json.loads(shoal("run", "good.yaml", "--json").stdout)["run"] for _ in range(2)]
    removed = shoal("rm", *runs)
    assert (removed.returncode, removed.stdout) == (0, "")
    assert json.loads(shoal("ls", "--json").stdout) == []
    gone = shoal("rm", *runs)
    assert gone.returncode == 2
    assert all(run in gone.stderr for run in runs)


def test_a_broken_pipe_ends_quietly(shoal, sweep, start):
    sweep("good", ["ok"])
    shoal("run", "good.yaml")
    for arguments in (("ls",), ("results", "last"), ("schema", "sweep"), ("logs", "last")):
        process = start(*arguments)
        process.stdout.close()
        assert process.wait(30) == 0
        assert process.stderr.read() == ""

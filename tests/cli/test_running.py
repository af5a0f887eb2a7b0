"""`run`, as scripts use it: exit codes, stdout and stderr, the JSON document."""

from __future__ import annotations

import json


def test_a_good_run_exits_with_0_and_puts_only_results_on_stdout(shoal, sweep):
    sweep("good", ["ok", "ok", "ok"])
    done = shoal("run", "good.yaml")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["item", "state", "x", "score", "seconds"]
    assert [line.split()[:4] for line in lines[1:4]] == [
        ["t0001", "done", "001", "10"],
        ["t0002", "done", "002", "20"],
        ["t0003", "done", "003", "30"],
    ]
    assert lines[4] == "Best: t0003 with score 30 (x=003 how=ok)"
    assert len(lines) == 5
    for part in ("Where the time went", "start-up", "idle", "succeeded: 3 done", "results.csv"):
        assert part in done.stderr


def test_json_has_no_bare_nan(shoal, sweep):
    sweep("nans", ["nan"])
    done = shoal("run", "nans.yaml", "--json")
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout, parse_constant=_refuse)["run"]
    rows = json.loads(shoal("results", run, "--format", "json").stdout, parse_constant=_refuse)
    assert rows[0]["score"] is None
    shown = json.loads(shoal("show", run, "--json").stdout, parse_constant=_refuse)
    assert shown["items"][0]["metrics"] == {"score": None}


def _refuse(constant):
    raise AssertionError(constant)


def test_limit_and_set_reach_the_run(shoal, sweep):
    sweep("many", ["ok"] * 4)
    done = shoal("run", "many.yaml", "--limit", "2", "--set", "name=other", "--json")
    summary = json.loads(done.stdout)
    assert summary["items"]["done"] == 2
    assert summary["run"].startswith("other-")


def test_a_run_on_virtual_nodes_names_them(shoal, sweep, tmp_path):
    sweep("good", ["ok"])
    (tmp_path / "lab.yaml").write_text(
        "kind: cluster\nprovider: local\nengine: embedded\nnodes: [{host: left, cpu: 1}]\n"
    )
    done = shoal("run", "good.yaml", "--cluster", "lab.yaml", "--json")
    assert json.loads(done.stdout)["best"]["node"] == "left"


def test_a_closed_pipe_does_not_change_how_a_run_ended(shoal, start, sweep):
    sweep("mixed", ["ok", "fail"])
    process = start("run", "mixed.yaml")
    process.stdout.close()
    process.stderr.close()
    assert process.wait(30) == 1
    assert json.loads(shoal("ls", "--json").stdout)[0]["state"] == "failed"

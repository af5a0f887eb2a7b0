"""Wrong requests: one helpful sentence, exit code 2, nothing on stdout and never a traceback."""

from __future__ import annotations

import json

import pytest

MISUSES = [
    (["rnu"], "There is no command 'rnu'. Did you mean 'run'?"),
    (["--frobnicate"], "No such option"),
    (["run"], "Missing argument 'FILE'"),
    (["run", "nope.yaml"], "There is no file 'nope.yaml'"),
    (["run", "three.yaml", "extra"], "unexpected extra argument"),
    (["run", "three.yaml", "--limit", "0"], "--limit"),
    (["run", "three.yaml", "--limit", "x"], "--limit"),
    (["run", "three.yaml", "--set"], "--set"),
    (["run", "three.yaml", "--set", "trials.tabel=3"], "Did you mean 'table'?"),
    (["run", "three.yaml", "--set", "nonsense"], "nonsense"),
    (["run", "three.yaml", "--cluster", "nope.yaml"], "There is no file 'nope.yaml'"),
    (["run", "three.yaml", "--detach"], "--detach needs --cluster"),
    (["run", "trial.py"], "trial.py"),
    (["run", "."], "folder"),
    (["check"], "Missing argument 'FILE'"),
    (["check", "nope.yaml"], "There is no file"),
    (["plan", "nope.yaml"], "There is no file"),
    (["plan", "three.yaml", "--nodes", "many"], "expected a number such as 60"),
    (["plan", "three.yaml", "--nodes", "9..2"], "the smaller number first"),
    (["resume"], "Missing argument 'RUN'"),
    (["resume", "nope"], "There is no run 'nope'"),
    (["resume", "../../etc"], "There is no run '../../etc'"),
    (["stop", "nope"], "There is no run 'nope'"),
    (["stop", "last"], "is not running: it is failed"),
    (["show", "nope"], "There is no run 'nope'"),
    (["logs", "nope"], "There is no run 'nope'"),
    (["logs", "last", "t9999"], "has no item 't9999'"),
    (["results", "nope"], "There is no run 'nope'"),
    (["results", "last", "--format", "xml"], "'xml' is not one of"),
    (["results", "last", "--best", "0"], "--best"),
    (["get", "last"], "left files"),
    (["get", "last", "t0001"], "t0001 left no files"),
    (["get", "last", "../x"], "has no item '../x'"),
    (["rm"], "Missing argument"),
    (["rm", "nope"], "There is no run 'nope'"),
    (["init"], "Missing argument 'KIND'"),
    (["init", "swep"], "Did you mean 'sweep'?"),
    (["schema", "clutser"], "Did you mean 'cluster'?"),
    (["ls", "everything"], "unexpected extra argument"),
    (["doctor", "--fix"], "No such option"),
]


@pytest.mark.parametrize(("arguments", "sentence"), MISUSES, ids=[" ".join(entry[0]) for entry in MISUSES])
def test_a_wrong_request_gets_a_helpful_sentence(look, arguments, sentence):
    code, out, err = look(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("Error: ")
    assert sentence in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "nope.yaml", "--json"],
        ["run", "--json"],
        ["run", "--json", "--nonsense"],
        ["resume", "nope", "--json"],
        ["plan", "nope.yaml", "--json"],
        ["show", "nope", "--json"],
        ["results", "nope", "--format", "json"],
        ["results", "nope", "--format=json"],
    ],
    ids=" ".join,
)
def test_with_json_an_error_is_a_document(look, arguments):
    code, out, err = look(*arguments)
    assert code == 2
    document = json.loads(out)
    assert set(document) >= {"error", "hint"}
    assert document["error"]
    assert err == ""


def test_every_problem_of_a_file_is_listed(look, finished):
    path = finished.folder / "wrong.yaml"
    path.write_text("kind: sweep\nnam: x\ntrials: {table: three.csv, repeat: much}\nrun: {command: 7}\n")
    code, _, err = look("run", "wrong.yaml")
    assert code == 2
    for part in ("3 problems", "wrong.yaml:2", "wrong.yaml:3", "wrong.yaml:4", "Did you mean 'name'?"):
        assert part in err
    document = json.loads(look("run", "wrong.yaml", "--json")[1])
    assert len(document["problems"]) == 3


def test_names_in_an_error_move_no_terminal(look, tmp_path):
    (tmp_path / "evil.yaml").write_text(
        'kind: sweep\nname: x\ntrials: {table: "no\\e]0;title\\a\\e[2J.csv"}\nrun: {command: "true {x}"}\n'
    )
    code, out, err = look("check", str(tmp_path / "evil.yaml"))
    assert (code, out) == (2, "")
    sentence, _, rest = err.partition("\n")
    assert sentence == f"Error: There is no table {tmp_path}/no\\x1b]0;title\\x07\\x1b[2J.csv."
    assert rest.startswith("Hint: "), "lines stay lines"


def test_best_without_an_objective_says_what_is_missing(shoal, sweep):
    path = sweep("good", ["ok"])
    path.write_text(path.read_text().replace("objective", "# objective"))
    shoal("run", "good.yaml")
    best = shoal("results", "last", "--best", "1")
    assert best.returncode == 2
    assert "objective" in best.stderr


def test_a_home_that_is_a_file_is_said_before_anything_starts(shoal, sweep, tmp_path):
    sweep("good", ["ok"])
    (tmp_path / ".shoal").rmdir()
    (tmp_path / ".shoal").write_text("")
    done = shoal("run", "good.yaml")
    assert done.returncode == 2
    assert "SHOAL_HOME" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unexpected_exception_is_called_a_bug_and_its_traceback_is_kept(look, monkeypatch, tmp_path):
    from shoal.api.views import lookup

    def broken():
        raise LookupError("surprise")

    monkeypatch.setattr(lookup, "runs", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, out, err = look("ls")
    assert (code, out) == (1, "")
    assert "bug in Shoal: LookupError: surprise" in err
    assert "Traceback" not in err
    (kept,) = tmp_path.glob("shoal-bug-*.txt")
    assert str(kept) in err
    assert "Traceback" in kept.read_text()
    assert "bug in Shoal" in json.loads(look("ls", "--json")[1])["error"]


def test_with_shoal_debug_the_traceback_is_shown(look, monkeypatch):
    from shoal.api.views import lookup

    monkeypatch.setattr(lookup, "runs", lambda: 1 / 0)
    monkeypatch.setenv("SHOAL_DEBUG", "1")
    code, _, err = look("ls")
    assert code == 1
    assert "Traceback" in err
    assert "ZeroDivisionError" in err

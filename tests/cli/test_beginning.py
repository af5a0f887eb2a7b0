"""`init`, `schema`, `check`, `plan` and `doctor`: what a new user meets first."""

from __future__ import annotations

import json
import os

import jsonschema
import pytest
import yaml

from shoal.cli.samples import SAMPLES


def test_the_example_runs_as_it_is(shoal, tmp_path):
    written = shoal("init", "sweep")
    assert written.returncode == 0
    assert sorted(written.stdout.split()) == sorted(path.name for path in tmp_path.glob("[!.]*"))
    assert "shoal run sweep.yaml" in written.stderr
    shoal("init", "cluster")
    done = shoal("run", "sweep.yaml", "--cluster", "cluster.yaml", "--limit", "3", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["items"]["done"] == 3
    assert summary["best"]["accuracy"] > 0.8
    assert summary["best"]["loss"] > 0


def test_init_never_overwrites(shoal, tmp_path):
    (tmp_path / "trial.py").write_text("mine")
    refused = shoal("init", "sweep")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "trial.py is here already" in refused.stderr
    assert [path.name for path in tmp_path.glob("[!.]*")] == ["trial.py"]
    assert (tmp_path / "trial.py").read_text() == "mine"


@pytest.mark.parametrize("kind", SAMPLES)
def test_the_schema_accepts_the_example(look, kind):
    code, out, _ = look("schema", kind)
    assert code == 0
    schema = json.loads(out)
    jsonschema.Draft202012Validator.check_schema(schema)
    example = yaml.safe_load(next(iter(SAMPLES[kind].values())))
    jsonschema.validate(example, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(example | {"nonsense": 1}, schema)


def test_check_says_what_a_good_file_is(look, finished):
    code, out, err = look("check", "three.yaml")
    assert (code, err) == (0, "")
    assert "sweep three of 3 trials" in out


def test_plan_has_the_fields_of_the_contract(look):
    plan = json.loads(look("plan", "three.yaml", "--json")[1])
    assert set(plan) >= {"predicted_seconds", "decisions", "placements"}
    assert set(plan["decisions"][0]) >= {"name", "choice", "why"}
    assert set(plan["predicted_seconds"]) == {"low", "mid", "high"}
    assert all(set(placement) >= {"item", "node", "why"} for placement in plan["placements"])
    assert "workers:" in look("plan", "three.yaml")[1]


def test_plan_answers_for_other_numbers_of_nodes(look):
    plan = json.loads(look("plan", "three.yaml", "--nodes", "1..3", "--json")[1])
    assert [entry["nodes"] for entry in plan["nodes"]] == [1, 2, 3]
    assert all(set(entry["predicted_seconds"]) == {"low", "mid", "high"} for entry in plan["nodes"])
    assert "with 2 nodes: " in look("plan", "three.yaml", "--nodes", "2")[1]


def test_plan_with_a_probe_measures_and_says_where(shoal, sweep):
    sweep("good", ["ok"] * 3)
    assert json.loads(shoal("plan", "good.yaml", "--json").stdout)["predicted_seconds"] is None
    probed = shoal("plan", "good.yaml", "--probe", "--json")
    assert probed.returncode == 0, probed.stderr
    assert json.loads(probed.stdout)["predicted_seconds"]["mid"] > 0
    assert "shoal resume good-" in probed.stderr


def test_doctor_finds_a_usable_machine(look):
    code, out, err = look("doctor")
    assert code == 0, out
    for part in ("Python", "file system", "file locks", "CPUs", "memory", "free disk", "pyarrow", "torch"):
        assert part in out
    assert "ready" in err
    findings = json.loads(look("doctor", "--json")[1])
    assert findings["usable"] is True
    assert {"state", "what", "found", "hint"} == set(findings["findings"][0])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_doctor_says_when_runs_cannot_be_kept(shoal, tmp_path):
    tmp_path.chmod(0o555)
    examined = shoal("doctor")
    tmp_path.chmod(0o755)
    assert examined.returncode == 1
    assert "SHOAL_HOME" in examined.stdout


def test_doctor_leaves_nothing_behind(shoal, tmp_path):
    assert shoal("doctor").returncode == 0
    assert list(tmp_path.rglob("*")) == [tmp_path / ".shoal"]

"""`init`, `schema`, `check`, `plan` and `doctor`: what a new user meets first."""

from __future__ import annotations

import json
import os
import tomllib
from importlib import metadata
from pathlib import Path

import jsonschema
import pytest
import yaml
from packaging.requirements import Requirement

from shoal.cli import doctor
from shoal.cli.init import samples_of
from shoal.kinds import KINDS, workloads
from shoal.work.kind import kind_of

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


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


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_accepts_the_example(look, kind):
    code, out, _ = look("schema", kind)
    assert code == 0
    schema = json.loads(out)
    jsonschema.Draft202012Validator.check_schema(schema)
    example = yaml.safe_load(next(iter(samples_of(kind).values())))
    jsonschema.validate(example, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(example | {"nonsense": 1}, schema)


def test_check_says_what_a_good_file_is(look, finished):
    code, out, err = look("check", "three.yaml")
    assert (code, err) == (0, "")
    assert "sweep three of 3 trials" in out


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


def test_doctor_knows_what_each_package_is_for_and_the_extra_that_brings_it(look):
    findings = {each["what"]: each for each in json.loads(look("doctor", "--json")[1])["findings"]}
    extras = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]

    def brought(extra):
        for line in extras[extra]:
            requirement = Requirement(line)
            if requirement.name == "shoal":
                yield from (name for each in requirement.extras for name in brought(each))
            yield requirement.name.lower()

    of_kinds = [extra[:3] for name in workloads() for extra in kind_of(name).extras.values()]
    others = [(name, purpose, extra) for name, (purpose, extra) in doctor.OPTIONAL.items()]
    for name, purpose, extra in [*of_kinds, *others]:
        assert f"for {purpose}" in findings[name]["found"]
        assert extra is None or name.lower() in brought(extra)
    assert {"numpy", "Pillow", "simplejpeg", "onnxruntime", "onnx", "openvino", "torch"} <= set(findings)
    assert {"obstore", "hdfs-native", "ray"} <= set(findings)


def test_doctor_says_how_to_get_what_is_missing(look, monkeypatch):
    def version(name):
        if name == "onnxruntime-gpu":
            return "9.9"
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    out = look("doctor")[1]
    assert "\nok    openvino: not installed; for a runtime that is often faster on processors" in out
    assert "(pip install 'shoal[openvino]')\n" in out
    assert "\nok    onnxruntime: 9.9, for ONNX models; " in out
    assert "\nnote  pyarrow: not installed; for results.parquet" in out


@pytest.mark.parametrize(
    ("gpus", "build", "state", "said"),
    [
        ("", None, "ok", "on processors only"),
        ("0", None, "note", "on processors only"),
        ("0", "lib/libtorch_cuda.so", "ok", "can use CUDA"),
    ],
    ids=["no GPU", "a GPU that is not used", "a GPU that is used"],
)
def test_doctor_says_whether_torch_can_use_a_gpu_without_importing_it(
    shoal, monkeypatch, tmp_path, gpus, build, state, said
):
    packages = tmp_path / "packages"
    (packages / "torch" / "lib").mkdir(parents=True)
    (packages / "torch" / "__init__.py").write_text("raise AssertionError('imported')")
    (packages / "torch-9.9.dist-info").mkdir()
    (packages / "torch-9.9.dist-info" / "METADATA").write_text("Name: torch\nVersion: 9.9\n")
    if build:
        (packages / "torch" / build).touch()
    known = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(packages), *([known] if known else [])]))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
    findings = {each["what"]: each for each in json.loads(shoal("doctor", "--json").stdout)["findings"]}
    torch = findings["torch"]
    assert (torch["state"], torch["hint"] is not None) == (state, state == "note")
    assert torch["found"] == f"9.9, for TorchScript models, and your own PyTorch trials; {said}"


@pytest.mark.user
def test_doctor_says_when_runs_cannot_be_kept(shoal, tmp_path):
    (tmp_path / ".shoal").chmod(0o555)
    examined = shoal("doctor")
    (tmp_path / ".shoal").chmod(0o755)
    assert examined.returncode == 1
    assert "SHOAL_HOME" in examined.stdout


def test_doctor_leaves_nothing_behind(shoal, tmp_path):
    assert shoal("doctor").returncode == 0
    assert list(tmp_path.rglob("*")) == [tmp_path / ".shoal"]

"""What an export writes, byte for byte, and that the systems it is for accept it.

After a change that is meant, write the files anew and read the difference:
    SHOAL_GOLDEN=write pytest tests/cluster/containers/test_golden.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from shoal.api.clusters.export_files import export
from shoal.cluster.containers.documents import Exported, Versions

GOLDEN = Path(__file__).parent / "golden"
VERSIONS = Versions("3.11", "2.60.0", "0.1.0")
EXPORTS = {
    "cluster": ("k8s.yaml", "kuberay", None),
    "job": ("sweep.yaml", "kuberay", "k8s.yaml"),
    "scaled": ("scaled.yaml", "kuberay", None),
    "swarm": ("swarm.yaml", "swarm", None),
    "swarm-job": ("sweep.yaml", "swarm", "swarm.yaml"),
    "image": ("sweep.yaml", "image", None),
    "spark": ("words.yaml", "spark", None),
}
"""Of each folder of expected files: the file, the target and the cluster file, all in `golden/given`."""


def exported(name: str, tmp_path: Path) -> Exported:
    given = tmp_path / "given"
    shutil.copytree(GOLDEN / "given", given)
    file, target, cluster = EXPORTS[name]
    found = export(
        str(given / file), target, cluster=str(given / cluster) if cluster else None, versions=VERSIONS
    )
    return found._replace(notes=[note.replace(str(given), "FOLDER") for note in found.notes])


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_is_what_it_was(name: str, tmp_path: Path) -> None:
    found = exported(name, tmp_path)
    files = {document.name: document.text for document in found.documents}
    files["notes.txt"] = "".join(f"{note}\n" for note in found.notes)
    folder = GOLDEN / name
    if os.environ.get("SHOAL_GOLDEN") == "write":
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for each, text in files.items():
            (folder / each).write_text(text, encoding="utf-8")
    expected = {path.name: path.read_bytes().decode() for path in folder.iterdir()}
    assert files == expected


@pytest.mark.parametrize("name", [name for name, (_, to, _) in EXPORTS.items() if to == "kuberay"])
def test_documents_fit_the_schemas_of_kuberay_and_kubernetes(
    name: str, validate: Callable[[dict[str, Any]], None]
) -> None:
    documents = list(yaml.safe_load_all((GOLDEN / name / "kuberay.yaml").read_text(encoding="utf-8")))
    assert {document["kind"] for document in documents} & {"RayCluster", "RayJob"}
    for document in documents:
        validate(document)


def test_a_schema_finds_what_is_wrong(validate: Callable[[dict[str, Any]], None]) -> None:
    text = (GOLDEN / "cluster" / "kuberay.yaml").read_text(encoding="utf-8")
    policy, cluster = yaml.safe_load_all(text)
    cluster["spec"]["workerGroupSpecs"][0]["maxReplica"] = 3
    with pytest.raises(AssertionError, match="maxReplica"):
        validate(cluster)
    policy["spec"]["ingres"] = []
    with pytest.raises(Exception, match="ingres"):
        validate(policy)


TEXT, COUNT = {"type": "string"}, {"type": "integer", "minimum": 0}
MEMORY = {"type": "string", "pattern": r"^[1-9]\d*[kmgt]$"}
VARIABLES = {"type": "array", "items": {"type": "object", "required": ["name", "value"]}}
POD = {"cores": COUNT | {"minimum": 1}, "memory": MEMORY, "labels": {"type": "object"}, "env": VARIABLES}
RETRIES = [
    f"on{what}{of}" for what in ("Failure", "SubmissionFailure") for of in ("Retries", "RetryInterval")
]


def fields(required: str, **properties: Any) -> dict[str, Any]:
    """An object with these fields and no others."""
    return {
        "type": "object",
        "required": required.split(),
        "properties": properties,
        "additionalProperties": False,
    }


SPARK_APPLICATION = fields(
    "apiVersion kind metadata spec",
    apiVersion={"const": "sparkoperator.k8s.io/v1beta2"},
    kind={"const": "SparkApplication"},
    metadata=fields("name", name=TEXT | {"pattern": "^[a-z][a-z0-9-]{0,62}$"}, labels={"type": "object"}),
    spec=fields(
        "type sparkVersion mainApplicationFile driver executor",
        type={"enum": ["Java", "Python", "Scala", "R"]},
        pythonVersion={"enum": ["2", "3"]},
        mode={"enum": ["cluster", "client"]},
        sparkVersion=TEXT,
        image=TEXT,
        imagePullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
        mainApplicationFile=TEXT | {"pattern": r"^local:///.+\.py$"},
        arguments={"type": "array", "items": TEXT},
        sparkConf={"type": "object", "additionalProperties": TEXT},
        restartPolicy=fields(
            "type", type={"enum": ["Never", "Always", "OnFailure"]}, **dict.fromkeys(RETRIES, COUNT)
        ),
        driver=fields("cores memory", serviceAccount=TEXT, **POD),
        executor=fields("cores memory instances", instances=COUNT | {"minimum": 1}, **POD),
    ),
)
"""What the operator's types of v1beta2 say of the fields that an export may have."""


@pytest.mark.parametrize("sets", ["", "limits: {retries: 0}\n"], ids=["retries", "no-retries"])
def test_an_application_has_fields_that_sparks_operator_knows(sets: str, tmp_path: Path) -> None:
    given = tmp_path / "words.yaml"
    given.write_text((GOLDEN / "given" / "words.yaml").read_text() + sets)
    [document] = export(str(given), "spark").documents
    application = yaml.safe_load(document.text)
    jsonschema.validate(application, SPARK_APPLICATION)
    policy = application["spec"]["restartPolicy"]
    assert policy["type"] == ("Never" if sets else "OnFailure")


def docker_with(*command: str) -> str:
    """A docker that has the command; skips where there is none."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found = os.path.join(folder, "docker")
        if os.access(found, os.X_OK):
            done = subprocess.run([found, *command, "--help"], capture_output=True, check=False, timeout=60)
            if done.returncode == 0 and f"docker {' '.join(command)}".encode() in done.stdout:
                return found
    pytest.skip(f"no docker here has the command `{' '.join(command)}`")


@pytest.mark.machine
@pytest.mark.parametrize("name", [name for name, (_, to, _) in EXPORTS.items() if to == "swarm"])
def test_docker_accepts_the_stack(name: str) -> None:
    docker = docker_with("stack", "config")
    done = subprocess.run(
        [docker, "stack", "config", "-c", str(GOLDEN / name / "stack.yaml")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    services = yaml.safe_load(done.stdout)["services"]
    assert services["node0"]["deploy"]["endpoint_mode"] == "dnsrr"
    assert "$(hostname -i" in services["node0"]["command"][2]

"""A workload on the virtual nodes of a cluster file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.runs import check

LAB = """
kind: cluster
name: lab
provider: local
engine: embedded
nodes:
  - {host: node0, cpu: 1, labels: {tier: cloud}}
  - {host: node1, cpu: 1, gpu: 1, labels: {tier: edge}}
  - {host: node2, cpu: 1, labels: {tier: edge}}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".shoal").mkdir()  # So that none further up is found.
    Path("lab.yaml").write_text(LAB)
    Path("trial.py").write_text(
        "import os, time\n"
        "def main(x):\n"
        "    time.sleep(0.05)\n"
        "    return {'devices': os.environ.get('CUDA_VISIBLE_DEVICES', '')}\n"
    )


def sweep(**keys: Any) -> str:
    import json

    document = {
        "kind": "sweep",
        "trials": {"grid": {"x": list(range(12))}},
        "run": {"function": "trial:main"},
    }
    Path("sweep.yaml").write_text(json.dumps({**document, **keys}))
    return "sweep.yaml"


def test_trials_go_to_whichever_node_is_free() -> None:
    run = shoal.run(sweep(), cluster="lab.yaml", display=False)
    assert run.state == "succeeded"
    assert {row["node"] for row in run.rows()} == {"node0", "node1", "node2"}


def test_labels_and_node_names_choose_where_trials_run() -> None:
    by_label = shoal.run(sweep(placement={"labels": {"tier": "edge"}}), cluster="lab.yaml", display=False)
    assert {row["node"] for row in by_label.rows()} == {"node1", "node2"}
    by_name = shoal.run(sweep(placement={"node": "node2"}), cluster="lab.yaml", display=False)
    assert {row["node"] for row in by_name.rows()} == {"node2"}


def test_a_trial_with_a_gpu_sees_exactly_its_own() -> None:
    run = shoal.run(sweep(resources={"gpu": 1}), cluster="lab.yaml", display=False)
    assert {(row["node"], row["devices"]) for row in run.rows()} == {("node1", "0")}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"placement": {"labels": {"tier": "moon"}}}, "label tier is cloud, not moon"),
        ({"placement": {"node": "node9"}}, "is not node9"),
        ({"resources": {"cpu": 2}}, "has 1 CPU, needs 2"),
        ({"resources": {"memory": "100TiB"}}, "MiB memory"),
    ],
    ids=["label", "node", "cpu", "memory"],
)
def test_what_no_node_has_is_an_error_at_once(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(shoal.CannotPlace, match=words):
        shoal.run(sweep(**keys), cluster="lab.yaml", display=False)
    with pytest.raises(shoal.CannotPlace, match=words):
        check(sweep(**keys), cluster="lab.yaml")
    assert not Path(".shoal/runs").exists()


def test_a_resume_goes_back_to_the_nodes_of_the_run() -> None:
    run = shoal.run(sweep(), cluster="lab.yaml", limit=6, display=False)
    Path("trial.py").write_text("def main(x):\n    raise ValueError\n")
    failed = shoal.run(sweep(placement={"node": "node1"}), cluster="lab.yaml", display=False)
    Path("trial.py").write_text("def main(x):\n    return {}\n")
    again = shoal.resume(failed.id, failed=True, display=False)
    assert {row["node"] for row in again.rows()} == {"node1"}
    assert run.state == again.state == "succeeded"

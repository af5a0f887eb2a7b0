"""Saved plans: read back, and followed; or refused, with all that they were not made for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.runs import plan
from shoal.api.saved_plan import read
from shoal.errors import SpecError
from shoal.model import Decision, ItemPlacement, MadeFor, Plan, Prediction

PLAN = Plan(
    "sweep",
    "naps",
    8,
    3,
    Prediction(1.0, 2.0, 3.0),
    (Decision("workers", 3, "three fit"),),
    (ItemPlacement("t0001", "node0", "it is free"),),
    {"node0": 1, "node1": 2},
    {"tune.batch": None},
    MadeFor({"file": "12ab", "sets": [], "limit": None}, "34cd", {"node0": {"cpu": 1.0}}),
)


def test_a_plan_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(PLAN.document()))
    assert read(str(path)) == PLAN


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(None, "cannot be read: No such file", id="no file"),
        pytest.param("kind: sweep", "is no JSON", id="no JSON"),
        pytest.param("[]", "no plan that can be followed", id="no plan"),
        pytest.param("{}", "'workers_by_node' is missing", id="nothing in it"),
        pytest.param({"workers_by_node": {"node0": -1}}, "node0: expected a whole number", id="a count"),
        pytest.param({"workers_by_node": {"node0": 0}}, "there is no worker on any node", id="no worker"),
        pytest.param({"made_for": None}, "does not tell what it was made for", id="that of a run"),
        pytest.param({"decisions": 7}, "not iterable", id="another shape"),
    ],
)
def test_what_is_no_plan_is_refused_with_the_reason(
    tmp_path: Path, text: str | dict[str, Any] | None, words: str
) -> None:
    path = tmp_path / "plan.json"
    if text is not None:
        path.write_text(text if isinstance(text, str) else json.dumps(PLAN.document() | text))
    with pytest.raises(SpecError, match=words) as caught:
        read(str(path))
    assert "shoal plan FILE --json" in str(caught.value.hint)


CLUSTER = """\
kind: cluster
name: pair
provider: local
engine: embedded
nodes:
  - {host: node0, cpu: 1}
  - {host: node1, cpu: 2}
"""
SWEEP = """\
kind: sweep
name: naps
trials: {table: naps.csv}
run: {function: "naps:nap"}
"""
INFER = """\
kind: infer
name: lengths
input: {text: words.txt}
model: {function: "length:Length"}
output: out/
"""
LENGTH = """\
class Length:
    def __call__(self, batch):
        return {"batch": [len(batch)] * len(batch)}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".shoal").mkdir()  # So that none further up is found.
    (tmp_path / "naps.py").write_text("import time\n\ndef nap(n):\n    time.sleep(0.05)\n")
    (tmp_path / "naps.csv").write_text("n\n" + "\n".join(map(str, range(8))) + "\n")
    (tmp_path / "naps.yaml").write_text(SWEEP)
    (tmp_path / "pair.yaml").write_text(CLUSTER)
    (tmp_path / "lengths.yaml").write_text(INFER)
    (tmp_path / "length.py").write_text(LENGTH)
    (tmp_path / "words.txt").write_text("".join(f"{n}\n" for n in range(24)))
    return tmp_path


def save(folder: Path, workload: str, **changes: Any) -> dict[str, Any]:
    cluster = "pair.yaml" if workload == "naps.yaml" else None
    document = plan(workload, cluster=cluster, to_save=True).document()
    (folder / "plan.json").write_text(json.dumps(document | changes))
    return document


def test_a_run_has_the_workers_that_its_plan_says_and_an_edited_plan_changes_it(folder: Path) -> None:
    assert save(folder, "naps.yaml")["workers_by_node"] == {"node0": 1, "node1": 2}
    uses = shoal.run("naps.yaml", cluster="pair.yaml", plan="plan.json").wait().workers
    assert sorted(use.node for use in uses) == ["node0", "node1", "node1"]

    save(folder, "naps.yaml", workers_by_node={"node0": 0, "node1": 1})
    run = shoal.run("naps.yaml", cluster="pair.yaml", plan="plan.json")
    assert (run.state, len(run.rows())) == ("succeeded", 8)
    assert [use.node for use in run.wait().workers] == ["node1"]
    followed = json.loads(Path(run.folder, "plan.json").read_text())
    assert (followed["workers"], followed["workers_by_node"]) == (1, {"node0": 0, "node1": 1})


def test_a_resume_keeps_to_the_workers_of_the_plan_where_its_nodes_are_there(folder: Path) -> None:
    save(folder, "naps.yaml", workers_by_node={"node0": 0, "node1": 1})
    (folder / "naps.py").write_text("def nap(n):\n    assert n < 4\n")
    run = shoal.run("naps.yaml", cluster="pair.yaml", plan="plan.json")
    (folder / "naps.py").write_text("def nap(n):\n    assert n < 6\n")
    assert run.state == "failed"
    again = shoal.resume(run.id, failed=True)
    assert [use.node for use in again.wait().workers] == ["node1"]

    (folder / "pair.yaml").write_text(CLUSTER.replace("node1", "node2"))
    with pytest.raises(SpecError, match="has workers on node1 alone, and there is no such node now"):
        shoal.resume(run.id, failed=True)
    (folder / "naps.py").write_text("import time\n\ndef nap(n):\n    time.sleep(0.1)\n")
    (folder / "others.yaml").write_text(CLUSTER.replace("host: node", "host: other"))
    elsewhere = shoal.resume(run.id, failed=True, cluster="others.yaml")
    assert (elsewhere.state, len(elsewhere.rows())) == ("succeeded", 8)
    assert {use.node for use in elsewhere.wait().workers} <= {"other0", "other1"}


def test_a_plan_that_was_made_for_something_else_is_refused_with_all_that_differs(folder: Path) -> None:
    save(folder, "naps.yaml", settings={"tune.batch": 3})
    (folder / "naps.yaml").write_text(SWEEP + "limits: {retries: 1}\n")
    (folder / "naps.csv").write_text("n\n1\n")
    others = CLUSTER.replace("node0, cpu: 1", "node2, cpu: 1").replace("cpu: 2", "cpu: 3")
    (folder / "pair.yaml").write_text(others)
    with pytest.raises(SpecError) as caught:
        shoal.run("naps.yaml", cluster="pair.yaml", plan="plan.json", limit=5)
    told = [each.message.removeprefix("plan.json: ") for each in caught.value.problems]
    assert [each for each in told if "memory_bytes" not in each] == [
        "the workload file has changed since.",
        "it was made with no --limit, and this run has --limit 5.",
        "the inputs have changed since.",
        "the node node0 is gone.",
        "the node node1 had cpu 2, and has 3 now.",
        "the node node2 is new.",
        "settings: 'tune.batch' is none of sweep's: it has none.",
        "workers_by_node: there is no node node0.",
    ]
    assert not (folder / ".shoal" / "runs").exists()


def test_a_setting_that_a_plan_pins_is_that_of_the_run(folder: Path) -> None:
    names = [f"tune.{name}" for name in ("batch", "workers", "threads", "runtime")]
    open_ = save(folder, "lengths.yaml")["settings"]
    assert open_ == dict.fromkeys(names)
    save(folder, "lengths.yaml", settings=open_ | {"tune.batch": 3, "tune.workers": 1})
    run = shoal.run("lengths.yaml", plan="plan.json")
    assert {row["batch"] for row in run.rows()} == {3}
    (folder / "words.txt").write_text("more\n")
    with pytest.raises(SpecError, match="the inputs have changed since"):
        shoal.run("lengths.yaml", plan="plan.json")

"""`shoal run FILE --plan plan.json`: the run does what the plan says, or says why it is none for this run."""

from __future__ import annotations

import json

import pytest

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
NAPS = "import time\n\ndef nap(n):\n    time.sleep(0.05)\n"
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
        return {"length": [len(text) for text in batch], "batch": [len(batch)] * len(batch)}
"""


@pytest.fixture
def planned(shoal, tmp_path):
    """Writes a sweep and a cluster, and saves its plan; then gives what edits it."""
    for name, text in (("pair.yaml", CLUSTER), ("naps.yaml", SWEEP), ("naps.py", NAPS)):
        (tmp_path / name).write_text(text)
    (tmp_path / "naps.csv").write_text("n\n" + "\n".join(map(str, range(8))) + "\n")
    done = shoal("plan", "naps.yaml", "--cluster=pair.yaml", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)

    def save(**changes):
        (tmp_path / "plan.json").write_text(json.dumps(document | changes))
        return document

    return save


def run(shoal, *options):
    return shoal("run", "naps.yaml", "--cluster=pair.yaml", "--plan=plan.json", "--json", *options)


def test_a_run_has_the_workers_that_its_plan_says_and_an_edited_plan_changes_it(shoal, planned, tmp_path):
    assert planned()["workers_by_node"] == {"node0": 1, "node1": 2}
    document = json.loads(run(shoal).stdout)
    assert sorted(use["node"] for use in document["workers"]) == ["node0", "node1", "node1"]

    planned(workers_by_node={"node0": 0, "node1": 1})
    document = json.loads(run(shoal).stdout)
    assert (document["state"], document["items"]["done"]) == ("succeeded", 8)
    assert [use["node"] for use in document["workers"]] == ["node1"]
    followed = json.loads((tmp_path / ".shoal" / "runs" / document["run"] / "plan.json").read_text())
    assert (followed["workers"], followed["workers_by_node"]) == (1, {"node0": 0, "node1": 1})


def test_a_plan_that_was_made_for_something_else_is_refused_with_all_that_differs(shoal, planned, tmp_path):
    planned(settings={"tune.batch": 3})
    (tmp_path / "naps.yaml").write_text(SWEEP + "limits: {retries: 1}\n")
    (tmp_path / "naps.csv").write_text("n\n1\n")
    (tmp_path / "pair.yaml").write_text(
        CLUSTER.replace("node0, cpu: 1", "node2, cpu: 1").replace("cpu: 2", "cpu: 3")
    )
    done = run(shoal, "--limit=5")
    assert done.returncode == 2
    told = [each["error"].removeprefix("plan.json: ") for each in json.loads(done.stdout)["problems"]]
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
    assert not (tmp_path / ".shoal" / "runs").exists()


def test_a_setting_that_a_plan_pins_is_that_of_the_run(shoal, tmp_path):
    (tmp_path / "lengths.yaml").write_text(INFER)
    (tmp_path / "length.py").write_text(LENGTH)
    (tmp_path / "words.txt").write_text("".join(f"{n}\n" for n in range(24)))
    document = json.loads(shoal("plan", "lengths.yaml", "--json").stdout)
    assert document["settings"] == dict.fromkeys(
        ["tune.batch", "tune.workers", "tune.threads", "tune.runtime"]
    )
    document["settings"] |= {"tune.batch": 3, "tune.workers": 1}
    (tmp_path / "plan.json").write_text(json.dumps(document))
    done = shoal("run", "lengths.yaml", "--plan=plan.json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(shoal("results", "last", "--format=json").stdout)
    assert {row["batch"] for row in rows} == {3}
    (tmp_path / "words.txt").write_text("more\n")
    assert "the inputs have changed" in shoal("run", "lengths.yaml", "--plan=plan.json").stderr

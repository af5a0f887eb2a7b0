"""A cluster with storage: a detached run outlives the head that drove it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clusters.desk import Desk, until
from clusters.stored import BUCKET, bed_with_storage
from testbed import Testbed

pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.ray,
    pytest.mark.s3,
    pytest.mark.long,
    pytest.mark.timeout(600),
]

S3 = f"s3://{BUCKET}/shoal"
TRIAL = """
import time
def main(n):
    time.sleep(0.2)
    return {"square": n * n}
"""


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    with bed_with_storage(["desk", "node0", "node1"]) as made:
        yield made


COUNT = f"""
import sqlite3, sys
from shoal.files import open_storage
from shoal.store.run_copies import copied_turn
storage, run = open_storage("{S3}"), sys.argv[1]
storage.download(f"runs/{{run}}/copies/{{copied_turn(storage, run)}}/run.db", "/tmp/copy.db")
print(sqlite3.connect("/tmp/copy.db").execute("SELECT count(*) FROM items WHERE state = 'done'").fetchone()[0])
"""


def _done_in_copy(desk: Desk, run: str) -> int:
    said = desk.host.run(["python", "-c", COUNT, run], check=False).stdout.strip()
    return int(said) if said.isdigit() else 0


def test_a_detached_run_goes_on_with_another_head_when_its_own_is_lost(bed: Testbed) -> None:
    desk = Desk(bed)
    lab = desk.cluster([{"host": "node0", "cpu": 2}, {"host": "node1", "cpu": 2}], storage=S3)
    workload = desk.sweep("far", TRIAL, {"n": list(range(400))})
    run = desk.json("run", workload, "--cluster", lab, "--detach")["run"]
    until(lambda: _done_in_copy(desk, run) > 30, "the copy")
    bed["node0"].kill()
    desk.cluster([{"host": "node1", "cpu": 2}], storage=S3)
    said = desk.shoal("resume", run, code=None)
    if said.returncode != 0:  # The lost driver was heard of within a minute: nobody can know that it is gone.
        assert "--take-over" in said.stderr
        desk.shoal("resume", run, "--take-over")
    until(lambda: desk.json("show", run)["state"] == "succeeded", "the end")
    rows = desk.rows(run)
    assert sorted(row["square"] for row in rows) == sorted(n * n for n in range(400))
    assert {row["state"] for row in rows} == {"done"}
    assert {row["attempt"] for row in rows} == {1}, "the loss of the head used an attempt"
    by_node = {node: sum(row["node"] == node for row in rows) for node in ("node0", "node1")}
    assert by_node["node0"] > 0, "what was done before was done again"
    desk.shoal("cluster", "down", lab)

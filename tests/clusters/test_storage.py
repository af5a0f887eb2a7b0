"""A cluster with storage: a detached run outlives the head that drove it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from clusters.desk import Desk, until
from servers.seaweedfs import ACCESS_KEY, SECRET_KEY, config, weed
from testbed import Testbed

pytestmark = [pytest.mark.cluster, pytest.mark.s3, pytest.mark.slow, pytest.mark.timeout(600)]

S3 = "s3://lab/shoal"
CREDENTIALS = f"[default]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
TRIAL = """
import time
def main(n):
    time.sleep(0.2)
    return {"square": n * n}
"""


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    if weed() is None:
        pytest.skip("no SeaweedFS: make test-all installs it")
    with Testbed(["desk", "node0", "node1", "store"]) as made:
        store = made["store"]
        store.write("s3.json", config())
        store.start(
            [
                *(str(weed()), "server", f"-ip={store.address}", "-ip.bind=0.0.0.0", f"-dir={store.work}"),
                *("-s3", "-s3.port=8333", f"-s3.config={store.home}/s3.json", "-filer"),
                *("-master.volumeSizeLimitMB=64", "-volume.max=20"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name in ("desk", "node0", "node1"):
            made[name].write(".aws/credentials", CREDENTIALS)
            made[name].write(
                ".aws/config", f"[default]\nregion = us-east-1\nendpoint_url = http://{store.address}:8333\n"
            )
        until(lambda: _makes_bucket(made), "the S3 server")
        yield made


def _makes_bucket(bed: Testbed) -> bool:
    store = bed["store"]
    ask = f"echo 's3.bucket.create -name lab' | {weed()} shell -master={store.address}:9333"
    said = store.run(["sh", "-c", ask], check=False, timeout_s=60)
    return "created bucket lab" in said.stdout + said.stderr


COUNT = f"""
import sqlite3, sys
from shoal.files import open_storage
open_storage("{S3}").download(f"runs/{{sys.argv[1]}}/run.db", "/tmp/copy.db")
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
    desk.shoal("resume", run)
    until(lambda: desk.json("show", run)["state"] == "succeeded", "the end")
    rows = desk.rows(run)
    assert sorted(row["square"] for row in rows) == sorted(n * n for n in range(400))
    assert {row["state"] for row in rows} == {"done"}
    assert {row["attempt"] for row in rows} == {1}, "the loss of the head used an attempt"
    by_node = {node: sum(row["node"] == node for row in rows) for node in ("node0", "node1")}
    assert by_node["node0"] > 0, "what was done before was done again"
    desk.shoal("cluster", "down", lab)

"""An inference on hosts: begins on the first, spreads to others, and loses one of them, but no row."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from clusters.desk import Desk, until
from clusters.growth import HOSTS, SLOTS
from clusters.stored import BUCKET, bed_with_storage

pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.ray,
    pytest.mark.s3,
    pytest.mark.long,
    pytest.mark.timeout(600),
]

INPUTS, INPUT_S = 6000, 0.02
"""A minute on one host."""
MODEL = f"""
import time
class Model:
    def __call__(self, batch):
        time.sleep({INPUT_S} * len(batch))
        return {{"square": [int(n) ** 2 for n in batch]}}
"""
FILL = f"""
import io
import pyarrow as pa
from pyarrow import parquet
from shoal.files import open_storage
storage = open_storage("s3://{BUCKET}/in")
for start in range(0, {INPUTS}, 500):
    file = io.BytesIO()
    parquet.write_table(pa.table({{"n": range(start, start + 500)}}), file, row_group_size=100)
    storage.write(f"{{start:05d}}.parquet", file.getvalue())
"""
READ = f"""
import json
from pyarrow import parquet
from shoal.files import open_storage
storage, rows = open_storage("s3://{BUCKET}/out"), []
for entry in storage.list():
    with storage.open(entry.key) as opened, parquet.ParquetFile(opened) as file:
        table = file.read()
    rows += [] if entry.key == "errors.parquet" else table.column("square").to_pylist()
print(json.dumps(rows))
"""


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with bed_with_storage(["desk", *HOSTS]) as bed:
        yield Desk(bed)


def test_an_inference_spreads_over_hosts_and_the_loss_of_one_costs_no_row(desk: Desk) -> None:
    python(desk, FILL)
    nodes = [{"host": host, "cpu": SLOTS, "memory": "2GiB"} for host in HOSTS]
    lab = desk.cluster(nodes, scale={"min": 1, "max": len(HOSTS), "idle": "60s"})
    desk.write("squares/mine.py", MODEL)
    workload = {
        "kind": "infer",
        "name": "squares",
        "input": {"parquet": f"s3://{BUCKET}/in", "column": "n"},
        "model": {"function": "mine:Model"},
        "output": f"s3://{BUCKET}/out",
    }
    file = desk.write("squares/squares.yaml", json.dumps(workload))
    process = desk.start("run", file, "--cluster", lab, "--json")
    until(lambda: process.poll() is not None or working(desk) == set(HOSTS), "work on all hosts", 120)
    assert process.poll() is None, process.communicate()
    desk.bed["node2"].kill()
    told = json.loads(desk.end(process).stdout)
    assert (told["infer"]["rows"], told["infer"]["errors"]) == (INPUTS, 0)
    squares = json.loads(python(desk, READ))
    assert sorted(squares) == [n * n for n in range(INPUTS)], "one row for each, and no row twice"
    requested = [
        each for each in desk.json("show", told["run"], "--why")["scaling"] if each["change"] == "requested"
    ]
    assert {each["host"] for each in requested} == set(HOSTS[1:])
    assert all("it saves" in each["why"] for each in requested)
    desk.shoal("cluster", "down", lab, code=None)


def python(desk: Desk, program: str) -> str:
    return str(desk.host.run(["python", "-c", program], timeout_s=120).stdout)


def working(desk: Desk) -> set[str]:
    """The hosts that items of the run are on now."""
    run = desk.run_of("squares")
    items = desk.json("show", run)["items"] if run else []
    return {each["node"] for each in items if each["state"] == "running"}


def test_counts_of_records_elsewhere_come_to_the_desk(desk: Desk) -> None:
    lines = ["one two two", "three three three"] * 400
    put = 'from shoal.files import open_storage; storage = open_storage("s3://{0}/lines"); '
    put += "[storage.write(f'{{n}}.txt', {1!r}.encode()) for n in range(6)]"
    python(desk, put.format(BUCKET, "\n".join(lines)))
    lab = desk.cluster([{"host": host, "cpu": 1, "memory": "2GiB"} for host in HOSTS[:2]], name="counts")
    workload = {
        "kind": "process",
        "name": "counts",
        "input": {"text": f"s3://{BUCKET}/lines", "split": "5kB"},
        "job": "words",
        "output": "counts.csv",
    }
    file = desk.write("counts/counts.yaml", json.dumps(workload))
    told = desk.json("run", file, "--cluster", lab)
    assert (told["process"]["records"], told["process"]["rows"]) == (6 * 800, 3)
    assert desk.read("counts/counts.csv") == "word,count\nthree,7200\ntwo,4800\none,2400\n"
    desk.shoal("cluster", "down", lab, code=None)

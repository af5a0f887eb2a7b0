"""Results of the real command over the sample crawls: those of the reference, number for number and in order.

Every job with ranges of three sizes on this machine; storages, engines and numbers of workers are sampled, and two of
the runs are killed on their way.
"""

from __future__ import annotations

import csv
import json
import os
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from engine.conftest import RayCluster
from faults.pictures import done, workers
from shoal.files import Storage, open_storage
from work.process.crawls import archives
from work.process.reference import pages, result

pytestmark = pytest.mark.machine
WARC = ("c*/*.warc.gz", "quirks/*.warc*")
PATTERNS = {"words": ("commoncrawl/*.wet.gz",), "links": (*WARC, "commoncrawl/*.wat.gz")}
FORMATS = {"words": "wet"}
JOBS = ("words", "tags", "servers", "addresses", "hosts", "links", "types", "text")
SPLITS = ("64KiB", "1MiB", "1GiB")
WHOLE = {"hosts": {"addresses": {"hosts": True}}}
"""Jobs with options."""


@cache
def expected(job: str) -> list[tuple[Any, ...]]:
    """Of `text`, only the pages."""
    paths = sorted(archives(*PATTERNS.get(job, WARC)))
    if job == "text":
        return [
            (record.rec_headers.get_header("WARC-Target-URI"),) for path in paths for record, _ in pages(path)
        ]
    return result(job, paths)


def workload(
    place: Any, job: str, output: str, split: str = "64KiB", source: str | None = None, **keys: Any
) -> str:
    """A file with this job over all archives that it is meant for."""
    paths = sorted(str(path) for path in archives(*PATTERNS.get(job, WARC)))
    document = {
        "kind": "process",
        "name": f"{job}-{split.lower()}",
        "input": {FORMATS.get(job, "warc"): paths if source is None else source, "split": split},
        "job": WHOLE.get(job, job),
        "output": output,
        **keys,
    }
    place.write(f"{job}.yaml", json.dumps(document))
    return f"{job}.yaml"


def rows(path: str | Path) -> list[tuple[Any, ...]]:
    """Of a result, as it stands in the file."""
    storage, name = place_of(path)
    data = storage.read(name)
    if name.endswith(".csv"):
        _, *found = csv.reader(data.decode().splitlines(keepends=True))
        return [tuple(int(each) if each.isdigit() else each for each in row) for row in found]
    import pyarrow
    from pyarrow import parquet

    return [tuple(row.values()) for row in parquet.read_table(pyarrow.BufferReader(data)).to_pylist()]


def place_of(path: str | Path) -> tuple[Storage, str]:
    above, _, name = str(path).rpartition("/")
    return open_storage(above), name


def compare(job: str, found: list[tuple[Any, ...]]) -> None:
    if job == "text":
        found = [row[:1] for row in found]
    assert found == expected(job), f"{job}: {set(found) ^ set(expected(job))}"


def hidden(path: str | Path) -> list[str]:
    """What a run left beside its result."""
    storage, _ = place_of(path)
    return [entry.key for entry in storage.list(hidden=True) if ".shoal-" in entry.key]


@pytest.mark.parametrize("job", [JOBS[0], *(pytest.param(job, marks=pytest.mark.long) for job in JOBS[1:])])
def test_a_result_is_that_of_the_reference_whatever_the_ranges(place: Any, job: str) -> None:
    found = []
    for split in SPLITS:
        file = workload(place, job, f"out-{split}/result.parquet", split)
        ended = place.json("run", file, "--json")
        assert ended["process"]["errors"] == 0
        found.append(rows(ended["results"]))
        assert hidden(ended["results"]) == []
    compare(job, found[0])
    assert found[0] == found[1] == found[2]


@pytest.fixture(
    params=["files", pytest.param("s3", marks=pytest.mark.s3), pytest.param("hdfs", marks=pytest.mark.hdfs)]
)
def stored(request: pytest.FixtureRequest, place: Any) -> str:
    """A folder of each storage, by path or URL."""
    if request.param == "files":
        return str(place.folder / "stored")
    fixture = "bucket" if request.param == "s3" else "hdfs_folder"
    url: str = request.getfixturevalue(fixture).url
    place.environment.update({name: value for name, value in os.environ.items() if name.startswith("AWS_")})
    return url


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The cluster file of four nodes of Ray on this machine."""
    cluster = RayCluster(connect=False)
    for number in range(4):
        cluster.add(f"n{number}", num_cpus=1)
    file = tmp_path_factory.mktemp("nodes") / "nodes.yaml"
    shared = tmp_path_factory.getbasetemp()
    file.write_text(
        f"kind: cluster\nname: nodes\nprovider: ray\naddress: {cluster.address}\nstorage: {shared}\n"
    )
    yield str(file)
    cluster.close()


def put(job: str, url: str) -> str:
    """The archives of a job in a storage: what an input calls them there."""
    storage = open_storage(f"{url}/in")
    for path in archives(*PATTERNS.get(job, WARC)):
        storage.write(path.name, path)
    return f"{url}/in"


def check_workers(place: Any, stored: str, job: str, cluster: str) -> None:
    """One job over one storage with one, two and four workers."""
    source = put(job, stored)
    keys = {name: value for name, value in place.environment.items() if name.startswith("AWS_")}
    for number in (1, 2, 4):
        output = f"{stored}/out/{number}.csv"
        file = workload(place, job, output, "512KiB", source, limits={"concurrent": number}, env=keys)
        ended = place.json("run", file, "--cluster", cluster, "--json")
        assert len(ended["workers"]) == number
        compare(job, rows(output))
    assert hidden(f"{stored}/out/x") == []


@pytest.mark.long
def test_a_result_is_that_of_the_reference_on_every_storage_with_any_number_of_workers(
    place: Any, stored: str
) -> None:
    check_workers(place, stored, "addresses", place.machine(4))


@pytest.mark.ray
@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # Ray and its libraries warn of themselves.
def test_a_result_of_ray_is_that_of_the_reference_on_every_storage(
    place: Any, nodes: str, stored: str
) -> None:
    check_workers(place, stored, "servers", nodes)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("on", ["session", "master"])
def test_a_result_of_spark_is_that_of_the_reference_on_every_storage(
    place: Any, stored: str, on: str, request: pytest.FixtureRequest
) -> None:
    """A session on this machine with 1, 2 and 4 at a time, and a master with two workers, asked for 2, 4 and 1."""
    source = put("hosts", stored)
    scheme = stored.partition("://")[0] if "://" in stored else "files"
    number = (
        {"files": 1, "s3": 2, "hdfs": 4}[scheme]
        if on == "session"
        else {"files": 2, "s3": 4, "hdfs": 1}[scheme]
    )
    spark: dict[str, Any] = {"master": f"local[{number}]"}
    if on == "master":
        spark = {"master": request.getfixturevalue("spark_master"), "executors": number, "memory": "512MiB"}
    keys = {name: value for name, value in place.environment.items() if name.startswith("AWS_")}
    output = f"{stored}/out/spark.csv"
    file = workload(place, "hosts", output, "512KiB", source, backend="spark", spark=spark, env=keys)
    assert place.json("run", file, "--json")["state"] == "succeeded"
    compare("hosts", rows(output))
    assert hidden(output) == []


def kill_on_the_way(place: Any, process: Any, goal: int, worker_kills: int) -> None:
    """Kill some workers of a run and then its driver, when so many items are done."""

    def found() -> list[int]:
        return workers(place, process.pid)

    place.until(lambda: done(place) >= goal and found(), process)
    for _ in range(worker_kills):
        os.kill(place.until(found, process)[0], signal.SIGKILL)
    place.kill(process)
    assert process.returncode == -signal.SIGKILL, "it was over before it was killed"


@pytest.mark.long
def test_killed_drivers_and_workers_change_nothing_in_a_result(place: Any, stored: str) -> None:
    source = put("types", stored)
    file = workload(place, "types", f"{stored}/types.parquet", "64KiB", source, limits={"retries": 5})
    kill_on_the_way(place, place.start("run", file), 20, worker_kills=2)
    [run] = place.runs()
    for goal in (50, 80):
        kill_on_the_way(place, place.start("resume", run), goal, worker_kills=1)
    ended = place.json("resume", run, "--json")
    assert ended["state"] == "succeeded"
    compare("types", rows(f"{stored}/types.parquet"))
    assert hidden(f"{stored}/types.parquet") == []


@pytest.mark.ray
@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # Ray and its libraries warn of themselves.
def test_killed_drivers_of_a_run_on_ray_change_nothing_in_a_result(place: Any, nodes: str) -> None:
    source = put("tags", str(place.folder / "stored"))
    file = workload(place, "tags", "tags.parquet", "64KiB", source)
    for goal in (20, 60):
        process = (
            place.start("resume", place.runs()[0])
            if place.runs()
            else place.start("run", file, "--cluster", nodes)
        )
        place.until(lambda goal=goal: done(place) >= goal, process)
        place.kill(process)
    ended = place.json("resume", place.runs()[0], "--json")
    assert ended["state"] == "succeeded"
    compare("tags", rows(place.folder / "tags.parquet"))

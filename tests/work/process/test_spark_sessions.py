"""Real Spark: a session on this machine, and a standalone master with two workers, give what the pool gives."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import parquet

if TYPE_CHECKING:
    from shoal.testing.workload_folder import WorkloadFolder

pytestmark = [pytest.mark.spark, pytest.mark.long]

CRAWLS = Path(__file__).resolve().parents[4] / "shared" / "data" / "warc" / "commoncrawl"
JOB = """\
class Hosts:
    key = ("host",)

    def map(self, record):
        return [(record.url.split("/")[2], 1)]
"""
WORKLOAD = """\
kind: process
input: {wet: "*.wet.gz", split: 64KiB}
job: words
output: words.parquet
limits: {errors: 50%}
"""
SAME = ("rows", "records", "errors", "bytes", "reasons")
"""What of a run's document does not depend on how fast it was."""
ON_SPARK = ("--set=backend=spark", "--set=spark.executors=2", "--set=spark.memory=512MiB")


def write(folder: Path) -> str:
    samples = sorted(CRAWLS.glob("*.wet.gz"))
    for path in samples:
        shutil.copy(path, folder)
    if not samples:
        make(folder / "made.warc.wet.gz")
    (folder / "mine.py").write_text(JOB)
    (folder / "words.yaml").write_text(WORKLOAD)
    own = WORKLOAD.replace("job: words", "job: {function: 'mine:Hosts'}").replace("words", "hosts")
    (folder / "hosts.yaml").write_text(own)
    return "words.yaml"


def make(path: Path) -> None:
    with path.open("wb") as file:
        for number in range(2000):
            text = " ".join(f"word{number * each % 997}" for each in range(100))
            head = f"WARC-Type: conversion\r\nWARC-Target-URI: http://host{number % 50}.example/{number}\r\n"
            head += f"Content-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
            file.write(gzip.compress(f"WARC/1.0\r\n{head}\r\n{text}\r\n\r\n".encode()))


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkloadFolder]:
    from shoal.testing.workload_folder import WorkloadFolder  # Contracts of kinds are the first to load it.

    made = WorkloadFolder(tmp_path_factory.mktemp("spark") / "work", write)
    yield made
    made.close()


def ran(work: WorkloadFolder, name: str, *sets: str) -> tuple[Any, dict[str, Any]]:
    """The result, and what does not depend on time of the document."""
    work.shoal("run", f"{name}.yaml", *sets)
    table = parquet.read_table(work.folder / f"{name}.parquet")
    document = work.json("show", "last", "--json")["process"]
    return table, {each: document[each] for each in SAME}


@pytest.fixture(scope="module")
def expected(work: WorkloadFolder) -> dict[str, Any]:
    return {name: ran(work, name) for name in ("words", "hosts")}


@pytest.mark.parametrize("name", ["words", "hosts"])
def test_a_session_on_this_machine_gives_what_the_pool_gives(
    name: str, work: WorkloadFolder, expected: dict[str, Any]
) -> None:
    assert expected[name][1]["rows"] > 1
    assert ran(work, name, *ON_SPARK) == expected[name]


@pytest.mark.parametrize("name", ["words", "hosts"])
def test_a_standalone_master_with_two_workers_gives_what_the_pool_gives(
    name: str, work: WorkloadFolder, expected: dict[str, Any], spark_master: str
) -> None:
    assert ran(work, name, *ON_SPARK, f"--set=spark.master={spark_master}") == expected[name]

"""The crawl example: its crawl, its jobs against counts by hand, its classifier, and its figure."""

from __future__ import annotations

import csv
import gzip
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest

from shoal import spec

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "crawl"
PAGES = 150
ANSWER = re.compile(
    rb"WARC-Target-URI: https://([^/]+)/\d+\r\nWARC-IP-Address: (\S+)\r\n.*?\r\n\r\n.*?Server: ([^\r]+)\r\n"
    rb".*?\r\n\r\n(.*)\r\n\r\n",
    re.DOTALL,
)


@pytest.fixture(scope="module")
def make_crawl() -> Iterator[ModuleType]:
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("make_crawl")
    finally:
        sys.path.remove(str(FOLDER))
        sys.modules.pop("make_crawl", None)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example in a folder of the tests' own, with a crawl that was made up, and all six of its files run."""
    folder = tmp_path_factory.mktemp("example")
    (folder / ".shoal").mkdir()
    left_out = shutil.ignore_patterns("crawl", "out", ".shoal", "__pycache__")
    example = Path(shutil.copytree(FOLDER, folder / "crawl", ignore=left_out))
    subprocess.run(
        [sys.executable, "make_crawl.py", f"--pages={PAGES}"], cwd=example, check=True, capture_output=True
    )
    for name in ("words", "tags", "servers", "addresses", "text", "languages"):
        shoal(example, "run", f"{name}.yaml", "--json")
    return example


def shoal(folder: Path, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "shoal", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout) if "--json" in arguments else done.stdout


def answers(folder: Path) -> list[tuple[bytes, ...]]:
    """Host, address, server and page of each answer, by a pattern."""
    data = gzip.decompress((folder / "crawl" / "made.warc.gz").read_bytes())
    return [match.groups() for each in data.split(b"WARC/1.0\r\n")[1:] for match in ANSWER.finditer(each)]


def result(folder: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder / "out" / name).to_pylist()
    return rows


def counts(folder: Path, name: str, *key: str) -> dict[tuple[str, ...], int]:
    return {tuple(row[each] for each in key): row["count"] for row in result(folder, name)}


def counted(*keys: bytes) -> tuple[str, ...]:
    return tuple(key.decode() for key in keys)


def test_the_four_jobs_count_what_is_in_the_crawl(copy: Path) -> None:
    found = answers(copy)
    assert len(found) == PAGES
    servers = Counter(counted(server) for _, _, server, _ in found)
    assert counts(copy, "servers.parquet", "server") == servers
    hosts = Counter(counted(address, host) for host, address, _, _ in found)
    assert counts(copy, "addresses.parquet", "address", "host") == hosts
    tags = Counter(counted(tag) for *_, page in found for tag in re.findall(rb"<([a-z]\w*)", page))
    assert counts(copy, "tags.parquet", "tag") == tags
    texts = gzip.decompress((copy / "crawl" / "made.wet.gz").read_bytes()).decode().split("WARC/1.0\r\n")
    words = Counter(
        (word,) for text in texts[1:] for word in re.findall(r"\w+", text.partition("\r\n\r\n")[2].lower())
    )
    assert counts(copy, "words.parquet", "word") == words


def test_the_classifier_knows_the_language_of_every_page_that_was_found(
    copy: Path, make_crawl: ModuleType
) -> None:
    table = pq.read_table(sorted((copy / "out" / "languages").glob("part-*.parquet"))).to_pylist()
    assert len(table) == len(result(copy, "text.parquet")) == PAGES - len(range(7, PAGES, 20))
    for row in table:
        assert row["language"] == make_crawl.SITES[row["url"].split("/")[2]][2]


@pytest.mark.long
def test_the_figure_has_a_line_for_each_job(copy: Path) -> None:
    with (copy / "figure.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["limits.concurrent"] in "12"]
    few = [row for row in rows if row["job"] in ("words", "servers")]
    with (copy / "few.csv").open("w") as file:
        writer = csv.DictWriter(file, few[0])
        writer.writeheader()
        writer.writerows(few)
    run = shoal(copy, "run", "figure.yaml", "--set", "trials.table=few.csv", "--json")
    assert run["items"]["done"] == 4
    page = Path(shoal(copy, "report", run["run"]).strip()).read_text()
    section = page[page.index("run_s by limits.concurrent and job") :].partition("<h2")[0]
    assert re.findall(r"</i>([^<]*)</span>", section) == ["words", "servers"]


def test_the_figure_asks_for_one_to_eight_workers_of_all_four_jobs() -> None:
    sweep = spec.load(FOLDER / "figure.yaml", kind="sweep")
    with (FOLDER / str(sweep.trials.table)).open() as file:
        rows = list(csv.DictReader(file))
    asked = Counter(row["job"] for row in rows)
    assert set(asked.values()) == {8}
    for row in rows:
        inner = spec.load(
            FOLDER / str(sweep.run.workload),
            [f"{name}={value}" for name, value in row.items()],
            kind="process",
        )
        assert inner.limits.concurrent in range(1, 9)
    assert set(asked) == {"words", "tags", "servers", "{addresses: {hosts: true}}"}


def test_real_samples_are_taken_where_there_are_any(tmp_path: Path) -> None:
    example = Path(shutil.copytree(FOLDER, tmp_path / "crawl", ignore=shutil.ignore_patterns("crawl", "out")))
    (tmp_path / "samples" / "crawls").mkdir(parents=True)
    for ending in ("warc", "wet"):
        (tmp_path / "samples" / "crawls" / f"one.{ending}.gz").write_bytes(gzip.compress(b"a record"))
    environment = dict(os.environ, CRAWL_SAMPLES=str(tmp_path / "samples"))
    subprocess.run(
        [sys.executable, "make_crawl.py", "--size=0.0001"],
        cwd=example,
        check=True,
        capture_output=True,
        env=environment,
    )
    assert gzip.decompress((example / "crawl" / "one.warc.gz").read_bytes()) == b"a record" * 4

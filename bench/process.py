"""Counting words of archives: Shoal against a loop by hand and against PySpark, as megabytes of input a second.

python bench/process.py [--seconds 60] [--repeats 3] [--only hand,spark,spark-fast,scaling,files] [--json]

Archives are made: texts by Zipf's law over a vocabulary that grows with them. Each side counts the same files. What
takes long to start (a session of Spark) is up before the clock runs, or is taken away: Shoal's own start counts.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import os
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from figures import Figure, table
from workbench import SHOAL, Spread, Workbench

MB = 1_000_000
CORES = os.cpu_count() or 1
RATES = {"hand": 11.0, "spark": 0.8, "spark-fast": 9.0}
"""About what each reads a second on two cores, in MB: how much input keeps it busy for a while."""
RECORD_WORDS = 1500
_WORD = re.compile(r"\w+")


# Archives.


def write_archives(folder: Path, size: int, files: int) -> list[Path]:
    """WET files of about `size` bytes in all, a gzip member for each record, as Common Crawl's are."""
    paths = [folder / f"{number:04d}.warc.wet.gz" for number in range(files)]
    with multiprocessing.get_context("fork").Pool(CORES) as pool:
        pool.starmap(_write_archive, [(path, size // files, number) for number, path in enumerate(paths)])
    return paths


def _write_archive(path: Path, size: int, number: int) -> None:
    chance = np.random.default_rng(number)
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(gzip.compress(_record(chance, number, file.tell()), 6, mtime=0))


def _record(chance: np.random.Generator, file: int, offset: int) -> bytes:
    ranks = chance.zipf(1.25, RECORD_WORDS) % (1 << 40)
    text = " ".join(map(_word, ranks.tolist())).encode()
    head = (
        f"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: http://host{file}.example/{offset}\r\n"
        f"WARC-Date: 2024-05-01T00:00:00Z\r\nWARC-Record-ID: <urn:uuid:{file:08x}-0000-4000-8000-{offset:012x}>\r\n"
        f"Content-Type: text/plain\r\nContent-Length: {len(text)}\r\n\r\n"
    )
    return head.encode() + text + b"\r\n\r\n"


_SOUNDS = [first + vowel for first in "bdfgklmnprstvz" for vowel in "aeiou"]


@lru_cache(1 << 20)
def _word(rank: int) -> str:
    """A word for each rank; frequent ones are short."""
    sounds = []
    while rank:
        rank, sound = divmod(rank, len(_SOUNDS))
        sounds.append(_SOUNDS[sound])
    return "".join(sounds) or "a"


# Sides. Each counts the words of files, and gives the seconds it took and how many different words there were.


def by_shoal(bench: Workbench, paths: Sequence[Path], workers: int = CORES) -> tuple[float, int]:
    """The command, from its start to its end."""
    folder = Path(tempfile.mkdtemp(dir=bench.folder))
    pattern = json.dumps([str(path) for path in paths])
    (folder / "words.yaml").write_text(
        f"kind: process\nname: words\ninput: {{wet: {pattern}}}\njob: words\noutput: words.parquet\ntop: 0\n"
        f"limits: {{concurrent: {workers}}}\n"
    )
    began = time.perf_counter()
    bench.call([SHOAL, "run", "words.yaml", "--json"], folder, bench.environment())
    seconds = time.perf_counter() - began
    from pyarrow import parquet

    return seconds, parquet.ParquetFile(folder / "words.parquet").metadata.num_rows


def by_hand(bench: Workbench, paths: Sequence[Path]) -> tuple[float, int]:
    """A loop with FastWARC in as many processes as there are cores, their counts added, sorted and written."""
    began = time.perf_counter()
    with multiprocessing.get_context("fork").Pool(CORES) as pool:
        total: Counter[str] = Counter()
        for part in pool.imap_unordered(_counted, paths):
            total.update(part)
    ranked = sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))
    import pyarrow
    from pyarrow import parquet

    columns = {"word": [word for word, _ in ranked], "count": [count for _, count in ranked]}
    parquet.write_table(pyarrow.table(columns), bench.folder / "by-hand.parquet")
    return time.perf_counter() - began, len(ranked)


def _counted(path: Path) -> Counter[str]:
    from fastwarc.warc import ArchiveIterator, WarcRecordType

    counts: Counter[str] = Counter()
    with path.open("rb") as file:
        for record in ArchiveIterator(file, record_types=WarcRecordType.conversion, parse_http=False):
            counts.update(_WORD.findall(record.reader.read().decode("utf-8", "replace").lower()))
    return counts


def by_spark(session: Any, bench: Workbench, paths: Sequence[Path]) -> tuple[float, int]:
    """As the group did it: warcio, `flatMap`, `reduceByKey`."""

    def words(path: str) -> list[str]:
        from warcio.archiveiterator import ArchiveIterator as Records

        found: list[str] = []
        with open(path, "rb") as file:
            for record in Records(file):
                if record.rec_type == "conversion":
                    text = record.content_stream().read().decode("utf-8", "replace").lower()
                    found += re.findall(r"\w+", text)
        return found

    context = session.sparkContext
    began = time.perf_counter()
    files = context.parallelize([str(path) for path in paths], len(paths))
    counted = files.flatMap(words).map(lambda word: (word, 1)).reduceByKey(lambda one, other: one + other)
    return _ranked(session, bench, counted, began)


def by_fast_spark(session: Any, bench: Workbench, paths: Sequence[Path]) -> tuple[float, int]:
    """FastWARC, and a counter for each partition."""
    context = session.sparkContext
    began = time.perf_counter()
    files = context.parallelize([str(path) for path in paths], len(paths))
    counted = files.flatMap(lambda path: _counted(Path(path)).items()).reduceByKey(
        lambda one, other: one + other
    )
    return _ranked(session, bench, counted, began)


def _ranked(session: Any, bench: Workbench, counted: Any, began: float) -> tuple[float, int]:
    target = str(bench.folder / f"by-spark-{began}")
    frame = session.createDataFrame(counted, "word string, count long")
    frame.orderBy(frame["count"].desc(), frame["word"]).write.parquet(target)
    seconds = time.perf_counter() - began
    return seconds, session.read.parquet(target).count()


def spark_session() -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    session = (
        SparkSession.builder.master("local[*]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", CORES * 2)
        .config("spark.default.parallelism", CORES * 2)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    session.sparkContext.parallelize(range(CORES), CORES).map(lambda number: number).collect()
    return session


# Comparing.


def rate(paths: Sequence[Path], seconds: float) -> float:
    return sum(path.stat().st_size for path in paths) / MB / seconds


def compare(
    key: str,
    what: str,
    sides: Sequence[Callable[[], tuple[float, int]]],
    paths: Sequence[Path],
    repeats: int,
    least: float,
) -> Figure:
    """Shoal's rate as a multiple of the other's, in turn."""
    rates: list[list[float]] = [[], []]
    for _ in range(repeats):
        found = set()
        for index, side in enumerate(sides):
            seconds, words = side()
            rates[index].append(rate(paths, seconds))
            found.add(words)
        if len(found) != 1:
            raise SystemExit(f"{what}: the sides count different words: {sorted(found)}")
    ratios = [ours / other for ours, other in zip(*rates, strict=True)]
    ours, others = (Spread.of(each).words(".1f", " MB/s") for each in rates)
    return Figure(key, what, statistics.median(ratios), "x", at_least=least, how=f"{ours} against {others}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Counting words of archives, Shoal against others.")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the other side is kept busy")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="hand,spark,spark-fast,scaling,files")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    asked = arguments.only.split(",")
    bench, figures = Workbench(), []
    try:
        archives = {
            name: write_archives(_folder(bench, name), int(RATES[name] * arguments.seconds * MB), 4 * CORES)
            for name in RATES
            if name in asked or (name == "hand" and {"scaling", "files"} & {*asked})
        }
        if "hand" in asked:
            paths = archives["hand"]
            sides = [lambda: by_shoal(bench, paths), lambda: by_hand(bench, paths)]
            figures.append(compare("a", "a loop by hand", sides, paths, arguments.repeats, 0.9))
        session = spark_session() if {"spark", "spark-fast"} & {*asked} else None
        for key, name, side, least in (
            ("b", "spark", by_spark, 10.0),
            ("c", "spark-fast", by_fast_spark, 1.0),
        ):
            if name in asked:
                paths = archives[name]
                figures.append(
                    compare(
                        key,
                        {"spark": "PySpark with warcio", "spark-fast": "PySpark with FastWARC"}[name],
                        [
                            lambda paths=paths: by_shoal(bench, paths),
                            lambda side=side, paths=paths: side(session, bench, paths),
                        ],
                        paths,
                        arguments.repeats,
                        least,
                    )
                )
        if session is not None:
            session.stop()
        if "scaling" in asked:
            paths = archives["hand"]
            sides = [lambda: by_shoal(bench, paths), lambda: by_shoal(bench, paths, 1)]
            figures.append(
                compare(
                    "d", f"{CORES} workers against one", sides, paths, arguments.repeats, 0.0
                ).without_target()
            )
        if "files" in asked:
            paths = archives["hand"]
            one = _folder(bench, "one") / "all.warc.wet.gz"
            one.write_bytes(b"".join(path.read_bytes() for path in paths))
            sides = [lambda: by_shoal(bench, [one]), lambda: by_shoal(bench, paths)]
            figures.append(compare("e", "one large file against many", sides, paths, arguments.repeats, 0.95))
    finally:
        bench.close()
    if arguments.json:
        print(json.dumps([figure.document() for figure in figures], indent=2))
    else:
        print(table(figures))
    return 0


def _folder(bench: Workbench, name: str) -> Path:
    made = bench.folder / f"archives-{name}"
    made.mkdir()
    return made


if __name__ == "__main__":
    sys.exit(main())

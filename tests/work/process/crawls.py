"""Records for tests of jobs: made by hand, and those of the sample crawls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shoal.work.process.item_counts import Counting
from shoal.work.process.jobs.base import Job
from shoal.work.process.reduction import reduced
from shoal.work.process.scratch import Scratch
from shoal.work.protocols import Unreadable
from shoal.work.records.archive_reader import ArchiveReader
from shoal.work.records.record import ROW, BadRecord, Range, Record

CRAWLS = Path(__file__).resolve().parents[4] / "shared" / "data" / "warc"


def archives(*patterns: str) -> list[Path]:
    """The sample crawls with these names; the test is skipped where they are not."""
    found = sorted(path for pattern in patterns for path in CRAWLS.glob(pattern))
    if not found:
        pytest.skip(f"there are no sample crawls in {CRAWLS}")
    return found


def counted(
    job: Job, path: Path, folder: Path, start: int = 0, stop: int = 2**62
) -> tuple[list[Any], list[BadRecord]]:
    """The tables of the partial of a range, and what was bad in it."""
    bad: list[BadRecord] = []
    counting = Counting(job, Scratch(str(folder)))
    with path.open("rb") as file:
        for record in ArchiveReader(file, Range(str(path), start, stop), job.records, None, bad.append):
            try:
                counting.add(record)
            except Unreadable as error:
                bad.append(BadRecord(str(path), record.offset, str(error)))
    return list(counting.tables()), bad


def rows(job: Job, records: Iterable[Record], folder: Path) -> list[tuple[Any, ...]]:
    """The result of these records."""
    counting = Counting(job, Scratch(str(folder)))
    for record in records:
        counting.add(record)
    return result(job, [list(counting.tables())], folder)


def result(job: Job, partials: Iterable[list[Any]], folder: Path) -> list[tuple[Any, ...]]:
    """The rows of the result from the tables of partials."""
    tables = reduced(job, [iter(each) for each in partials], Scratch(str(folder)))
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


class Names(dict[str, str]):
    def get(self, name: str, default: Any = None) -> Any:
        return next((value for key, value in self.items() if key.lower() == name.lower()), default)


class Made(NamedTuple):
    """A record with what a test says."""

    type: str = "response"
    url: str = "http://a.example/"
    headers: Names = Names()
    http: Names | None = Names()
    content: bytes = b""
    row: Mapping[str, Any] = {}
    media_type: str = "text/html"
    offset: int = 0
    status: int | None = 200

    def body(self) -> bytes:
        return self.content

    def text(self) -> str:
        return str(self.content, "utf-8", "replace")


def text(content: str) -> Made:
    return Made(type="conversion", content=content.encode(), media_type="text/plain")


def line(content: Any) -> Made:
    return Made(type=ROW, row={"text": content})


def page(source: str, **options: Any) -> Made:
    return Made(content=source.encode("utf-8", "surrogatepass"), **options)

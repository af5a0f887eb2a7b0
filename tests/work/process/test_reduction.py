"""Counting, partials and merging: however the records are cut and whatever is put aside, the result is one count's."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet

from shoal.engine.workers.runner import Failed
from shoal.work.process import item_counts, partials, reduction
from shoal.work.process.item_counts import Counting
from shoal.work.process.jobs import built_in
from shoal.work.process.jobs.base import Job, KeyCount, adopted
from shoal.work.process.partials import Partial, schema_of, spans, table_of
from shoal.work.process.reduction import merged, merged_ranks, ranked, reduced
from shoal.work.process.result_file import write_result
from shoal.work.process.scratch import Scratch
from shoal.work.records.record import Record
from work.process.crawls import Made, line, rows

SMALL = 1000
"""Bytes: so little memory that everything is put aside."""


class Parts(KeyCount):
    """Counts the words of a line, as keys of two parts where there are two columns."""

    def map(self, record: Record) -> Sequence[Any]:
        words: list[str] = record.row["text"]
        return words if len(self.key) == 1 else [(word[:1], word[1:]) for word in words]


class Pairs(Parts):
    key = ("first", "rest")


class Most(Job):
    """Counts words with a `combine` of its own, and how often each was at most in a line."""

    values = {"count": "int", "most": "int"}  # noqa: RUF012 - as a user writes it

    def map(self, record: Record) -> Iterator[tuple[str, tuple[int, int]]]:
        yield from ((word, (number, number)) for word, number in Counter(record.row["text"]).items())

    def combine(self, one: Any, other: Any) -> Any:
        return one[0] + other[0], max(one[1], other[1])


def expected(job: Job, lines: Sequence[Sequence[str]]) -> list[tuple[Any, ...]]:
    counts = Counter(word for words in lines for word in words)
    if isinstance(job, Most):
        most = {word: max(words.count(word) for words in lines) for word in counts}
        found: list[tuple[Any, ...]] = [(word, count, most[word]) for word, count in counts.items()]
        return sorted(found, key=lambda row: (-row[1], row[0]))
    split = isinstance(job, Pairs)
    pairs = [((word[:1], word[1:]) if split else (word,), count) for word, count in counts.items()]
    return [(*key, count) for key, count in sorted(pairs, key=lambda pair: (-pair[1], pair[0]))]


def partial(job: Job, lines: Sequence[Any], folder: Path, memory_bytes: int = SMALL) -> Partial:
    count = Counting(job, Scratch(str(folder)), memory_bytes)
    for each in lines:
        count.add(line(each))
    return written(job, count.tables())


def written(job: Job, tables: Iterator[Any], *, is_ranked: bool = False) -> Partial:
    file = io.BytesIO()
    partials.write(file, job, tables, {"item": 1}, is_ranked=is_ranked)
    return Partial(file, "a partial")


def tuples(tables: Iterator[Any]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `map` gives is gathered after each record, so that it can be put aside."""
    monkeypatch.setattr(item_counts, "_BATCH_RECORDS", 0)


WORDS = st.lists(
    st.text("aAbé\U0001f600\uffff \x00", max_size=4) | st.sampled_from(["the", "of"]), max_size=8
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    items=st.lists(st.lists(WORDS, max_size=5), max_size=6),
    kind=st.sampled_from([Parts, Pairs, Most]),
    memory_bytes=st.sampled_from([1, SMALL, 10**8]),
    parts=st.integers(1, 3),
    sources=st.sampled_from([2, 64]),
)
def test_partials_cut_anyhow_give_what_one_count_gives(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    items: list[list[list[str]]],
    kind: type[Job],
    memory_bytes: int,
    parts: int,
    sources: int,
) -> None:
    monkeypatch.setattr(reduction, "_SOURCES", sources)
    monkeypatch.setattr(partials, "_GROUP_ROWS", 3)
    job, scratch = kind(), Scratch(str(tmp_path))
    found = [partial(job, lines, tmp_path, memory_bytes) for lines in items]
    want = expected(job, [words for lines in items for words in lines])
    assert tuples(reduced(job, [each.tables() for each in found], scratch, memory_bytes)) == want
    cuts = spans(found, parts)
    by_span = [
        written(
            job, reduced(job, [each.tables(cut) for each in found], scratch, memory_bytes), is_ranked=True
        )
        for cut in cuts
    ]
    assert len(cuts) <= parts
    assert tuples(merged_ranks(job, [each.tables() for each in by_span])) == want
    assert os.listdir(tmp_path) == []


def test_a_partial_says_what_it_is_and_is_sorted(tmp_path: Path) -> None:
    found = partial(Parts(), [["b", "a"], ["é", "b"]], tmp_path)
    assert found.document == {"item": 1}
    assert found.rows == 3
    assert tuples(found.tables()) == [("a", 1), ("b", 2), ("é", 1)]
    with pytest.raises(Failed, match="X is there already, and is no partial"):
        Partial(io.BytesIO(b"something else"), "X")


def test_spans_have_about_as_many_rows_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partials, "_GROUP_ROWS", 50)
    found = [
        partial(Parts(), [[f"{number:04}" for number in range(start, 1000, 3)]], tmp_path)
        for start in range(3)
    ]
    cuts = spans(found, 4)
    assert [cut.low for cut in cuts[1:]] == [cut.high for cut in cuts[:-1]]
    sizes = [sum(table.num_rows for each in found for table in each.tables(cut)) for cut in cuts]
    assert sum(sizes) == 1000
    assert all(150 <= size <= 350 for size in sizes)


def test_rows_keep_the_order_of_the_records_when_they_are_put_aside(tmp_path: Path) -> None:
    job = adopted(
        type("Lines", (), {"key": (), "values": {"text": "text"}, "map": staticmethod(given_row)}), {}
    )
    count = Counting(job, Scratch(str(tmp_path)), SMALL)
    for number in range(21):
        count.add(line(f"{number} " * 100))
    assert len(os.listdir(tmp_path)) > 3
    assert [row[0].split()[0] for row in tuples(count.tables())] == [str(number) for number in range(21)]


def given_row(record: Record) -> list[tuple[str]]:
    return [(record.row["text"],)]


def test_ranking_keeps_the_order_of_equal_values_across_runs(tmp_path: Path) -> None:
    names = {"key": "text", "count": "int"}
    counts = [(f"{number:05}", 1 if number % 7 else number % 100) for number in range(50_000)]
    tables = [
        table_of(names, [*zip(*counts[at : at + 999], strict=True)]) for at in range(0, len(counts), 999)
    ]
    got = tuples(ranked(Parts(), tables, Scratch(str(tmp_path)), 200_000))
    assert got == sorted(counts, key=lambda pair: (-pair[1], pair[0]))


def test_values_that_are_no_numbers_end_a_ranking(tmp_path: Path) -> None:
    class Floats(Parts):
        values = {"count": "float"}  # noqa: RUF012 - as a user writes it

    tables = [
        table_of({"key": "text", "count": "float"}, [["a", "b"], [value, 1.0]])
        for value in (float("nan"), 2.0)
    ]
    assert len(tuples(ranked(Floats(), tables, Scratch(str(tmp_path)), 1))) == 4


def test_a_merge_goes_in_steps_when_memory_is_short_and_in_one_when_it_is_not(tmp_path: Path) -> None:
    names = {"key": "text", "count": "int"}
    keys = [f"{number:06}" for number in range(20_000)]
    tables = [
        [table_of(names, [keys[at : at + 500 : 5], [1] * 100]) for at in range(start, 20_000, 500)]
        for start in range(5)
    ]
    for memory_bytes, most in ((1, 500), (10**9, 20_000)):
        steps = merged(Parts(), [iter(each) for each in tables], Scratch(str(tmp_path)), memory_bytes)
        sizes = [table.num_rows for table in steps]
        assert sum(sizes) == 20_000
        assert most - 5 < max(sizes) <= most


@pytest.mark.parametrize("name", ["parquet", "csv"])
def test_a_result_is_one_file_with_its_first_rows_told(name: str, tmp_path: Path) -> None:
    job = Parts()
    tables = [table_of({"key": "text", "count": "int"}, [['a"b,', "line\nbreak"], [3, 2]])] * 2
    path = tmp_path / "out"
    with path.open("wb") as file:
        written = write_result(file, name, job, iter(tables), top=3)
    assert written.rows == 4
    assert [row["count"] for row in written.top] == [3, 2, 3]
    options = csv.ParseOptions(newlines_in_values=True)
    table = parquet.read_table(path) if name == "parquet" else csv.read_csv(path, parse_options=options)
    assert table.cast(schema_of({"key": "text", "count": "int"})).to_pylist()[:2] == written.top[:2]
    assert table.num_rows == 4


def test_a_result_of_nothing_has_its_columns(tmp_path: Path) -> None:
    file = io.BytesIO()
    write_result(file, "csv", built_in("addresses", {}), iter(()))
    assert file.getvalue() == b"address,count,hosts\n"
    assert rows(built_in("addresses", {}), [Made()], tmp_path) == []


def test_a_disk_that_is_full_is_named_with_what_was_needed(tmp_path: Path) -> None:
    (tmp_path / "run-000000.arrow").symlink_to("/dev/full")
    count = Counting(Parts(), Scratch(str(tmp_path)), SMALL)
    with pytest.raises(
        Failed, match=rf"The disk of {tmp_path} is full: up to \d.* were to be put aside there"
    ):
        count.add(line([f"{number}" * 100 for number in range(1000)]))
    assert os.listdir(tmp_path) == []

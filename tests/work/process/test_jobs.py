"""The built-in jobs: what they find in records, that it is what the reference finds, and what odd records cost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.errors import NotFound, SpecError
from shoal.work.process.item_counts import Counting
from shoal.work.process.jobs import JOBS, built_in
from shoal.work.process.jobs.base import Job, adopted
from shoal.work.process.scratch import Scratch
from shoal.work.protocols import Unreadable
from shoal.work.records.record import Record
from work.process.crawls import Made, Names, archives, counted, line, page, result, rows, text
from work.process.reference import REFERENCES, address_hosts

WARC = ("c*/*.warc.gz", "quirks/*.warc*")
PATTERNS = {"words": ("commoncrawl/*.wet.gz",), "links": (*WARC, "commoncrawl/*.wat.gz")}
SMALL = 270_000


@pytest.mark.machine
@pytest.mark.parametrize(
    "size",
    [
        pytest.param(range(SMALL), id="small"),
        pytest.param(range(SMALL, 2**62), id="large", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("name", REFERENCES)
def test_a_job_finds_in_the_sample_crawls_what_the_reference_finds(
    name: str, size: range, tmp_path: Path
) -> None:
    job = built_in(name, {})
    for path in archives(*PATTERNS.get(name, WARC)):
        if path.stat().st_size in size:
            found, _ = counted(job, path, tmp_path)
            starts = range(0, path.stat().st_size, 65536)
            ranges = [counted(job, path, tmp_path, start, start + 65536)[0] for start in starts]
            got = result(job, [found], tmp_path)
            assert as_counts(job, got) == REFERENCES[name](path), path.name
            assert result(job, ranges, tmp_path) == got, path.name


def as_counts(job: Job, found: list[tuple[Any, ...]]) -> dict[Any, Any]:
    width = len(job.key)
    return {
        row[0] if width == 1 else row[:width]: row[width] if len(row) - width == 1 else row[width:]
        for row in found
    }


@pytest.mark.machine
def test_hosts_of_addresses_are_those_of_the_reference(tmp_path: Path) -> None:
    job = built_in("addresses", {"hosts": True})
    for path in archives(*WARC):
        found, _ = counted(job, path, tmp_path)
        assert as_counts(job, result(job, [found], tmp_path)) == {
            pair: count for pair, count in address_hosts(path).items() if pair[1]
        }


@pytest.mark.machine
def test_text_is_the_main_content_of_pages_in_their_order(tmp_path: Path) -> None:
    (path,) = archives("commoncrawl/whirlwind.warc.gz")
    found, bad = counted(built_in("text", {}), path, tmp_path)
    ((url, title, content, length),) = result(built_in("text", {}), [found], tmp_path)
    assert (url, title) == (
        "https://an.wikipedia.org/wiki/Escopete",
        "Escopete - Biquipedia, a enciclopedia libre",
    )
    assert "Escopete" in content
    assert length == len(content)
    assert bad == []


TEXT = st.text() | st.text("aZ_9é’«ΣİK\u3000日。\ufffd\U000e0100\U0001d7ce\x00\x1f \n-")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(TEXT, min_size=1, max_size=4))
def test_words_are_those_of_the_pattern_whatever_the_script(texts: list[str], tmp_path: Path) -> None:
    expected = Counter(word for each in texts for word in re.findall(r"\w+", each.lower()))
    records = [*map(text, texts[:-1]), line(texts[-1])]
    assert rows(built_in("words", {}), records, tmp_path) == sorted(
        expected.items(), key=lambda pair: (-pair[1], pair[0])
    )


def test_servers_types_and_addresses_are_read_from_headers(tmp_path: Path) -> None:
    records = [
        Made(
            http=Names(Server="nginx"),
            headers=Names({"WARC-IP-Address": "1.2.3.4"}),
            url="http://a.example/1",
        ),
        Made(
            http=Names(server="nginx"),
            headers=Names({"WARC-IP-Address": "1.2.3.4"}),
            url="https://A.example:8/2",
        ),
        Made(
            http=Names(Server="Apache"),
            headers=Names({"WARC-IP-Address": "1.2.3.4"}),
            url="http://b.example/",
        ),
        Made(http=None, media_type=""),
    ]
    assert rows(built_in("servers", {}), records, tmp_path) == [("nginx", 2), ("Apache", 1)]
    assert rows(built_in("types", {}), records, tmp_path) == [("text/html", 3)]
    assert rows(built_in("addresses", {}), records, tmp_path) == [("1.2.3.4", 3, 2)]
    assert rows(built_in("addresses", {"hosts": True}), records, tmp_path) == [
        ("1.2.3.4", "a.example", 2),
        ("1.2.3.4", "b.example", 1),
    ]


def test_links_are_resolved_against_the_page_or_its_base(tmp_path: Path) -> None:
    plain = page("<a href=/x><a href='//b.example/'><area href=' HTTP://C.example./ '><a href=mailto:x@y><a>")
    huge = page(f"<a href='http://b&#{'9' * 9999};.example/'>")
    assert rows(built_in("links", {}), [huge], tmp_path) == [("a.example", "b\ufffd.example", 1)]
    based = page("<base href=https://d.example/><a href=x><!-- <a href=//e.example> -->")
    assert sorted(rows(built_in("links", {}), [plain, based], tmp_path)) == [
        ("a.example", "a.example", 1),
        ("a.example", "b.example", 1),
        ("a.example", "c.example", 1),
        ("a.example", "d.example", 1),
    ]


def test_half_of_a_surrogate_pair_in_metadata_is_no_reason_to_fail(tmp_path: Path) -> None:
    links = rb'[{"path": "A@/href", "url": "http://\ud800.example/"}]'
    wat = (
        b'{"Envelope": {"Payload-Metadata": {"HTTP-Response-Metadata": {"HTML-Metadata": {"Links": %s}}}}}'
        % links
    )
    record = Made(type="metadata", headers=Names({"Content-Type": "application/json"}), content=wat)
    assert rows(built_in("links", {}), [record], tmp_path) == [("a.example", "?.example", 1)]


@pytest.mark.parametrize("name", ["tags", "links"])
def test_a_page_nested_very_deep_is_counted(name: str, tmp_path: Path) -> None:
    deep = page("<div>" * 100_000 + "<a href=//b.example>")
    assert len(rows(built_in(name, {}), [deep], tmp_path)) == (2 if name == "tags" else 1)


def test_a_page_nested_too_deep_for_its_text_costs_that_page(tmp_path: Path) -> None:
    counting = Counting(built_in("text", {}), Scratch(str(tmp_path)))
    with pytest.raises(Unreadable, match="nested 100,000 deep"):
        counting.add(page("<div>" * 100_000 + "x" + "</div>" * 100_000))
    with pytest.raises(Unreadable, match="nested 100,000 deep"):
        counting.add(page("<div><!--</div>--></b>" * 100_000))
    counting.add(page("<title> A\nb </title><p>" + "<p>x<br>" * 3000))
    assert [row["title"] for table in counting.tables() for row in table.to_pylist()] == ["A b"]


def test_broken_metadata_costs_that_record(tmp_path: Path) -> None:
    counting = Counting(built_in("links", {}), Scratch(str(tmp_path)))
    headers = Names({"Content-Type": "application/json"})
    with pytest.raises(Unreadable, match="the job failed at it: JSONDecodeError"):
        counting.add(Made(type="metadata", headers=headers, content=b"{"))
    with pytest.raises(Unreadable, match="AttributeError"):
        counting.add(Made(type="metadata", headers=headers, content=b"[]"))
    with pytest.raises(Unreadable, match="no text in a column"):
        Counting(built_in("words", {}), Scratch(str(tmp_path))).add(line(7))


class Longest:
    """The longest text of each first letter, and how many there were: no sum."""

    key = ("letter",)
    values = {"count": "int", "longest": "int"}  # noqa: RUF012 - as a user writes it

    def map(self, record: Record) -> Iterator[tuple[str, Any]]:
        content = str(record.row["text"])
        yield content[0], (1, len(content))

    def combine(self, one: Any, other: Any) -> Any:
        return one[0] + other[0], max(one[1], other[1])


class Lengths:
    """Texts and their characters by first letter: two sums."""

    key = ("letter",)
    values = {"texts": "int", "characters": "float"}  # noqa: RUF012 - as a user writes it

    def map(self, record: Record) -> Iterator[tuple[str, Any]]:
        content = str(record.row["text"])
        yield content[0], (1, float(len(content)))


def letters(record: Record) -> Iterator[Any]:
    for letter in record.row["text"]:
        yield letter, 1


def test_a_class_of_ones_own_needs_no_base_and_a_function_no_class(tmp_path: Path) -> None:
    lines = [line("ab"), line("abc"), line("b")]
    assert rows(adopted(Longest, {}), lines, tmp_path) == [("a", 2, 3), ("b", 1, 1)]
    assert rows(adopted(Lengths, {}), lines, tmp_path) == [("a", 2, 5.0), ("b", 1, 1.0)]
    assert rows(adopted(letters, {}), lines, tmp_path) == [("b", 3), ("a", 2), ("c", 1)]


def test_a_class_that_is_no_job_is_refused() -> None:
    with pytest.raises(SpecError, match="The class Empty is no job: it has no `map`"):
        adopted(type("Empty", (), {}), {})
    with pytest.raises(SpecError, match="Unknown type of a value of the job Odd: 'integer'"):
        adopted(type("Odd", (Lengths,), {"values": {"count": "integer"}}), {})
    assert adopted(type("Bare", (Lengths,), {"key": "letter"}), {}).key == ("letter",)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([("a", 1, 2)], "no pair"),
        ([(7, 1)], "the key 7, which is no text"),
        ([("a", "b")], "the value 'b', which is no int"),
        ([("a", 2**64)], "which is no int"),
        (7, "TypeError"),
    ],
    ids=str,
)
def test_what_cannot_be_counted_costs_the_record(given: Any, said: str, tmp_path: Path) -> None:
    counting = Counting(adopted(lambda record: given, {}), Scratch(str(tmp_path)))
    with pytest.raises(Unreadable, match=said):
        counting.add(line(""))


def test_a_job_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(NotFound, match="Unknown job 'word'"):
        built_in("word", {})
    with pytest.raises(SpecError, match="has no option 'host'"):
        built_in("addresses", {"host": True})
    with pytest.raises(SpecError, match="true or false"):
        built_in("addresses", {"hosts": "yes"})
    assert all(built_in(name, {}).formats for name in JOBS)

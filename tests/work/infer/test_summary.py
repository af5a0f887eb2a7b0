"""What a run of inference came to, as a document and in words."""

from __future__ import annotations

import json

from shoal.work.infer.summary import in_words, summary
from shoal.work.outputs import Totals

TOTALS = Totals(
    rows=19_000,
    errors=1_000,
    parts=118,
    bytes=3 * 1024**3,
    seconds={"writing": 2.0, "reading": 60.0, "predicting": 150.0, "decoding": 30.0, "preprocessing": 8.0},
    reasons={"truncated": 700, "zero bytes": 200, "no image": 60, "too large": 30},
)


def test_throughput_is_told_with_and_without_listing() -> None:
    document = summary(TOTALS, listing_s=5, seconds=100, runtime="openvino", batch=8)
    assert document["rows_per_second"] == 190
    assert document["rows_per_second_without_listing"] == 200
    assert list(document["phase_seconds"]) == [
        "listing",
        "reading",
        "decoding",
        "preprocessing",
        "predicting",
        "writing",
    ]
    assert document["batch"] == 8
    assert json.loads(json.dumps(document)) == document


def test_it_is_told_in_words() -> None:
    document = json.loads(json.dumps(summary(TOTALS, listing_s=5, seconds=100, runtime="openvino")))
    assert in_words(document) == [
        "19,000 rows in 118 parts, 190 a second (200 without listing), from 3.0 GiB.",
        "Time by phase, summed over threads: listing 5.0s, reading 1m, decoding 30s, preprocessing 8.0s,"
        " predicting 2m 30s, writing 2.0s.",
        "1,000 inputs could not be used; errors.parquet says which and why:",
        "  700 x truncated",
        "  200 x zero bytes",
        "  60 x no image",
        "  and 40 more",
    ]


def test_what_did_not_happen_is_not_told() -> None:
    assert in_words(summary(Totals(1, 0, 1, 0, {}), listing_s=0, seconds=0)) == ["1 row in 1 part."]


def test_parts_that_are_gone_are_told() -> None:
    totals = Totals(0, 0, 0, 0, {}, missing=tuple(range(3, 12)))
    assert in_words(summary(totals, listing_s=0, seconds=1))[-1] == (
        "9 parts of items that were done are gone (items 3, 4, 5, 6, 7, ...)."
    )


def test_a_reason_stays_on_its_line() -> None:
    totals = Totals(0, 1, 1, 0, {}, reasons={"a\nb\x1b[31m" + "x" * 300: 1})
    line = in_words(summary(totals, listing_s=0, seconds=1))[-1]
    assert line.isprintable()
    assert len(line) < 140

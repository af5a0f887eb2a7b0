"""Round trips in a cluster's book, by a given clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.cluster.book import Book, recall, remember, to_ask
from shoal.model import RoundTrip

PROBES = {"home": "gateway.home:22"}
ANSWER = {"home": RoundTrip("gateway.home:22", 5, 0.02, 0.021, 0.004)._asdict()}


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book("lab", str(tmp_path / "lab.yaml"), {"XDG_STATE_HOME": str(tmp_path / "state")})


def due(book: Book, now_s: float, probes: dict[str, str] = PROBES) -> list[str]:
    return to_ask(["a", "b"], probes, recall(book, probes), now_s)


def test_what_was_measured_is_read_back_with_its_time(book: Book) -> None:
    remember(book, {"a": ANSWER}, 1000.0)
    assert recall(book, PROBES) == {
        "a": {"home": RoundTrip("gateway.home:22", 5, 0.02, 0.021, 0.004, measured_s=1000.0)}
    }


def test_a_node_is_asked_again_after_an_hour_and_one_that_was_never_asked_at_once(book: Book) -> None:
    assert due(book, 0.0) == ["a", "b"]
    remember(book, {"a": ANSWER}, 1000.0)
    assert due(book, 1000.0) == ["b"]
    assert due(book, 1000.0 + 3600) == ["b"]
    assert due(book, 1000.0 + 3601) == ["a", "b"]
    assert due(book, 999.0) == ["a", "b"], "measured in the future: a clock was wrong"


def test_what_had_no_answer_is_tried_again(book: Book) -> None:
    remember(book, {"a": {"home": RoundTrip("gateway.home:22", 0, error="no")._asdict()}}, 1000.0)
    assert due(book, 1000.0) == ["a", "b"]


def test_another_probe_makes_what_was_measured_worthless(book: Book) -> None:
    remember(book, {"a": ANSWER}, 1000.0)
    assert due(book, 1000.0, {"home": "other.home:22"}) == ["a", "b"]
    assert recall(book, {"home": "other.home:22"}) == {"a": {}}


def test_without_probes_nobody_is_asked(book: Book) -> None:
    assert due(book, 0.0, {}) == []


def test_the_end_of_a_cluster_does_not_end_what_was_measured(book: Book) -> None:
    book.open()
    remember(book, {"a": ANSWER}, 1000.0)
    book.close()
    assert "id" not in book.read()
    assert recall(book, PROBES)["a"]["home"].minimum_s == 0.02

"""Charts: drawings that are well-formed, small however many dots they have, and say only what they were given."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from shoal.reports import charts, scales
from shoal.reports.charts import Series
from shoal.reports.markup import Markup, join, tag, text


def drawn(points: list[tuple[float, float]], **how: object) -> Markup:
    x = scales.linear("x", [each for each, _ in points])
    y = scales.linear("y", [each for _, each in points])
    return charts.chart(x, y, [Series("trials", points, **how)])


def test_few_dots_say_what_they_are() -> None:
    found = ElementTree.fromstring(drawn([(0, 0), (1, 1)], titles=["first & <last>", "second"]))
    assert [each.text for each in found.iter("title")] == ["first & <last>", "second"]


def test_many_dots_are_one_line_of_no_length_each() -> None:
    points = [(number, number % 7) for number in range(1000)]
    page = drawn(points, titles=["a title"] * 1000)
    assert "a title" not in page
    assert len(page) < 20_000
    (path,) = re.findall(r'd="([^"]*)" class="dots"', page)
    assert path.count("h0") == len(set(re.findall(r"M[^M]*", path))) <= 1000


def test_dots_lie_where_their_values_are() -> None:
    found = ElementTree.fromstring(drawn([(0, 0), (5, 10), (10, 5)], titles=["a", "b", "c"]))
    circles = {each.findtext("title"): each for each in found.iter("circle")}
    x = {name: float(each.get("cx", "")) for name, each in circles.items()}
    y = {name: float(each.get("cy", "")) for name, each in circles.items()}
    assert x["a"] < x["b"] < x["c"]
    assert x["b"] - x["a"] == pytest.approx(x["c"] - x["b"], abs=0.2)
    assert y["b"] < y["c"] < y["a"], "up is more"


def test_the_best_so_far_goes_in_steps_to_the_edge() -> None:
    page = drawn([(0, 0), (5, 10)], look="steps")
    (path,) = re.findall(r'd="([^"]*)" class="line"', page)
    assert re.fullmatch(r"M[\d.]+ [\d.]+H[\d.]+V[\d.]+H[\d.]+", path)


@pytest.mark.parametrize("rows", [[], [("a", 0.0, "0s")], [("a" * 100, 1e-9, "<"), ("b", 1e9, "11574d")]])
def test_bars_are_drawn_of_anything(rows: list[tuple[str, float, str]]) -> None:
    found = ElementTree.fromstring(charts.bars(rows, "seconds"))
    assert all(0 < float(bar.get("width", "")) <= charts.WIDTH for bar in found.iter("rect"))
    assert len(list(found.iter("rect"))) == len(rows)


def test_a_span_is_drawn_though_all_of_it_is_nothing() -> None:
    ElementTree.fromstring(charts.span(0.0, 0.0, 0.0, 0.0, "seconds"))


def test_what_is_not_markup_is_text() -> None:
    assert text('<b>"&') == "&lt;b&gt;&quot;&amp;"
    assert tag("p", "<", tag("b", ">"), class_='"', title=None) == '<p class="&quot;">&lt;<b>&gt;</b></p>'
    assert join("a", None, Markup("<i></i>"), 3) == "a<i></i>3"
    assert len(text("x" * 10_000)) == 400
    assert text("a\x00\n\u202e\ud800") == "a\\x00\\n\\u202e\\ud800"

"""Start tags in sources of HTML: the same as html5lib's tokenizer gives."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shoal.work.process.jobs.html_tokens import lower_case, start_tags, tags, tags_named
from work.process import reference

PIECES = [
    *(
        "<",
        "</",
        "<!",
        "<!--",
        "-->",
        "--",
        "-",
        "!>",
        "--!>",
        ">",
        "=>",
        "<?",
        "<![CDATA[",
        "]]>",
        "/",
        "=",
        "'",
        '"',
    ),
    *("<script", "</script", "<SCRIPT>", "</Script ", "scriptx", "<style>", "</style>", "<title", "</title/"),
    *(
        "<textarea>",
        "</textarea",
        "<plaintext>",
        "<xmp>",
        "</xmp>",
        "<iframe",
        "</iframe>",
        "<noscript>",
        "<b/>",
    ),
    *(
        "<a",
        "<a ",
        "href",
        "<div class=a>",
        "<!doctype html>",
        "PUBLIC",
        "&amp;",
        "&#x41",
        "&copy",
        "&notit;",
    ),
    *(
        " ",
        "\n",
        "\r",
        "\t",
        "\f",
        "\x0b",
        "\x00",
        "1",
        "x",
        "é",
        "İ",
        "ſcript>",
        "</ſtyle>",
        "<tıtle>",
        "\ufeff",
        "\U0001f600",
    ),
]


def names(source: str) -> list[str]:
    return [lower_case(name) for name in start_tags(source)]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_start_tags_are_those_that_html5lib_sees(source: str) -> None:
    assume(re.search("<!---?\x00", source) is None)  # html5lib is not yet in the comment after that.
    expected = list(reference.start_tags(source))
    assert names(source) == [name for name, _ in expected]
    assert [name for name, is_end in tags(source) if not is_end] == [name for name, _ in expected]
    found = list(tags_named(source, {name for name, _ in expected}))
    assert [tag.name for tag in found] == [name for name, _ in expected]
    if not set("\r\x00") & set(source):  # html5lib writes these as others.
        assert [tag.attribute("href") for tag in found] == [each.get("href") for _, each in expected]


@pytest.mark.parametrize(
    ("source", "expected"),
    {
        "in a comment": ("<!-- <a> --><b>", ["b"]),
        "after a comment of nothing": ("<!--><a>", ["a"]),
        "in a script": ("<script>'<a>'</script><b>", ["script", "b"]),
        "in a script in a comment of a script": (
            "<script><!-- <script> </script> <a> --> </script><b>",
            ["script", "b"],
        ),
        "after a script with an open comment": ("<script><!-- </script><b>", ["script", "b"]),
        "in a style": ("<style><a></style><b>", ["style", "b"]),
        "in a title": ("<title><a></TITLE ><b>", ["title", "b"]),
        "in a value": ("<a title='<b>'><i>", ["a", "i"]),
        "after plaintext": ("<plaintext><b></plaintext><i>", ["plaintext"]),
        "without an end": ("<a><b title='", ["a"]),
        "in a noscript": ("<noscript><a></noscript>", ["noscript", "a"]),
        "with odd names": ("<a:B><é><A\x00é>", ["a:b", "a\ufffdé"]),
    }.values(),
)
def test_a_tag_counts_where_it_is_one(source: str, expected: list[str]) -> None:
    assert names(source) == expected
    assert [name for name, _ in reference.start_tags(source)] == expected


@pytest.mark.parametrize(
    "piece", ["<a ", "<a", "<!--", "<script><!--", "<a b='", "<", "</", "<title>", "&", "-"]
)
def test_hostile_sources_take_no_longer_than_others(piece: str) -> None:
    start_tags(
        piece * (2_000_000 // len(piece))
    )  # The test's time limit is the check: a square would take hours.

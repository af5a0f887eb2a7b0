"""Pages as tests read them, and runs to write them of: small real ones, and ones that are recorded by hand."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from shoal.reports import write
from shoal.store import RunStore

NOW = 1_700_000_000.0
VOID = ("meta",)
KNOWN_TAGS = re.compile(
    "html|head|meta|title|style|body|main|section|footer|details|summary|h1|h2|h3|p|span|i|b|div|code"
    "|table|thead|tbody|tr|th|td|svg|g|path|circle|rect|text"
)


class Page(HTMLParser):
    """A page taken apart. Fails where elements are not closed in order, or where one could do something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.texts: list[str] = []
        self.headings: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == [], "elements that are not closed"
        for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
            ElementTree.fromstring(drawing)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert KNOWN_TAGS.fullmatch(tag), f"an element <{tag}>"
        for name, value in attrs:
            assert not name.startswith("on"), f"<{tag} {name}>"
            assert name not in ("src", "href", "style", "srcdoc"), f"<{tag} {name}={value}>"
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.texts.append(data)
        if self._open and self._open[-1] in ("h2", "h3"):
            self.headings.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)

    def tile(self, label: str) -> str:
        """The figure above this label, at the top of the page."""
        found = re.search(rf"<b>([^<]*)</b><span>{re.escape(label)}</span>", self.source)
        assert found is not None, f"no figure {label!r}"
        return found[1]

    def drawing(self, described: str) -> ElementTree.Element:
        """The one that says this of itself."""
        for found in re.findall(r"<svg.*?</svg>", self.source, re.DOTALL):
            element = ElementTree.fromstring(found)
            if element.get("aria-label") == described:
                return element
        raise AssertionError(f"no drawing of {described!r}")

    def titles(self, described: str) -> list[str]:
        """What the dots of a drawing say of themselves."""
        return [each.text or "" for each in self.drawing(described).iter("title")]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".shoal").mkdir()  # So that none further up is found.


@pytest.fixture
def report() -> Callable[[str], Page]:
    """Writes the report of a run, and reads it."""

    def of(run: str) -> Page:
        path = Path(write(run))
        assert (path.name, path.parent.name) == ("report.html", run)
        return Page(path.read_text(encoding="utf-8"))

    return of


@pytest.fixture
def make_run(tmp_path: Path) -> Iterator[Callable[..., RunStore]]:
    """Makes runs whose driver is this process, until the test ends or closes them."""
    numbers = itertools.count()
    opened: list[RunStore] = []

    def make(kind: str = "sweep", name: str = "some", **given: Any) -> RunStore:
        store = RunStore.create(
            str(tmp_path / ".shoal"),
            name=name,
            kind=kind,
            spec_text="",
            document={},
            token=lambda: f"{next(numbers):04x}",
            now=NOW,
            **given,
        )
        opened.append(store)
        return store

    yield make
    for store in opened:
        store.close()

"""The job `text`: the main content of pages as plain text, a row a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

from shoal.work.process.jobs.base import Job
from shoal.work.process.jobs.html_tokens import tags
from shoal.work.process.jobs.tags import HTML
from shoal.work.protocols import Unreadable
from shoal.work.records.record import Record

DEEPEST = 2000
"""How deep elements may be nested: the time of the parser grows with the square of it."""
_EMPTY = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "wbr")
)
_ENDED_BY_THE_NEXT = frozenset(
    ("p", "li", "dt", "dd", "option", "optgroup", "tr", "td", "th", "thead", "tbody", "tfoot", "rp", "rt")
)
_FOREIGN = frozenset(("svg", "math"))


class PageText(Job):
    """The main content of responses of type text/html or xhtml, in the order of the archive.

    | url | title | text | length |
    |---|---|---|---|
    | https://example.com/ | Example Domain | This domain is for use in ... | 127 |

    Menus, headers and footers are left out. `length` is that of the text, in characters.
    """

    key = ()
    values: ClassVar[Mapping[str, str]] = {"url": "text", "title": "text", "text": "text", "length": "int"}
    records = frozenset(("response",))
    formats = frozenset(("warc",))

    def map(self, record: Record) -> Sequence[tuple[str, str, str, int]]:
        if record.media_type not in HTML:
            return ()
        from resiliparse.extract.html2text import extract_plain_text
        from resiliparse.parse.html import HTMLTree

        source = record.text()
        if source.count("<") - source.count("</") > DEEPEST and (depth := _depth(source)) > DEEPEST:
            raise Unreadable(f"its elements are nested {depth:,} deep; at most {DEEPEST:,} are read")
        tree = HTMLTree.parse(source)
        text = extract_plain_text(tree, main_content=True)
        return ((record.url, " ".join((tree.title or "").split()), text, len(text)),)


def _depth(source: str) -> int:
    """How deep elements may be nested in it, about: an end tag ends the last element of its name only."""
    shallow = _EMPTY | _ENDED_BY_THE_NEXT
    opened: Counter[str] = Counter()
    deepest = depth = 0
    for name, is_end in tags(source):
        if name in _FOREIGN:
            shallow = _EMPTY  # There, nothing is ended by the next.
        if name in shallow:
            continue
        if not is_end:
            opened[name] += 1
            depth += 1
            deepest = max(deepest, depth)
        elif opened[name]:
            opened[name] -= 1
            depth -= 1
    return deepest

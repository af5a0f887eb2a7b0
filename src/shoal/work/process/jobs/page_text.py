"""The job `text`: the main content of pages as plain text, a row a page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from shoal.work.process.jobs.base import Job
from shoal.work.process.jobs.tags import HTML
from shoal.work.process.record import Record
from shoal.work.protocols import Unreadable

DEEPEST = 2000
"""How deep elements may be nested: the time of the parser grows with the square of it."""
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)")
_NEVER_DEEP = frozenset(
    (
        *(
            "area",
            "base",
            "br",
            "col",
            "embed",
            "hr",
            "img",
            "input",
            "link",
            "meta",
            "param",
            "source",
            "wbr",
        ),
        *(
            "p",
            "li",
            "dt",
            "dd",
            "option",
            "optgroup",
            "tr",
            "td",
            "th",
            "thead",
            "tbody",
            "tfoot",
            "rp",
            "rt",
        ),
    )
)
"""Elements that have no end, or that end where the next of their kind begins."""


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
        if source.count("<") > DEEPEST and (depth := _depth(source)) > DEEPEST:
            raise Unreadable(f"its elements are nested {depth:,} deep; at most {DEEPEST:,} are read")
        tree = HTMLTree.parse(source)
        text = extract_plain_text(tree, main_content=True)
        return ((record.url, " ".join((tree.title or "").split()), text, len(text)),)


def _depth(source: str) -> int:
    """How deep elements may be nested in it, at most."""
    deepest = depth = 0
    for end, name in _TAG.findall(source):
        if name.lower() in _NEVER_DEEP:
            continue
        depth = max(depth - 1, 0) if end else depth + 1
        deepest = max(deepest, depth)
    return deepest

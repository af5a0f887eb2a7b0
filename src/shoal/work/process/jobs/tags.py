"""The job `tags`: how often each HTML tag is in the sources of the pages of a crawl."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from shoal.work.process.jobs.base import KeyCount
from shoal.work.process.jobs.html_tokens import lower_case, start_tags
from shoal.work.records.record import Record

HTML = frozenset(("text/html", "application/xhtml+xml"))
"""Media types of pages."""


class Tags(KeyCount):
    """Counts start tags of responses of type text/html or xhtml, lower-cased, as the tokenizer of the WHATWG's
    standard sees them in the source (`html_tokens` says how): no implied ones, none in comments, scripts or styles.

    | tag | count |
    |---|---|
    | div | 40213 |
    | a | 25764 |
    """

    key = ("tag",)
    records = frozenset(("response",))
    formats = frozenset(("warc",))

    def map(self, record: Record) -> list[str]:
        return start_tags(record.text()) if record.media_type in HTML else []

    def gather(self, found: Sequence[Any]) -> Any:
        counts: Counter[str] = Counter()
        for name, number in super().gather(found).items():
            counts[lower_case(name)] += number
        return counts

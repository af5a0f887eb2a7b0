"""The job `links`: which hosts link to which, from the sources of pages or from the metadata of them (WAT)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from shoal.work.process.jobs.base import KeyCount
from shoal.work.process.jobs.html_tokens import tags_named
from shoal.work.process.jobs.tags import HTML
from shoal.work.records.filters import host_of
from shoal.work.records.record import Record

_LINKING = frozenset(("a", "area", "base"))
_HYPERLINK_PATHS = frozenset(("A@/href", "AREA@/href"))
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SPACE = " \t\n\f\r"


class Links(KeyCount):
    """Counts the hyperlinks (`href` of `a` and `area`) from host to host, those within a host as well.

    | source | target | count |
    |---|---|---|
    | blog.example | blog.example | 210 |
    | blog.example | en.wikipedia.org | 17 |

    Links are resolved against the page's URL, or its `base`; only those of http and https count.
    """

    key = ("source", "target")
    records = frozenset(("response", "metadata"))
    formats = frozenset(("warc", "wat"))

    def map(self, record: Record) -> list[tuple[str, str]]:
        source = host_of(record.url)
        if not source:
            return []
        if record.type == "metadata":
            base, links = _described(record)
        else:
            base, links = _written(record)
        home = _target(base, source) if base else source
        return [(source, target) for link in links if (target := _target(link, home))]


def _written(record: Record) -> tuple[str | None, list[str]]:
    """The base and the links of a page, from its source."""
    base, links = None, []
    for tag in tags_named(record.text(), _LINKING) if record.media_type in HTML else ():
        if tag.name != "base":
            links.append(tag.attribute("href"))
        elif base is None:
            base = tag.attribute("href")
    return base, [link for link in links if link is not None]


def _described(record: Record) -> tuple[str | None, Iterable[str]]:
    """The base and the links of a page, from what an archive of metadata says of it."""
    if "json" not in (record.headers.get("Content-Type") or "").lower():
        return None, ()
    found: Any = json.loads(record.body())
    for name in ("Envelope", "Payload-Metadata", "HTTP-Response-Metadata", "HTML-Metadata"):
        found = found.get(name) or {}
    head = found.get("Head") or {}
    return head.get("Base"), _hyperlinks(found.get("Links") or ())


def _hyperlinks(links: Iterable[Any]) -> Iterator[str]:
    for link in links:
        url = link.get("url")
        if link.get("path") in _HYPERLINK_PATHS and isinstance(url, str):
            yield url


def _target(link: str, home: str) -> str:
    """The host that a link on a page of this host leads to; empty where it leads to none."""
    link = link.strip(_SPACE)
    if link.startswith("//"):
        return host_of(f"http:{link}")
    scheme = _SCHEME.match(link)
    if scheme is None:
        return home
    return host_of(link) if scheme[0].lower() in ("http:", "https:") else ""

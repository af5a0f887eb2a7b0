"""Which records go to a job, by host, media type, status and language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate

from shoal.work.records.record import Record

_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#@]*@)?(\[[^\]/?#]*\]|[^:/?#]*)")


class Filter:
    """Conditions that a record has to meet, all of them. Safe to pickle."""

    def __init__(
        self,
        host: Sequence[str] = (),
        media_type: Sequence[str] = (),
        status: Sequence[int] = (),
        language: Sequence[str] = (),
    ) -> None:
        """Hosts and media types are patterns (`*.gr`, `text/*`); of several values, one has to fit."""
        self._host = _pattern(host)
        self._media_type = _pattern(media_type)
        self._status = frozenset(status)
        self._language = frozenset(each.lower() for each in language)

    def accepts(self, record: Record) -> bool:
        """Whether a job gets this record. What the archive does not say of it does not fit. May raise `Unreadable`."""
        if self._host is not None and self._host.match(host_of(record.url)) is None:
            return False
        if self._language and self._language.isdisjoint(_languages(record)):
            return False
        if self._status and record.status not in self._status:
            return False
        return self._media_type is None or self._media_type.match(record.media_type) is not None


def host_of(url: str) -> str:
    """The host that a URL names: lower case, without user, port and the dot at its end; empty where it names none."""
    match = _HOST.match(url)
    return match[1].lower().rstrip(".") if match is not None else ""


def _pattern(globs: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(translate(each.lower()) for each in globs)) if globs else None


def _languages(record: Record) -> Sequence[str]:
    """As Common Crawl writes them: codes of three letters, the main one first."""
    said = record.headers.get("WARC-Identified-Content-Language") or ""
    return [each.strip().lower() for each in said.split(",")]

"""The jobs that look at headers only: `servers`, `addresses` and `types`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar

from shoal.work.process.jobs.base import KeyCount, Pair
from shoal.work.records.filters import host_of
from shoal.work.records.record import Record


class Servers(KeyCount):
    """Counts the first `Server` header of each response, stripped. Responses without one do not count.

    | server | count |
    |---|---|
    | nginx | 311 |
    | Apache/2.4.41 (Ubuntu) | 87 |
    """

    key = ("server",)
    records = frozenset(("response",))
    formats = frozenset(("warc",))

    def map(self, record: Record) -> Sequence[str]:
        server = record.http.get("Server") if record.http is not None else None
        return (server,) if server else ()


class Types(KeyCount):
    """Counts the media types of responses: lower case, without parameters. Responses without one do not count.

    | type | count |
    |---|---|
    | text/html | 812 |
    | image/png | 94 |
    """

    key = ("type",)
    records = frozenset(("response",))
    formats = frozenset(("warc",))

    def map(self, record: Record) -> Sequence[str]:
        return (record.media_type,) if record.media_type else ()


class AddressHosts(KeyCount):
    """Counts responses by `WARC-IP-Address` and host: `addresses` with `hosts: true`.

    | address | host | count |
    |---|---|---|
    | 93.184.216.34 | example.com | 12 |
    | 93.184.216.34 | www.example.com | 3 |
    """

    key: ClassVar[Sequence[str]] = ("address", "host")
    records = frozenset(("response",))
    formats = frozenset(("warc",))

    def map(self, record: Record) -> Sequence[tuple[str, str]]:
        return [(address, host) for address, host in _address_and_host(record) if host]


class Addresses(AddressHosts):
    """Counts responses by `WARC-IP-Address`, and the distinct hosts seen under each.

    | address | count | hosts |
    |---|---|---|
    | 93.184.216.34 | 15 | 2 |

    Distinct hosts are no sum: so partials count pairs of address and host, and `finish` makes this of them. Records
    without a host (look-ups of names have URLs such as `dns:example.com`) count, and add none.
    """

    key = ("address",)
    values: ClassVar[Mapping[str, str]] = {"count": "int", "hosts": "int"}
    partial_key = ("address", "host")
    partial_values: ClassVar[Mapping[str, str]] = {"count": "int"}

    def map(self, record: Record) -> Sequence[tuple[str, str]]:
        return _address_and_host(record)

    def finish(self, pairs: Iterator[Pair]) -> Iterator[tuple[Any, ...]]:
        for address, group in groupby(pairs, lambda pair: pair[0][0]):
            counts = [(count, host) for (_, host), count in group]
            yield address, sum(count for count, _ in counts), sum(bool(host) for _, host in counts)


def _address_and_host(record: Record) -> Sequence[tuple[str, str]]:
    """Nothing where there is no address; the host may be empty."""
    address = (record.headers.get("WARC-IP-Address") or "").strip()
    return ((address, host_of(record.url)),) if address else ()

"""What jobs have to give, by other means: warcio reads, html5lib's tokenizer finds tags, dicts count."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from html5lib._tokenizer import HTMLTokenizer
from html5lib.constants import tokenTypes
from warcio.archiveiterator import ArchiveIterator

PAGES = ("text/html", "application/xhtml+xml")
STATES = {
    **dict.fromkeys(("title", "textarea"), "rcdataState"),
    **dict.fromkeys(("style", "xmp", "iframe", "noembed", "noframes"), "rawtextState"),
    "script": "scriptDataState",
    "plaintext": "plaintextState",
}
"""The state in which a parser puts the tokenizer after a start tag of HTML."""


def start_tags(source: str | bytes, charset: str | None = None) -> Iterator[tuple[str, dict[str, str]]]:
    """Names and attributes, as html5lib's tokenizer gives them without a tree."""
    if isinstance(source, bytes):
        tokenizer = HTMLTokenizer(io.BytesIO(source), transport_encoding=charset, useChardet=False)
    else:
        tokenizer = HTMLTokenizer(source)
    for token in tokenizer:
        if token["type"] in (tokenTypes["StartTag"], tokenTypes["EmptyTag"]):
            yield token["name"], dict(token["data"])
            if token["name"] in STATES:
                tokenizer.state = getattr(tokenizer, STATES[token["name"]])


def words(path: Path) -> Counter[str]:
    texts = (str(body, "utf-8", "replace") for _, body in contents(path, "conversion"))
    return Counter(word for text in texts for word in re.findall(r"\w+", text.lower()))


def tags(path: Path) -> Counter[str]:
    return Counter(name for record, body in pages(path) for name, _ in start_tags(body, charset(record)))


def servers(path: Path) -> Counter[str]:
    return Counter(server.strip() for each in heads(path) if (server := each.get_header("Server")))


def types(path: Path) -> Counter[str]:
    return Counter(kind for each in heads(path) if (kind := media_type(each)))


def address_hosts(path: Path) -> Counter[tuple[str, str]]:
    found = (
        (record.rec_headers.get_header("WARC-IP-Address"), host(record))
        for record, _ in contents(path, "response")
    )
    return Counter((address, name) for address, name in found if address)


def addresses(path: Path) -> dict[str, tuple[int, int]]:
    pairs = address_hosts(path)
    return {
        address: (
            sum(count for (each, _), count in pairs.items() if each == address),
            len({name for each, name in pairs if each == address and name}),
        )
        for address, _ in pairs
    }


def result(name: str, paths: Iterable[Path]) -> list[tuple[Any, ...]]:
    """The rows of a job's result over several files, in the order that a result has."""
    counter = PAIRS.get(name, REFERENCES.get(name))
    assert counter is not None
    counts: Counter[Any] = sum((counter(path) for path in paths), Counter())
    if name == "addresses":
        hosts = Counter(address for address, host in counts if host)
        sums: Counter[str] = Counter()
        for (address, _), count in counts.items():
            sums[address] += count
        return [(address, count, hosts[address]) for address, count in ordered(sums)]
    if name == "hosts":
        return [(*pair, count) for pair, count in ordered(counts) if pair[1]]
    return [(*key, count) if isinstance(key, tuple) else (key, count) for key, count in ordered(counts)]


def ordered(counts: Counter[Any]) -> list[tuple[Any, int]]:
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


def links(path: Path) -> Counter[tuple[str, str]]:
    described = ((record, *wat_links(body)) for record, body in contents(path, "metadata"))
    written = ((record, *html_links(body, charset(record))) for record, body in pages(path))
    return Counter(
        (host(record), target)
        for record, base, hrefs in (*described, *written)
        for href in hrefs
        if (target := host_linked(str(record.rec_headers.get_header("WARC-Target-URI")), base, href))
    )


def html_links(body: bytes, label: str | None) -> tuple[str, list[str]]:
    tags = list(start_tags(body, label))
    bases = [found["href"] for name, found in tags if name == "base" and "href" in found]
    return "".join(bases[:1]), [
        found["href"] for name, found in tags if name in ("a", "area") and "href" in found
    ]


def wat_links(body: bytes) -> tuple[str, list[str]]:
    if not body.startswith(b"{"):
        return "", []
    payload = json.loads(body)["Envelope"]["Payload-Metadata"]
    html = payload.get("HTTP-Response-Metadata", {}).get("HTML-Metadata", {})
    hrefs = [
        each["url"]
        for each in html.get("Links", [])
        if each.get("path") in ("A@/href", "AREA@/href") and "url" in each
    ]
    return html.get("Head", {}).get("Base", ""), hrefs


def host_linked(page: str, base: str, href: str) -> str:
    try:
        parts = urlsplit(urljoin(urljoin(page, base), href.strip()))
        return (parts.hostname or "").rstrip(".") if parts.scheme in ("http", "https") else ""
    except ValueError:
        return ""


def contents(path: Path, kind: str) -> Iterator[tuple[Any, bytes]]:
    """Records of a type, with what they hold after decoding."""
    with path.open("rb") as file:
        for record in ArchiveIterator(file):
            if record.rec_type == kind:
                yield record, record.content_stream().read()


def pages(path: Path) -> Iterator[tuple[Any, bytes]]:
    for record, body in contents(path, "response"):
        if record.http_headers is not None and media_type(record.http_headers) in PAGES:
            yield record, body


def heads(path: Path) -> Iterable[Any]:
    return (
        record.http_headers for record, _ in contents(path, "response") if record.http_headers is not None
    )


def media_type(headers: Any) -> str:
    return str(headers.get_header("Content-Type") or "").partition(";")[0].strip().lower()


def charset(record: Any) -> str | None:
    found = re.search(
        r"charset=[\"']?([^\s;\"']+)", record.http_headers.get_header("Content-Type") or "", re.I
    )
    return found[1] if found else None


def host(record: Any) -> str:
    return urlsplit(record.rec_headers.get_header("WARC-Target-URI")).hostname or ""


REFERENCES: dict[str, Callable[[Path], Any]] = {
    "words": words,
    "tags": tags,
    "servers": servers,
    "addresses": addresses,
    "links": links,
    "types": types,
}
PAIRS = {"addresses": address_hosts, "hosts": address_hosts}
"""Jobs of which the results of files cannot be summed."""

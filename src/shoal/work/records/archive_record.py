"""A record of a web archive, over the one that FastWARC gives. Where it comes from is in `archive_reader`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from shoal.work.protocols import Unreadable
from shoal.work.records.http_body import decoded
from shoal.work.records.record import LARGEST_BYTES, Headers

TYPES = {
    "warcinfo": 2,
    "response": 4,
    "resource": 8,
    "request": 16,
    "metadata": 32,
    "revisit": 64,
    "conversion": 128,
    "continuation": 256,
    "unknown": 32768,
}
"""Types of records, as the bits by which FastWARC knows them."""
_NAMES = {bit: name for name, bit in TYPES.items()}
_REQUEST, _CONVERSION = TYPES["request"], TYPES["conversion"]
LONGEST_HEADERS = 1024 * 1024
_NO_ROW: Mapping[str, Any] = {}


class HttpHeaders:
    """See `Headers`: text is UTF-8, or else Latin-1."""

    __slots__ = ("_headers",)

    def __init__(self, headers: Any) -> None:
        self._headers = headers

    def get(self, name: str, default: str | None = None) -> str | None:
        value = self._headers.get_bytes(name.encode())
        if value is None:
            return default
        try:
            return str(value, "utf-8").strip()
        except UnicodeDecodeError:
            return str(value, "latin-1").strip()


class Source(Protocol):
    """The bytes of a range, and what is put after them."""

    @property
    def end(self) -> int | None:
        """Where the range ends, once the library has all bytes of it, and may have taken more for a part of it."""


class Way(Protocol):
    """The library's way through a file, as far as a record has to know whether its body is its own."""

    @property
    def frame(self) -> Callable[[], int] | None:
        """Where the gzip member or frame begins that the library is in. None where it may have left it already."""

    @property
    def source(self) -> Source:
        """What the library reads."""

    def reason(self, error: BaseException) -> str:
        """What the library says is wrong with the archive. Raises every error that is not of the archive."""

    def breaks_off(self, offset: int) -> bool:
        """Whether it did so for the record here, which was read to its end."""

    def runs_into_another(self, offset: int) -> bool:
        """Whether the record here, which is in more than one frame, has taken another record for a part of it."""


class ArchiveRecord:
    """See `Record`. A reader has one, and sets `raw` and `offset` anew for every record, as making one costs more.

    What was found out of a record is kept with the `raw` that it was found in.
    """

    __slots__ = (
        "_bad_in",
        "_body",
        "_body_in",
        "_frame",
        "_http",
        "_http_in",
        "_source",
        "_way",
        "offset",
        "raw",
    )

    def __init__(self, way: Way) -> None:
        self._way, self._source, self._frame = way, way.source, way.frame
        self.raw: Any = None
        self.offset = 0
        self._bad_in = self._body_in = self._http_in = self
        self._http: HttpHeaders | None = None
        self._body = b""

    @property
    def is_bad(self) -> bool:
        """Whether somebody was told that it cannot be used."""
        return self._bad_in is self.raw

    @property
    def type(self) -> str:
        return _NAMES.get(int(self.raw.record_type), "unknown")

    @property
    def url(self) -> str:
        url: str = self.raw.headers.get("WARC-Target-URI", "")
        return url[1:-1] if url.startswith("<") and url.endswith(">") else url

    @property
    def headers(self) -> Headers:
        headers: Headers = self.raw.headers
        return headers

    @property
    def http(self) -> HttpHeaders | None:
        raw = self.raw
        if self._http_in is not raw:
            self._http_in, self._http = raw, None
            if raw.is_http and int(raw.record_type) != _REQUEST:
                self._http = self._parsed(raw)
        return self._http

    @property
    def status(self) -> int | None:
        return self.raw.http_headers.status_code if self.http is not None else None

    @property
    def media_type(self) -> str:
        return _parts(self.http)[0]

    @property
    def row(self) -> Mapping[str, Any]:
        return _NO_ROW

    def body(self) -> bytes:
        raw = self.raw
        if self._body_in is not raw:
            http = self.http if raw.is_http else None  # Before the payload: its headers come first.
            promised = raw.content_length
            if promised > LARGEST_BYTES:
                raise self._bad(f"it has {promised:,} bytes; at most {LARGEST_BYTES:,} are read")
            try:
                data: bytes = raw.reader.read()
            except BaseException as error:  # noqa: BLE001 - raised again, if it is not of the library
                raise self._bad(f"it cannot be read: {self._way.reason(error)}") from None
            if (
                len(data) < promised
                or not promised
                or (self._frame is not None and self._frame() != self.offset)
                or self._source.end is not None
            ):
                self._check_length(len(data), promised)
            if http is not None:
                data = decoded(data, http.get("Transfer-Encoding"), http.get("Content-Encoding"))
            self._body_in, self._body = raw, data
        return self._body

    def text(self) -> str:
        data = self.body()
        if int(self.raw.record_type) == _CONVERSION:
            return str(data, "utf-8", "replace")
        from resiliparse.parse.encoding import bytes_to_str, detect_encoding, map_encoding_to_html5

        charset = _parts(self.http)[1]
        encoding = map_encoding_to_html5(charset, fallback_utf8=False) if charset else None
        if encoding is None:
            encoding = detect_encoding(data, from_html_meta=True)
        text: str = bytes_to_str(data, encoding, errors="replace", fallback_encodings=())
        return text

    def _parsed(self, raw: Any) -> HttpHeaders | None:
        try:
            raw.parse_http(quirks_mode=True, max_header_len=LONGEST_HEADERS)
        except BaseException as error:  # noqa: BLE001 - raised again, if it is not of the library
            raise self._bad(f"its HTTP headers cannot be read: {self._way.reason(error)}") from None
        return HttpHeaders(raw.http_headers)

    def _check_length(self, length: int, promised: int) -> None:
        """Raise for a record that does not end where it says."""
        if length < promised:
            raise self._bad(f"it breaks off after {length:,} of {promised:,} bytes")
        if self._way.breaks_off(self.offset):
            raise self._bad(f"it breaks off before its {promised:,} bytes are complete")
        if self._frame is not None and self._frame() != self.offset:
            if self._way.runs_into_another(self.offset):
                raise self._bad(f"it says that it has {promised:,} bytes, and has fewer")
            self._frame = None  # Whoever compressed this file did not care where records begin.
        if not promised and self.raw.headers.get("Content-Length") is None:
            raise self._bad("it does not say how long it is")

    def _bad(self, reason: str) -> Unreadable:
        self._bad_in = self.raw
        return Unreadable(reason)


def _parts(http: HttpHeaders | None) -> tuple[str, str]:
    """Media type and charset of a response; empty where they are not said."""
    if http is None:
        return "", ""
    kind, *parameters = (http.get("Content-Type") or "").split(";")
    for each in parameters:
        name, _, value = each.partition("=")
        if name.strip().lower() == "charset":
            return kind.strip().lower(), value.strip().strip("\"'")
    return kind.strip().lower(), ""

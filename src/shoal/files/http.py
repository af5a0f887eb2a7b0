"""Files behind `http://` and `https://`, to be read and not written, with the standard library's client.

A web server has no listing: who reads from one knows the names.
"""

from __future__ import annotations

import io
import re
import ssl
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from shutil import copyfileobj
from typing import BinaryIO, NamedTuple, NoReturn, cast
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from shoal.errors import AccessDenied, FileError, NotFound, SpecError, Unreachable
from shoal.files.base import PIECE_BYTES, Entry, Patience, checked_key, checked_prefix, joined
from shoal.files.local import receiving
from shoal.files.remote import open_pieces, retried
from shoal.files.web_manners import admitted, asked_wait_s, user_agent

_IN_MEMORY_BYTES = 32 * 1024 * 1024
_HANDLERS = (
    ProxyHandler,
    HTTPHandler,
    HTTPSHandler,
    HTTPDefaultErrorHandler,
    HTTPRedirectHandler,
    HTTPErrorProcessor,
)
"""Not those for `file:` and `ftp:`, so that no redirect leads there."""
_NO_HEADERS: Mapping[str, str] = {}
_TOTAL = re.compile(r"bytes (?:\d+-\d+|\*)/(\d{1,18})")
_SIZE = re.compile(r"[0-9]{1,18}")
WHOLE_S = 3600.0
"""For all of an answer. One that stalls ends by `Patience.answer_s`; this only ends what trickles for ever."""


def opened(scheme: str, host: str, path: str, _endpoint: str | None, patience: Patience) -> HttpStorage:
    """The storage for a URL; what stands after a `?` in it goes with every request."""
    path, _, query = path.partition("?")
    checked_prefix(path)
    return HttpStorage(f"{scheme}://{host}", path.strip("/"), query, patience)


class _PastTheEnd(Exception):  # noqa: N818 - no error, only an answer
    """The file ends before the bytes that were asked for."""


class HttpStorage(NamedTuple):
    """See `Storage`. Only what reads works; the rest says so."""

    server: str
    path: str
    query: str
    patience: Patience

    @property
    def url(self) -> str:
        return joined(self.server, self.path)

    def list(self, prefix: str = "", pattern: str | None = None, *, hidden: bool = False) -> Iterator[Entry]:
        raise SpecError(
            f"{self.url} cannot be listed: a web server does not say what it has.", hint="Name each file."
        )

    def stat(self, key: str) -> Entry:
        def attempt() -> Entry:
            with self._full_answer(key, method="HEAD") as answer:
                return _entry(key, answer, _promised(answer) or 0)

        return retried(attempt, self.patience)

    def exists(self, key: str) -> bool:
        try:
            self.stat(key)
        except NotFound:
            return False
        return True

    def read(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        if length == 0:
            return b""
        if not start and length is None:
            return retried(lambda: self._whole(key), self.patience)
        return retried(lambda: self._range(key, start, length), self.patience)

    def open(self, key: str) -> BinaryIO:
        def attempt() -> BinaryIO:
            with self._answer(key, "bytes=0-0") as answer:
                if answer is None:
                    return io.BytesIO()
                total = _TOTAL.match(answer.headers.get("Content-Range") or "")
                if answer.status == 206 and total is not None:
                    return open_pieces(
                        lambda start, length: self.read(key, start=start, length=length), int(total[1])
                    )
                return _kept(answer)  # It knows no ranges, and is sending all of it.

        return retried(attempt, self.patience)

    def download(self, key: str, path: str | Path) -> None:
        with self.open(key) as source, receiving(path) as target:
            copyfileobj(source, target, PIECE_BYTES)

    def write(self, key: str, data: bytes | Path) -> None:
        self._refuse(key)

    def write_new(self, key: str, data: bytes) -> bool:
        self._refuse(key)

    def move(self, key: str, to: str) -> None:
        self._refuse(key)

    def ensure_claims_hold(self) -> None:
        """There are none: nothing can be written."""

    def delete(self, key: str) -> None:
        self._refuse(key)

    def _refuse(self, key: str) -> NoReturn:
        raise SpecError(f"{self.url}/{key} cannot be written.", hint="Write to a folder, s3:// or hdfs://.")

    def _whole(self, key: str) -> bytes:
        with self._full_answer(key) as answer:
            return b"".join(_pieces(answer))

    def _range(self, key: str, start: int, length: int | None) -> bytes:
        last = "" if length is None else str(start + length - 1)
        with self._answer(key, f"bytes={start}-{last}") as answer:
            if answer is None:
                return b""
            data = b"".join(_pieces(answer))
        if answer.status == 206:
            return data
        return data[start:] if length is None else data[start : start + length]

    @contextmanager
    def _answer(self, key: str, range_: str) -> Iterator[HTTPResponse | None]:
        """The answer to a request for a range of bytes; None where the file ends before it begins."""
        try:
            with self._full_answer(key, headers={"Range": range_}) as answer:
                yield answer
        except _PastTheEnd:
            yield None

    @contextmanager
    def _full_answer(
        self, key: str, *, method: str = "GET", headers: Mapping[str, str] = _NO_HEADERS
    ) -> Iterator[HTTPResponse]:
        """Errors on the way as errors of Shoal: the one place for it here."""
        url = joined(self.url, quote(checked_key(key)))
        headers = {"User-Agent": user_agent(), "Accept-Encoding": "identity", **headers}
        request = Request(f"{url}?{self.query}" if self.query else url, headers=headers, method=method)
        try:
            with (
                admitted(self.server),
                cast(HTTPResponse, _opener().open(request, timeout=self.patience.answer_s)) as answer,
            ):
                yield answer
        except HTTPError as error:
            error.close()
            self._wait_as_asked(error, url)
            raise _refused(error.code, error.reason, url) from error
        except (OSError, HTTPException) as error:
            raise _lost(error, url) from error

    def _wait_as_asked(self, error: HTTPError, url: str) -> None:
        """Wait as long as the server says, before somebody tries again; not longer than there is patience for."""
        wait_s = asked_wait_s(error.headers, time.time())
        if wait_s > self.patience.retry_for_s:
            raise Unreachable(
                f"{url} cannot be read: the server says {error.code} {error.reason}, and to wait for {wait_s:.0f} s.",
                hint="Try again later.",
                tries=self.patience.tries,
            ) from error
        time.sleep(wait_s)


def _opener() -> OpenerDirector:
    opener = OpenerDirector()
    for handler in _HANDLERS:
        opener.add_handler(handler())
    return opener


def _refused(status: int, reason: str, url: str) -> Exception:
    if status == 416:
        return _PastTheEnd()
    if status in (404, 410):
        return NotFound(f"There is no file {url}.")
    if status in (401, 403):
        return AccessDenied(
            f"{url} may not be used: {status} {reason}.", hint="Only public files can be read so."
        )
    if status >= 500 or status in (408, 425, 429):
        return Unreachable(
            f"{url} cannot be read: the server says {status} {reason}.", hint="Try again later."
        )
    return FileError(f"{url} cannot be read: the server says {status} {reason}.")


def _lost(error: OSError | HTTPException, url: str) -> Exception:
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        said = reason.verify_message
        return AccessDenied(
            f"{url} cannot be trusted: {said}.", hint="SSL_CERT_FILE names certificates to trust."
        )
    said = str(reason) or type(reason).__name__
    return Unreachable(
        f"{url} cannot be read: {said}.", hint="Look whether the address is right and the server is up."
    )


def _kept(answer: HTTPResponse) -> BinaryIO:
    """All of an answer, on disk when it is large."""
    file = cast(BinaryIO, tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES))  # noqa: SIM115 - the caller closes it
    try:
        file.writelines(_pieces(answer))
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file


def _pieces(answer: HTTPResponse) -> Iterator[bytes]:
    """All of an answer, as it comes. Raises where it breaks off, or goes on for ever."""
    promised, came, until = _promised(answer), 0, time.monotonic() + WHOLE_S
    while piece := answer.read1(PIECE_BYTES):
        came += len(piece)
        yield piece
        if time.monotonic() > until:
            raise TimeoutError(f"{came} bytes came within {WHOLE_S:g} s, and no end")
    if promised is not None and came != promised:
        raise HTTPException(f"{promised} bytes were promised, and {came} came")


def _promised(answer: HTTPResponse) -> int | None:
    """How many bytes the server says that it sends; None where it does not say."""
    text = answer.headers.get("Content-Length")
    if text is not None and _SIZE.fullmatch(text) is None:
        raise FileError(f"{answer.url} cannot be read: the server says that it has {text[:40]!r} bytes.")
    return None if text is None else int(text)


def _entry(key: str, answer: HTTPResponse, size_bytes: int) -> Entry:
    date = answer.headers.get("Last-Modified")
    try:
        modified_s = parsedate_to_datetime(date).timestamp() if date else None
    except ValueError:
        modified_s = None
    return Entry(key, size_bytes, modified_s, answer.headers.get("ETag"))

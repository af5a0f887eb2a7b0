"""A bucket of an S3 server, or a folder in one, as a storage, through obstore, which also does the retrying."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from shoal.errors import AccessDenied, FileError, NotFound, SpecError, Unreachable
from shoal.files.base import PIECE_BYTES, Entry, Patience, checked_key, checked_prefix, joined
from shoal.files.credentials import boto_provider, s3_settings
from shoal.files.local import receiving, told
from shoal.files.patterns import Pattern
from shoal.files.remote import check_process, open_pieces, retried, unreachable

T = TypeVar("T")
_MOST_PARTS = 9000  # of 10,000 that S3 allows in one upload
_WHOLE_REQUEST_S = 3600
"""A stalled request ends by `answer_s`; this one only ends what trickles for ever."""
_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"status code: (\d{3})")
_RETRIES = re.compile(r"after (\d+) retries")
_UNREACHABLE = "Look whether the endpoint is right and the server is up; trying again later may help."
_HOLDING: set[tuple[str, str]] = set()
"""Servers and buckets that were seen to keep to conditions on writes."""
_DENIED = {
    "InvalidAccessKeyId": "the server does not know the access key",
    "SignatureDoesNotMatch": "the secret key does not fit the access key",
    "ExpiredToken": "the credentials have expired",
    "RequestTimeTooSkewed": "the clock of this machine is wrong",
}


def opened(_scheme: str, bucket: str, path: str, endpoint: str | None, patience: Patience) -> S3Storage:
    """The storage for `s3://BUCKET/PATH`."""
    try:
        import obstore  # noqa: F401 - to say early that it is missing
    except ImportError:
        raise SpecError("s3:// needs the package obstore.", hint="pip install 'shoal[s3]'") from None
    return S3Storage(bucket, checked_prefix(path), endpoint, patience)


class S3Storage:
    """See `Storage`. Credentials are looked up when it is first used."""

    def __init__(self, bucket: str, prefix: str, endpoint: str | None, patience: Patience) -> None:
        self._arguments = (bucket, prefix, endpoint, patience)
        self._bucket, self._prefix, self._endpoint, self._patience = self._arguments
        self._lock = threading.Lock()
        self._clients: dict[bool, Any] = {}
        self._address = endpoint or "s3"

    def __reduce__(self) -> tuple[Any, ...]:
        return (S3Storage, self._arguments)

    @property
    def url(self) -> str:
        return f"s3://{joined(self._bucket, self._prefix)}"

    def list(self, prefix: str = "", pattern: str | None = None, *, hidden: bool = False) -> Iterator[Entry]:
        prefix = checked_prefix(prefix)
        wanted = Pattern(pattern, hidden=hidden)
        root, below = self._prefix, joined(self._prefix, prefix)
        with self._told(prefix):
            for each in self._objects(below):
                rest = each["path"][len(below) + 1 if below else 0 :]
                if rest and wanted.matches(rest):
                    yield _entry(each, each["path"][len(root) + 1 if root else 0 :])

    def stat(self, key: str) -> Entry:
        with self._told(key):
            return _entry(self._client().head(self._path(key)), key)

    def exists(self, key: str) -> bool:
        try:
            self.stat(key)
        except NotFound:
            return False
        return True

    def read(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        if length == 0:
            return b""
        return self._get(key, start, length, None)

    def open(self, key: str) -> BinaryIO:
        found = self.stat(key)
        return open_pieces(lambda start, length: self._get(key, start, length, found.etag), found.size_bytes)

    def download(self, key: str, path: str | Path) -> None:
        with receiving(path) as file, self._told(key):
            for piece in self._client().get(self._path(key)).stream(PIECE_BYTES):
                file.write(piece)

    def write(self, key: str, data: bytes | Path) -> None:
        path = self._path(key)
        with told(str(data) if isinstance(data, Path) else path), self._told(key):
            size_bytes = data.stat().st_size if isinstance(data, Path) else len(data)
            part_bytes = max(PIECE_BYTES, size_bytes // _MOST_PARTS + 1)
            put = partial(self._client().put, path, data, chunk_size=part_bytes, max_concurrency=4)
            self._whole(joined(self.url, key), put)

    def write_new(self, key: str, data: bytes) -> bool:
        """Retried here and not by the library, which could not tell our own earlier try from somebody else's."""
        from obstore.exceptions import AlreadyExistsError

        path = self._path(key)
        was_lost = False

        def attempt() -> bool:
            nonlocal was_lost
            try:
                with self._told(key):
                    try:
                        self._client(retries=False).put(path, data, mode="create", use_multipart=False)
                    except AlreadyExistsError:
                        return was_lost and self.read(key) == data
                    return True
            except Unreachable:
                was_lost = True
                raise

        return retried(attempt, self._patience)

    def move(self, key: str, to: str) -> None:
        """Retried here, as deleting is. Copying once more does no harm."""
        path, target = self._path(key), self._path(to)

        def attempt() -> None:
            with self._told(key):
                self._client(retries=False).copy(path, target)

        retried(attempt, self._patience)
        self.delete(key)

    def ensure_claims_hold(self) -> None:
        """Some servers take conditional writes and ignore the condition: then two writers would both have a claim."""
        self._client()
        if (self._address, self._bucket) in _HOLDING:
            return
        key = f".shoal-probe-{os.urandom(8).hex()}"
        try:
            holds = self.write_new(key, b"first") and not self.write_new(key, b"second")
        finally:
            with suppress(FileError):
                self.delete(key)
        if not holds:
            raise SpecError(
                f"{self._address} ignores conditions on writes (If-None-Match: *), so nothing in {self.url} is safe "
                "from a second writer.",
                hint="Use a server that keeps them (Amazon S3, MinIO, SeaweedFS), a folder that all can reach, or hdfs://.",
            )
        _HOLDING.add((self._address, self._bucket))

    def delete(self, key: str) -> None:
        """Retried here: the library takes a connection that breaks for a delete that may have been done."""
        path = self._path(key)

        def attempt() -> None:
            with self._told(key), suppress(FileNotFoundError):
                self._client(retries=False).delete(path)

        retried(attempt, self._patience)

    def _whole(self, what: str, action: Callable[[], T]) -> T:
        """What the action gives. The library tries requests again, but not where an answer broke off: this does."""
        from obstore.exceptions import BaseError

        def attempt() -> T:
            try:
                return action()
            except BaseError as error:
                if "body error" not in str(error):
                    raise
                raise self._translated(error, what) from error

        return retried(attempt, self._patience)

    def _objects(self, below: str) -> Iterator[Any]:
        """What is there, without what consoles and Hadoop leave for a folder: `NAME/`, with no bytes.

        The library tells such a name without its slash. What has no bytes is a folder when the next name is below it,
        and otherwise when there is nothing by that name.
        """
        empty: Any = None
        for each in chain.from_iterable(self._pages(below)):
            is_folder = empty is None or each["path"].startswith(f"{empty['path']}/")
            if not is_folder and self._is_there(empty):
                yield empty
            empty = None if each["size"] else each
            if empty is None:
                yield each
        if empty is not None and self._is_there(empty):
            yield empty

    def _pages(self, below: str) -> Iterator[Sequence[Any]]:
        """A listing, in pieces. The library tries again what is refused, but not an answer that breaks off."""
        from obstore.exceptions import BaseError

        reached = _Reached()
        pages: Any = None

        def attempt() -> Sequence[Any] | None:
            nonlocal pages
            with self._told(""):
                try:
                    if pages is None:
                        pages = iter(self._client().list(below or None, offset=reached.key, chunk_size=1000))
                    return next(pages, None)
                except BaseError:
                    pages = None
                    raise

        while True:
            page = retried(attempt, self._patience) if reached.can_go_on else attempt()
            if page is None:
                return
            yield reached.new_in(page)

    def _is_there(self, found: Any) -> bool:
        try:
            with self._told(found["path"]):
                self._client().head(found["path"])
        except NotFound:
            return False
        except AccessDenied:  # Who may list may not look at it: then it is taken for what it seems.
            return True
        return True

    def _get(self, key: str, start: int, length: int | None, etag: str | None) -> bytes:
        options: dict[str, Any] = {}
        if start or length is not None:
            options["range"] = {"offset": start} if length is None else (start, start + length)
        if etag is not None:
            options["if_match"] = etag
        with self._told(key):
            try:
                client, path = self._client(), self._path(key)
                return self._whole(
                    joined(self.url, key), lambda: bytes(client.get(path, options=options).bytes())
                )
            except Exception as error:
                if _status(str(error)) == 416:  # It ends before `start`.
                    return b""
                raise

    def _path(self, key: str) -> str:
        return joined(self._prefix, checked_key(key))

    def _client(self, *, retries: bool = True) -> Any:
        check_process("obstore")
        with self._lock:
            if retries not in self._clients:
                self._clients[retries] = self._new_client(retries)
            return self._clients[retries]

    def _new_client(self, retries: bool) -> Any:
        from obstore.store import S3Store

        patience = self._patience
        settings = s3_settings(self._endpoint, os.environ)
        self._address = settings.endpoint or "Amazon S3"
        return S3Store(
            self._bucket,
            config={**settings.config, "disable_bulk_delete": "true"},
            client_options={
                "allow_http": (settings.endpoint or "").startswith("http://"),
                "connect_timeout": timedelta(seconds=patience.connect_s),
                "read_timeout": timedelta(seconds=patience.answer_s),
                "timeout": timedelta(seconds=_WHOLE_REQUEST_S),
            },
            retry_config={
                "max_retries": patience.tries - 1 if retries else 0,
                "retry_timeout": timedelta(seconds=patience.retry_for_s),
                "backoff": {
                    "init_backoff": timedelta(seconds=patience.first_wait_s),
                    "max_backoff": timedelta(seconds=patience.longest_wait_s),
                    "base": 2,
                },
            },
            credential_provider=boto_provider(settings.profile_for_boto)
            if settings.profile_for_boto
            else None,
        )

    @contextmanager
    def _told(self, key: str) -> Iterator[None]:
        """Errors of the library as errors of Shoal: the one place for it here."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError, PermissionError, ValueError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # Of a local file, not of the server.
            raise self._translated(error, joined(self.url, key)) from error

    def _translated(self, error: Exception, what: str) -> Exception:
        text = str(error)
        code = (_CODE.search(text) or ["", ""])[1]
        status = _status(text)
        kind = type(error).__name__
        if code == "NoSuchBucket":
            return NotFound(f"There is no bucket {self._bucket!r} at {self._address}.", hint="Make it first.")
        if isinstance(error, FileNotFoundError) or status == 404:
            return NotFound(f"There is no file {what}.")
        if kind in ("PermissionDeniedError", "UnauthenticatedError") or status in (401, 403):
            why = _DENIED.get(code, "the server does not allow it")
            hint = f"The server is {self._address}."
            return AccessDenied(f"{what} may not be used: {why}.", hint=hint, is_general=code in _DENIED)
        if "169.254.169.254" in text or "credential" in text.lower():
            return AccessDenied(
                f"There are no credentials for {what}.",
                hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.",
                is_general=True,
            )
        if kind == "PreconditionError":
            return FileError(f"{what} was changed while it was read.", hint="Read it again.")
        if "redirect" in text or status in (301, 307):
            return SpecError(
                f"The bucket {self._bucket!r} is in another region.", hint="Set AWS_REGION to it."
            )
        if status >= 500 or status in (408, 409, 429) or "HTTP error" in text or "timed out" in text:
            tries = int((_RETRIES.search(text) or ["", "0"])[1]) + 1
            said = f"it said {status} {code}".strip() if status else "no answer in time, or no connection"
            return unreachable(f"{self._address} cannot be used for {what}: {said}.", tries, _UNREACHABLE)
        return FileError(f"{what} cannot be used: {text.partition(chr(10))[0]}")


class _Reached:
    """How far a listing has come, to go on from there: names come in order, or (SeaweedFS) folder by folder in order.

    Where they come in neither, a listing that broke off cannot be gone on with: something might be left out.
    """

    def __init__(self) -> None:
        self.key: str | None = None
        self._in_order = self._by_folder = True
        self._empty: set[str] = set()
        """Names without bytes since then. They may have lost a slash, so their place in the order is not known."""

    @property
    def can_go_on(self) -> bool:
        return self._in_order or self._by_folder

    def new_in(self, page: Sequence[Any]) -> list[Any]:
        """What of this page was not there before."""
        new = []
        for each in page:
            path = each["path"]
            if each["size"]:
                self._look_at_order(path)
                self.key = path
                self._empty.clear()
            elif path in self._empty:
                continue
            else:
                self._empty.add(path)
            new.append(each)
        return new

    def _look_at_order(self, path: str) -> None:
        if self.key is not None:
            self._in_order = self._in_order and path > self.key
            self._by_folder = self._by_folder and path.split("/") > self.key.split("/")


def _status(text: str) -> int:
    match = _STATUS.search(text)
    return int(match[1]) if match else 0


def _entry(found: Any, key: str) -> Entry:
    return Entry(key, found["size"], found["last_modified"].timestamp(), found["e_tag"])

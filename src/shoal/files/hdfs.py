"""A folder of an HDFS as a storage, through hdfs-native, which speaks to the servers without Java.

The client waits for ever on a server that accepts and says nothing, so every call here runs beside us, with a limit.
"""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from shutil import copyfileobj
from typing import Any, BinaryIO, TypeVar

from shoal.errors import AccessDenied, FileError, NotFound, SpecError, Unreachable
from shoal.files.base import PIECE_BYTES, Entry, Patience, checked_key, checked_prefix, joined
from shoal.files.disk import name_aside
from shoal.files.local import receiving, told
from shoal.files.patterns import Child, walk
from shoal.files.remote import check_process, open_pieces, retried

T = TypeVar("T")
_PAGE = 1000
_HINT = "Look whether host and port are those of the NameNode, and whether it and its DataNodes are up."


def opened(_scheme: str, host: str, path: str, _endpoint: str | None, patience: Patience) -> HdfsStorage:
    """The storage for `hdfs://HOST:PORT/PATH`; without a host, the default of the Hadoop configuration."""
    try:
        import hdfs_native  # noqa: F401 - to say early that it is missing
    except ImportError:
        raise SpecError("hdfs:// needs the package hdfs-native.", hint="pip install 'shoal[hdfs]'") from None
    return HdfsStorage(host, checked_prefix(path), patience)


class HdfsStorage:
    """See `Storage`. Who we are comes from HADOOP_USER_NAME or Kerberos, settings from HADOOP_CONF_DIR."""

    def __init__(self, host: str, prefix: str, patience: Patience) -> None:
        self._arguments = (host, prefix, patience)
        self._host, self._prefix, self._patience = self._arguments
        self._lock = threading.Lock()
        self._made: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return (HdfsStorage, self._arguments)

    @property
    def url(self) -> str:
        return f"hdfs://{self._host}/{self._prefix}".rstrip("/")

    def list(self, prefix: str = "", pattern: str | None = None, *, hidden: bool = False) -> Iterator[Entry]:
        return walk(self._children, prefix, pattern, hidden=hidden)

    def stat(self, key: str) -> Entry:
        path = self._path(key)
        found = self._done(key, lambda: self._client().get_file_info(path))
        if found.isdir:
            raise NotFound(f"{self.url}/{key} is a folder, not a file.")
        return _entry(found)._replace(key=key)

    def exists(self, key: str) -> bool:
        try:
            self.stat(key)
        except NotFound:
            return False
        return True

    def read(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        with self.open(key) as file:
            file.seek(start)
            return file.read(-1 if length is None else length)

    def open(self, key: str) -> BinaryIO:
        path = self._path(key)
        reader = self._done(key, lambda: self._client().read(path))

        def fetch(start: int, length: int) -> bytes:
            return bytes(self._done(key, lambda: reader.read_range(start, length)))

        return open_pieces(fetch, len(reader))

    def download(self, key: str, path: str | Path) -> None:
        with self.open(key) as source, receiving(path) as target:
            copyfileobj(source, target, PIECE_BYTES)

    def write(self, key: str, data: bytes | Path) -> None:
        path = self._path(key)

        def attempt() -> None:
            with self._aside(key, data) as aside:
                self._once(key, lambda: self._client().rename(aside, path, True))

        with told(str(data) if isinstance(data, Path) else path):
            retried(attempt, self._patience)

    def write_new(self, key: str, data: bytes) -> bool:
        path = self._path(key)
        was_lost = False

        def attempt() -> bool:
            nonlocal was_lost
            with self._aside(key, data) as aside:
                try:
                    self._once(key, lambda: self._client().rename(aside, path, False))
                except FileExistsError:
                    return was_lost and self.read(key) == data
                except Unreachable:
                    was_lost = True
                    raise
            return True

        return False if self.exists(key) else retried(attempt, self._patience)

    def move(self, key: str, to: str) -> None:
        path, target = self._path(key), self._path(to)
        was_lost = False

        def attempt() -> None:
            nonlocal was_lost
            try:
                self._once(to, lambda: self._client().mkdirs(posixpath.dirname(target), create_parent=True))
                self._once(key, lambda: self._client().rename(path, target, True))
            except NotFound:
                if not (was_lost and self.exists(to)):
                    raise
            except Unreachable:
                was_lost = True
                raise

        retried(attempt, self._patience)

    def ensure_claims_hold(self) -> None:
        """They do: the name node keeps names apart."""

    def delete(self, key: str) -> None:
        path = self._path(key)
        with suppress(NotFound):
            self._done(key, lambda: self._client().delete(path, False))

    def _children(self, folder: str) -> Iterator[Child]:
        path = posixpath.join("/", self._prefix, folder)

        def first() -> tuple[Any, Any]:
            found = iter(self._client().list_status(path))
            return found, [*islice(found, _PAGE)]

        try:
            found, page = self._done(folder, first)
        except NotFound:
            return
        while page:
            for each in page:
                if each.path != path:  # A file gives itself.
                    yield Child(posixpath.basename(each.path), None if each.isdir else _entry(each))
            page = self._once(folder, lambda: [*islice(found, _PAGE)])

    @contextmanager
    def _aside(self, key: str, data: bytes | Path) -> Iterator[str]:
        """A complete file beside the one meant, gone afterwards unless it was renamed."""
        from hdfs_native import WriteOptions

        folder, name = posixpath.split(self._path(key))
        aside = posixpath.join(folder, name_aside(name))
        options = WriteOptions(overwrite=True, create_parent=True)
        file = self._once(key, lambda: self._client().create(aside, options))
        try:
            for piece in _pieces(data):
                self._once(key, lambda piece=piece: file.write(piece))  # type: ignore[misc]
            self._once(key, file.close)
            yield aside
        finally:
            with suppress(FileError, NotFound):
                self._once(key, lambda: self._client().delete(aside, False))

    def _path(self, key: str) -> str:
        return posixpath.join("/", self._prefix, checked_key(key))

    def _client(self) -> Any:
        check_process("hdfs-native")
        with self._lock:
            if self._made is None:
                self._made = self._new_client()
            return self._made

    def _new_client(self) -> Any:
        from hdfs_native import Client

        limits = {
            "dfs.client.socket-timeout": str(int(self._patience.answer_s * 1000)),
            "dfs.client.failover.max.attempts": "2",
            "dfs.client.failover.sleep.max.millis": "1000",
        }
        return Client(f"hdfs://{self._host}" if self._host else None, limits)

    def _done(self, key: str, action: Callable[[], T]) -> T:
        """What a harmless call gives, tried again where that may help."""
        return retried(lambda: self._once(key, action), self._patience)

    def _once(self, key: str, action: Callable[[], T]) -> T:
        """Errors of the library as errors of Shoal: the one place for it here."""
        what = joined(self.url, key)
        try:
            return _within(self._patience.connect_s + self._patience.answer_s, action)
        except FileExistsError:
            raise
        except FileNotFoundError as error:
            raise NotFound(f"There is no file {what}.") from error
        except Exception as error:
            said = str(error).partition("\n")[0].strip() or type(error).__name__
            raise _translated(error, what, said, self._host) from error


def _translated(error: Exception, what: str, said: str, host: str) -> Exception:
    if isinstance(error, (NotFound, FileError, SpecError)):
        return error
    if isinstance(error, PermissionError) or "AccessControl" in str(error) or "Permission denied" in said:
        return AccessDenied(
            f"{what} may not be used: {said}", hint="HADOOP_USER_NAME says who you are to HDFS."
        )
    if isinstance(error, (IsADirectoryError, NotADirectoryError)):
        return NotFound(f"{what} is no file: {said}")
    if isinstance(error, OSError):  # Connections, timeouts, and names that nobody knows.
        return Unreachable(
            f"HDFS at {host or 'the default address'} cannot be used for {what}: {said}.", hint=_HINT
        )
    return FileError(f"{what} cannot be used: {said}", hint=_HINT)


def _within(limit_s: float, action: Callable[[], T]) -> T:
    """What the action gives, or `TimeoutError`: then its thread is left to itself, as it cannot be ended."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(action())
        except BaseException as error:  # noqa: BLE001 - raised again by who waits
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_s)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"no answer within {limit_s:g}s")
    return results[0]


def _pieces(data: bytes | Path) -> Iterator[bytes]:
    if isinstance(data, bytes):
        for start in range(0, len(data), PIECE_BYTES):
            yield data[start : start + PIECE_BYTES]
        return
    with data.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def _entry(found: Any) -> Entry:
    modified_s = found.modification_time / 1000
    return Entry("", found.length, modified_s, f"{found.modification_time:x}-{found.length:x}")

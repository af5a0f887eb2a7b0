"""A folder of this machine, or of a disk that machines share, as a storage. Links that leave it are not followed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import copyfileobj
from typing import IO, BinaryIO, NamedTuple

from shoal.errors import AccessDenied, FileError, NotFound
from shoal.files.base import Entry, checked_key, joined
from shoal.files.disk import name_aside, replacing, sync_folder
from shoal.files.patterns import Child, walk

_NO_LINKS = frozenset((errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK))
_AT_CWD, _NO_REPLACE = -100, 1  # of renameat2
_MISSING = frozenset((errno.ENOENT, errno.ENOTDIR))


class LocalStorage(NamedTuple):
    """See `Storage`. The folder is made with the first file that is written."""

    root: str

    @property
    def url(self) -> str:
        return self.root

    def list(self, prefix: str = "", pattern: str | None = None, *, hidden: bool = False) -> Iterator[Entry]:
        return walk(self.children, prefix, pattern, hidden=hidden)

    def stat(self, key: str) -> Entry:
        path = self._existing(key)
        with told(path):
            found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise NotFound(f"{self.root}/{key} is no file.")
        return _entry(found)._replace(key=key)

    def exists(self, key: str) -> bool:
        try:
            self.stat(key)
        except NotFound:
            return False
        return True

    def read(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        path = self._existing(key)
        if start == 0 and length is None:
            with told(path), open(path, "rb", buffering=0) as whole:  # The fewest calls of the system.
                return whole.readall()
        with told(path), open(path, "rb") as file:
            file.seek(start)
            return file.read(-1 if length is None else length)

    def open(self, key: str) -> BinaryIO:
        path = self._existing(key)
        with told(path):
            return open(path, "rb")

    def download(self, key: str, path: str | Path) -> None:
        with self.open(key) as source, receiving(path) as target:
            copyfileobj(source, target)

    def write(self, key: str, data: bytes | Path) -> None:
        path = self.path_for_writing(key)
        with told(path), replacing(path, "wb") as target:
            if isinstance(data, Path):
                with told(str(data)), data.open("rb") as source:
                    copyfileobj(source, target)
            else:
                target.write(data)

    def write_new(self, key: str, data: bytes) -> bool:
        path = self.path_for_writing(key)
        if os.path.lexists(path):
            return False
        with told(path):
            return _create(path, data)

    def move(self, key: str, to: str) -> None:
        path = self.path_for_writing(key, make=False)
        with told(path):
            os.replace(path, self.path_for_writing(to))

    def ensure_claims_hold(self) -> None:
        """They do: the file system keeps names apart."""

    def delete(self, key: str) -> None:
        path = self.path_for_writing(key, make=False)
        with told(path), suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(path)

    def children(self, folder: str) -> Iterator[Child]:
        """What is in the folder with this key; nothing where there is none."""
        path = os.path.join(self.root, folder)
        with told(path):
            try:
                found = os.scandir(path)
            except OSError as error:
                if error.errno in _MISSING:
                    return
                raise
            with found:
                for each in found:
                    child = self._child(each, joined(folder, each.name))
                    if child is not None:
                        yield child

    def _child(self, found: os.DirEntry[str], key: str) -> Child | None:
        """None for what is neither, has gone by now, or is a link to a folder or out of the storage."""
        try:
            if found.is_dir(follow_symlinks=False):
                return Child(found.name, None)
            if not found.is_file() or (found.is_symlink() and not self._is_inside(found.path)):
                return None
            return Child(found.name, _entry(found.stat()))
        except FileNotFoundError:
            return None

    def _is_inside(self, path: str) -> bool:
        root, real = os.path.realpath(self.root), os.path.realpath(path)
        return real == root or real.startswith(root.rstrip("/") + "/")

    def _leads_out(self, key: str) -> bool:
        """Whether a link on the way to this key leaves the storage; without links below the root nothing does."""
        path = self.root
        for part in key.split("/"):
            path = os.path.join(path, part)
            if os.path.islink(path):
                return not self._is_inside(os.path.join(self.root, key))
        return False

    def _existing(self, key: str) -> str:
        path = os.path.join(self.root, checked_key(key))
        if self._leads_out(key):
            raise AccessDenied(
                f"{path} is a link that leaves {self.root}.", hint="Copy the file there instead."
            )
        return path

    def path_for_writing(self, key: str, *, make: bool = True) -> str:
        """The path of a file to be written or removed; a link in its place is replaced, not followed."""
        path = os.path.join(self.root, checked_key(key))
        parent = os.path.dirname(path)
        if self._leads_out(key.rpartition("/")[0]):
            raise AccessDenied(
                f"{parent} is a link that leaves {self.root}.", hint="Make it a folder instead."
            )
        if make:
            with told(path):
                os.makedirs(parent, exist_ok=True)
        return path


def _entry(found: os.stat_result) -> Entry:
    return Entry(
        "", found.st_size, found.st_mtime, f"{found.st_mtime_ns:x}-{found.st_size:x}-{found.st_ino:x}"
    )


def _create(path: str, data: bytes) -> bool:
    """A new file, complete from the first moment where the file system has hard links or Linux's `renameat2`."""
    folder, name = os.path.split(path)
    aside = os.path.join(folder, name_aside(name))
    try:
        with open(aside, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(aside, path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if not _rename_new(aside, path):
                _fill(path, data)
    except FileExistsError:
        return False
    finally:
        with suppress(OSError):
            os.unlink(aside)
    sync_folder(folder)
    return True


def _rename_new(source: str, target: str) -> bool:
    """Rename in one step, unless the name is taken (`FileExistsError`). False where the system cannot do that."""
    import ctypes

    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_CWD, os.fsencode(source), _AT_CWD, os.fsencode(target), _NO_REPLACE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), target)


def _fill(path: str, data: bytes) -> None:
    """A new file where nothing better is to be had: it may be seen before it is complete, and a kill leaves it so."""
    with open(path, "xb") as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            os.unlink(path)
            raise


@contextmanager
def receiving(path: str | Path) -> Iterator[IO[bytes]]:
    """A local file to fill: it takes its name when it is complete, in a folder that is made if need be."""
    with told(str(path)):
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with replacing(str(path), "wb") as file:
            yield file


@contextmanager
def told(path: str) -> Iterator[None]:
    """Errors of the system as errors of Shoal: the one place for those of local files."""
    try:
        yield
    except OSError as error:
        if error.errno in _MISSING:
            raise NotFound(f"There is no file {path}.") from error
        if isinstance(error, IsADirectoryError):
            raise NotFound(f"{path} is a folder, not a file.") from error
        if isinstance(error, PermissionError):
            rights = "Look at its owner and its rights (ls -l)."
            raise AccessDenied(f"{path} may not be used: {error.strerror}.", hint=rights) from error
        hint = "Make room, or write elsewhere." if error.errno in (errno.ENOSPC, errno.EDQUOT) else None
        raise FileError(f"{path} cannot be used: {error.strerror or error}.", hint=hint) from error

"""Converted models, kept on this machine under what they were made of, for all of its workers. Converts nothing."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version

from shoal.files.disk import sync_file, sync_folder

LAYOUT = "1"
"""Another number when the way in which Shoal converts changes: then old ones are not found."""


def digest_of(path: str) -> str:
    """What a file contains, as a short text."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def key_of(digest: str, libraries: Sequence[str], *ways: object) -> str:
    """The name under which a conversion is kept: of this file, by these libraries as installed, in this way."""
    versions = [f"{library} {_version(library)}" for library in libraries]
    text = "\n".join([LAYOUT, digest, *versions, *map(str, ways)])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "unknown"


def kept(cache: str, key: str, make: Callable[[str], None]) -> str:
    """The folder with the conversion; `make` is called with an empty folder to put it into when it is not there.

    Of several workers that ask at once, one converts and the others wait. A conversion is there whole or not at all.
    """
    folder = os.path.join(cache, key)
    if os.path.isdir(folder):
        return folder
    os.makedirs(cache, exist_ok=True)
    with _turn(os.path.join(cache, f".{key}.lock")):
        if os.path.isdir(folder):
            return folder
        aside = os.path.join(cache, f".{key}.part")
        shutil.rmtree(aside, ignore_errors=True)  # Of one that died; nobody else is at it.
        os.mkdir(aside)
        try:
            make(aside)
            for name in os.listdir(aside):
                sync_file(os.path.join(aside, name))
            os.rename(aside, folder)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        sync_folder(cache)
    return folder


def forget(cache: str, key: str) -> None:
    """Drop a conversion that turned out to be damaged. It may be gone already."""
    with suppress(OSError):
        os.rename(os.path.join(cache, key), os.path.join(cache, f".{key}.{os.getpid()}.gone"))
    shutil.rmtree(os.path.join(cache, f".{key}.{os.getpid()}.gone"), ignore_errors=True)


@contextmanager
def _turn(path: str) -> Iterator[None]:
    """One process at a time; the lock ends with its process."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

"""From what a person writes (a path, a URL, a pattern) to a storage and the files meant. How each works is not here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple, cast
from urllib.parse import unquote

from shoal.errors import NotFound, SpecError, unknown
from shoal.files.base import Entry, Patience, Storage, joined
from shoal.files.local import LocalStorage
from shoal.files.patterns import Pattern, has_magic, split

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_REMOTE = {"s3": "s3", "hdfs": "hdfs", "http": "http", "https": "http"}
"""Schemes, and the modules that open them."""
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")


class Found(NamedTuple):
    """The files that somebody meant: keys of the storage, as they are found."""

    storage: Storage
    entries: Iterator[Entry]


class _Address(NamedTuple):
    scheme: str
    host: str
    path: str


def is_url(text: str) -> bool:
    """Whether this names something by its scheme, not a path of this machine."""
    return _URL.fullmatch(text) is not None


def open_storage(
    url: str, *, folder: str = ".", endpoint: str | None = None, patience: Patience | None = None
) -> Storage:
    """The storage at a local path, `file://`, `s3://BUCKET/...`, `hdfs://HOST:PORT/...` or `http(s)://...`.

    A relative path is one in `folder`. `endpoint` is the address of an S3 server other than Amazon's. Credentials are
    taken from the environment and the profiles of the user, never from a URL. Nothing is connected to yet.
    """
    address = _address(url)
    _check_endpoint(endpoint, address)
    patience = patience or Patience()
    if address.scheme == "file":
        return LocalStorage(os.path.abspath(os.path.join(folder, address.path)))
    module = import_module(f"shoal.files.{_REMOTE[address.scheme]}")
    return cast(Storage, module.opened(*address, endpoint, patience))


def find(
    target: str, *, folder: str = ".", endpoint: str | None = None, patience: Patience | None = None
) -> Found:
    """The files that a path, URL or pattern means: the file itself, all below a folder, or all that match.

    Where there is none, `NotFound` comes with the first entry. A local name that exists is taken as it is, even with
    `*` or `[` in it. `http(s)://` names one file.
    """
    address = _address(target)
    if address.scheme == "file":
        return _find_local(os.path.abspath(os.path.join(folder, address.path)), target)

    def opened(path: str) -> Storage:
        url = f"{address.scheme}://{address.host}/{path}"
        return open_storage(url, endpoint=endpoint, patience=patience)

    is_web = _REMOTE[address.scheme] == "http"
    if has_magic(address.path) and not is_web:
        root, pattern = split(address.path)
        return _all(opened(root), pattern, target)
    parent, _, name = address.path.rpartition("/")
    if name:
        storage = opened(f"{parent}?{name.partition('?')[2]}" if is_web else parent)
        name = unquote(name.partition("?")[0]) if is_web else name
        if is_web or storage.exists(name):
            return Found(storage, iter((storage.stat(name),)))
    return _all(opened(address.path), None, target)


def is_among(target: str, url: str, key: str, *, folder: str = ".") -> bool:
    """Whether `find(target)` would give the file `key` of the storage at `url`, were it there. Connects to nothing."""
    meant, other = _address(target), _address(url)
    if (meant.scheme, meant.host) != (other.scheme, other.host) or _REMOTE.get(meant.scheme) == "http":
        return False
    root, pattern, place = meant.path, None, other.path
    if meant.scheme == "file":
        root, place = (os.path.abspath(os.path.join(folder, each)) for each in (root, place))
    if has_magic(root) and not (meant.scheme == "file" and os.path.lexists(root)):
        root, pattern = split(root)
    if meant.scheme == "file":
        root, place = os.path.realpath(root), os.path.realpath(place)
    root, path = root.strip("/"), joined(place.strip("/"), key)
    if path == root and pattern is None:
        return True
    if root and not path.startswith(f"{root}/"):
        return False
    return Pattern(pattern).matches(path[len(root) + 1 if root else 0 :])


def _find_local(path: str, target: str) -> Found:
    if os.path.isdir(path):
        return _all(LocalStorage(path), None, target)
    if has_magic(path) and not os.path.lexists(path):
        root, pattern = split(path)
        return _all(LocalStorage(root), pattern, target)
    storage = LocalStorage(os.path.dirname(path))
    return Found(storage, iter((storage.stat(os.path.basename(path)),)))


def _all(storage: Storage, pattern: str | None, target: str) -> Found:
    def entries() -> Iterator[Entry]:
        nothing = True
        for entry in storage.list(pattern=pattern):
            nothing = False
            yield entry
        if nothing:
            what = "No file matches" if pattern else "There is no file in"
            raise NotFound(f"{what} {target}.", hint=f"Looked in {storage.url}.")

    return Found(storage, entries())


def _address(text: str) -> _Address:
    """The parts of a URL, or of a path. What follows the host is taken as it stands: `%20` is no space in a key."""
    match = _URL.fullmatch(text)
    if match is None:
        return _Address("file", "", text)
    scheme, rest = match[1].lower(), match[2]
    host, _, path = rest.partition("/")
    if scheme == "file":
        return _Address(scheme, "", f"/{path}")
    if scheme not in _REMOTE:
        raise unknown("kind of URL", f"{scheme}://", [f"{each}://" for each in (*_REMOTE, "file")])
    _refuse_secrets(scheme, host)
    if scheme == "s3" and not _BUCKET.fullmatch(host):
        raise SpecError(f"{text!r} names no bucket.", hint="Write s3://BUCKET/FOLDER.")
    if scheme in ("http", "https") and not host:
        raise SpecError(f"{text!r} names no host.", hint=f"Write {scheme}://HOST/FILE.")
    return _Address(scheme, host, path)


def _check_endpoint(endpoint: str | None, address: _Address) -> None:
    if endpoint is None:
        return
    match = _URL.fullmatch(endpoint)
    if match is None or match[1].lower() not in ("http", "https") or not match[2].partition("/")[0]:
        raise SpecError(
            f"The endpoint {endpoint!r} is no address.", hint="Write http://HOST:PORT or https://HOST."
        )
    _refuse_secrets(match[1], match[2].partition("/")[0])
    if address.scheme != "s3":
        raise SpecError(f"An endpoint is for s3://, not for {address.scheme}://.", hint="Leave it out.")


def _refuse_secrets(scheme: str, host: str) -> None:
    """The message does not repeat what stands before the @."""
    if "@" in host:
        raise SpecError(
            f"A user or password stands in the URL {scheme}://...@{host.rpartition('@')[2]}.",
            hint="Take it out: credentials come from the environment or a profile (docs/files.md).",
        )

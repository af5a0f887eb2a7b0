"""Taking a workload's folder to other machines: packed once by the driver, unpacked once per node under a digest."""

from __future__ import annotations

import hashlib
import io
import logging
import os
import shutil
import tarfile
from functools import cache
from typing import NamedTuple

from shoal.engine.ray import folder_locks
from shoal.errors import SpecError
from shoal.exclusions import IGNORE_FILE, travelling
from shoal.units import format_size

LARGEST_BYTES = 256 << 20
NAMED = 5
UNUSED_S = 7 * 24 * 3600.0
"""How long a folder is kept on a node for the next run with the same files."""

_log = logging.getLogger(__name__)


class Package(NamedTuple):
    """A folder as bytes. Equal folders have equal digests."""

    digest: str
    data: bytes


def pack(folder: str) -> Package:
    """The folder without what stays at home (`leaving_out`); too large is an error."""
    found = ensure_shippable(folder)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in found:
            archive.add(os.path.join(folder, name), arcname=name, recursive=False, filter=_plain)
    data = buffer.getvalue()
    return Package(hashlib.blake2b(data, digest_size=16).hexdigest(), data)


def ensure_shippable(folder: str) -> list[str]:
    """The files that would be packed; raises `SpecError`, with the largest of them, where they are too large.

    Links that lead out of the folder are an error, too: they would be missing elsewhere.
    """
    found, _ = chosen = travelling(folder)
    if said := chosen.said():
        _warn(said)
    _refuse_links(folder, found)
    sizes = [(os.lstat(os.path.join(folder, name)).st_size, name) for name in found]
    total = sum(size for size, _ in sizes)
    if total > LARGEST_BYTES:
        largest = ", ".join(
            f"{name} ({format_size(size)})" for size, name in sorted(sizes, reverse=True)[:NAMED]
        )
        raise SpecError(
            f"{folder} holds {format_size(total)}, too much to ship to other machines. The largest: {largest}.",
            hint=f"Name what the work does not need in {IGNORE_FILE}, or keep data in storage that all nodes reach.",
        )
    return found


@cache
def _warn(sentence: str) -> None:
    """Once, though a folder is looked at more than once on its way."""
    _log.warning("%s", sentence)


def _refuse_links(folder: str, found: list[str]) -> None:
    paths = [(name, os.path.join(folder, name)) for name in found]
    leaving = [
        f"{name} (to {os.readlink(path)})"
        for name, path in paths
        if os.path.islink(path) and _leaves(path, folder)
    ]
    if leaving:
        more = f" and {len(leaving) - NAMED} more" if len(leaving) > NAMED else ""
        raise SpecError(
            f"{folder} has links that lead nowhere on other machines: {', '.join(leaving[:NAMED])}{more}.",
            hint=f"Put files in their place, make them relative, or name them in {IGNORE_FILE}.",
        )


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without owner and times, so that equal contents give equal bytes."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def unpack(package: Package, cache: str) -> str:
    """The folder on this machine, for as long as this process lives; unpacked by the first who asks, while others wait.

    Those that nobody uses are removed, some time after the last use.
    """
    target = os.path.join(cache, package.digest)
    while True:
        held = folder_locks.hold(target)
        if os.path.isdir(target):
            break
        held.close()
        with folder_locks.hold(target, alone=True):
            if not os.path.isdir(target):
                shutil.rmtree(f"{target}.part", ignore_errors=True)
                extract(package.data, f"{target}.part")
                os.rename(f"{target}.part", target)
    os.utime(target)
    with held:
        os.dup(held.fileno())  # Never closed: the lock ends with this process.
    folder_locks.remove_old(cache, UNUSED_S)
    return target


def extract(data: bytes, target: str) -> None:
    """Nothing in an archive can leave the target folder: what would is left out."""
    os.makedirs(target, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(target, filter=_harmless)


def _harmless(member: tarfile.TarInfo, target: str) -> tarfile.TarInfo | None:
    try:
        return tarfile.data_filter(member, target)
    except tarfile.FilterError:
        return None


def _leaves(link: str, folder: str) -> bool:
    """Whether a link in the folder means something only on this machine."""
    target, root = os.readlink(link), os.path.realpath(folder)
    real = os.path.realpath(os.path.join(os.path.dirname(link), target))
    return os.path.isabs(target) or os.path.commonpath([root, real]) != root

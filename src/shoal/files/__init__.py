"""Bytes anywhere: local files written whole or not at all, and storages: folders, `s3://`, `hdfs://`, `http(s)://`.

This is all that other layers use. Knows nothing of runs. Storages are loaded when one is first asked for: most runs
need none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.files.disk import (
    ensure_ours,
    make_closed,
    make_private,
    on_network,
    own_folder,
    pause,
    replacing,
    sync_file,
    sync_folder,
    user_key,
    why_not_ours,
    write_bytes,
    write_secret,
    write_text,
)

if TYPE_CHECKING:
    from shoal.files.addresses import Found, find, is_among, is_url, open_storage
    from shoal.files.base import Entry, Patience, Storage

__all__ = [
    "Entry",
    "Found",
    "Patience",
    "Storage",
    "ensure_ours",
    "find",
    "is_among",
    "is_url",
    "make_closed",
    "make_private",
    "on_network",
    "open_storage",
    "own_folder",
    "pause",
    "replacing",
    "sync_file",
    "sync_folder",
    "user_key",
    "why_not_ours",
    "write_bytes",
    "write_secret",
    "write_text",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from shoal.files import addresses, base

    return getattr(base, name, None) or getattr(addresses, name)

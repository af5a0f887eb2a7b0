"""Bytes anywhere: local files written whole or not at all, and storages: folders, `s3://`, `hdfs://`, `http(s)://`.

This is all that other layers use. Knows nothing of runs. What a kind of storage needs is loaded when one is opened.
"""

from __future__ import annotations

from shoal.files.atomic import pause, replacing, sync_file, sync_folder, write_bytes, write_text
from shoal.files.base import Entry, Patience, Storage
from shoal.files.mounts import on_network
from shoal.files.opening import Found, find, is_url, open_storage

__all__ = [
    "Entry",
    "Found",
    "Patience",
    "Storage",
    "find",
    "is_url",
    "on_network",
    "open_storage",
    "pause",
    "replacing",
    "sync_file",
    "sync_folder",
    "write_bytes",
    "write_text",
]

"""An output that nobody is to read, beside one that people do: where it is, and how it goes again."""

from __future__ import annotations

import shutil
from contextlib import suppress

from shoal.errors import ShoalError
from shoal.files import is_url, open_storage
from shoal.files.local import LocalStorage
from shoal.spec.shared_sections import Output
from shoal.work.outputs.layout import ERRORS, HIDDEN, look, opened, remove


def beside(path: str, mark: str) -> str:
    """A folder next to this one, on the same storage: who reaches the one reaches the other."""
    bare = path.rstrip("/")
    is_root = is_url(path) and "/" not in bare.partition("://")[2]
    return f"{bare}/{mark}/" if is_root else f"{bare}-{mark}/"


def discard(output: Output, folder: str) -> None:
    """Remove this output, and the folder itself unless others put something there. May be called again."""
    storage = opened(output, folder)
    found = look(storage)
    if isinstance(storage, LocalStorage) and not found.others:
        shutil.rmtree(storage.root, ignore_errors=True)
        return
    remove(storage, [*found.parts.values(), *found.asides, *found.hidden, ERRORS])
    above, _, name = output.path.rstrip("/").rpartition("/")
    with suppress(ShoalError):  # Folders that are there without a file, on HDFS.
        around = open_storage(above, folder=folder, endpoint=output.endpoint)
        folders = {key.rpartition("/")[0] for key in found.hidden} | {
            HIDDEN,
            f"{HIDDEN}/turns",
            f"{HIDDEN}/published",
        }
        for folder_ in sorted(folders, key=len, reverse=True):
            around.delete(f"{name}/{folder_}")
        around.delete(name)

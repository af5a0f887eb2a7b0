"""How files are taken out of an output: aside first, then for good; and the scratch output of a probe."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import suppress

from shoal.errors import NotFound, ShoalError
from shoal.files import Storage, is_url, open_storage
from shoal.files.local import LocalStorage
from shoal.files.turns import Turn, suspended_at
from shoal.spec.shared_sections import Output
from shoal.work.outputs.layout import ERRORS, HIDDEN, Retired, aside_key, for_each, look, opened, remove


def retire(storage: Storage, keys: Iterable[str], turn: Turn) -> None:
    """Take these out of the output. They were listed before this is called: what a later driver writes is not in it.

    Raises what `turn.ensure` does; then they are where they were. A driver that is killed in it leaves them aside,
    for who has a later turn.
    """
    retired = [Retired(turn.number, aside_key(turn.number, key), key) for key in keys]
    if not retired:
        return
    turn.ensure()
    suspended_at("delete")
    try:
        for_each(lambda each: _move(storage, each), retired)
        turn.ensure()
    except BaseException:
        with suppress(ShoalError):  # What cannot be put back now lies aside, for who has the run.
            put_back(storage, retired)
        raise
    remove(storage, [each.aside for each in retired])


def put_back(storage: Storage, retired: Iterable[Retired]) -> None:
    """Where there is another file by now, that one stays."""
    for_each(lambda each: _put_back(storage, each), retired)


def _move(storage: Storage, each: Retired) -> None:
    with suppress(NotFound):
        storage.move(each.key, each.aside)


def _put_back(storage: Storage, each: Retired) -> None:
    with suppress(NotFound):
        storage.write_new(each.key, storage.read(each.aside))
        storage.delete(each.aside)


def beside(path: str, mark: str) -> str:
    """Scratch folder beside this output, on the same storage, so that workers reach it, too."""
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

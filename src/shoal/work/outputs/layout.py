"""How an output folder is laid out: the names in it, what of it is there, and how files are taken out of it.

Parts and `errors.parquet` are what people read. Everything else is in a folder whose name starts with a dot, which
readers of Parquet folders pass over. It is not called `.shoal`: that would make it a home of runs for who works there.

Files that go are put aside first, and are removed for good when the driver still has its turn.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple, TypeVar

from shoal.errors import NotFound, ShoalError
from shoal.files import Storage, is_url, open_storage
from shoal.files.disk import is_aside
from shoal.files.local import LocalStorage
from shoal.files.turns import Turn, suspended_at
from shoal.spec.shared_sections import Output

HIDDEN = ".shoal-output"
OWNER = f"{HIDDEN}/run.json"
ERRORS = "errors.parquet"
OTHERS_NAMED = 3
_PART = re.compile(r"part-(\d{6,})\.parquet")
_ITEM_ERRORS = re.compile(r"errors-(\d{6,})-(\d+)-[0-9a-f]{8}\.parquet")
_PARTIAL = re.compile(r"partial-(\d{6,})")
_SCHEMA = re.compile(r"schema-(\d+)\.arrow")
_CRUMB = re.compile(r"at-(\d{6,})-(\d+)\.json")
_RETIRED = re.compile(r"aside-(\d+)-([^/]+)")
_AT_ONCE = 8

T = TypeVar("T")


def opened(output: Output, folder: str) -> Storage:
    """The output's storage. Nothing is connected to yet."""
    return open_storage(output.path, folder=folder, endpoint=output.endpoint)


def part_key(seq: int) -> str:
    return f"part-{seq:06d}.parquet"


def errors_key(seq: int, attempt: int, digest: str) -> str:
    """The errors of one attempt. The digest of its content keeps apart what had the same number by accident."""
    return f"{HIDDEN}/errors-{seq:06d}-{attempt}-{digest[:8]}.parquet"


def partial_key(seq: int) -> str:
    """A mark: the part may lack types of columns that were not known when it was written."""
    return f"{HIDDEN}/partial-{seq:06d}"


def schema_key(version: int) -> str:
    return f"{HIDDEN}/schema-{version}.arrow"


def crumb_key(seq: int, attempt: int) -> str:
    return f"{HIDDEN}/at-{seq:06d}-{attempt}.json"


def successor_key(run: str) -> str:
    """Where the run that takes the output over from this one says so."""
    return f"{HIDDEN}/after-{run}.json"


def ended_key(run: str) -> str:
    """Where the driver of this run says that it has ended."""
    return f"{HIDDEN}/ended-{run}"


def turns_prefix(run: str) -> str:
    """Where the turns of this run are written down."""
    return f"{HIDDEN}/turns/{run}"


def published_prefix(run: str) -> str:
    """Where each turn of this run says what it made of the output."""
    return f"{HIDDEN}/published/{run}"


def published_key(run: str, turn: int) -> str:
    return f"{published_prefix(run)}/{turn}.json"


def aside_key(turn: int, key: str) -> str:
    """Where a driver of this turn keeps files that it took out of the output, until they may be removed."""
    return f"{HIDDEN}/aside-{turn}-{key.rpartition('/')[2]}"


def is_claim_aside(key: str) -> bool:
    """Whether this file announces a takeover of the output that is under way; others must not remove it."""
    return key.startswith((f"{HIDDEN}/.after-", f"{HIDDEN}/.run.json."))


def crumb_of(key: str) -> tuple[int, int] | None:
    """Item and attempt that a key is the crumb of."""
    match = _CRUMB.fullmatch(key.removeprefix(f"{HIDDEN}/"))
    return (int(match[1]), int(match[2])) if match else None


class Retired(NamedTuple):
    """A file that a driver of this turn took out of the output, and where it was before."""

    turn: int
    aside: str
    key: str


class Listing(NamedTuple):
    """What is in an output folder. Files that begin with a dot and are not of Shoal are left out."""

    parts: dict[int, str]
    """By item."""
    errors: dict[tuple[int, int], list[str]]
    """Files with the errors of one item, by item and attempt."""
    partial: dict[int, str]
    """Marks, by item."""
    schemas: dict[int, str]
    """By version."""
    hidden: list[str]
    """Everything in the hidden folder."""
    asides: list[str]
    """What was not complete when its writer ended, outside of the hidden folder."""
    has_errors: bool
    """Whether there is an `errors.parquet`."""
    others: list[str]
    """A few of those that are not of Shoal."""
    retired: list[Retired]
    numbers: set[int]
    """Of all items of which there is something, also aside."""


def look(storage: Storage) -> Listing:
    """List the folder. Stops where a few files are not of Shoal: then nothing else matters."""
    found = Listing({}, {}, {}, {}, [], [], False, [], [], set())
    for entry in storage.list(hidden=True):
        key = entry.key
        if key.startswith(f"{HIDDEN}/"):
            _note_hidden(found, key)
        elif match := _PART.fullmatch(key):
            found.parts[int(match[1])] = key
            found.numbers.add(int(match[1]))
        elif key == ERRORS:
            found = found._replace(has_errors=True)
        elif is_aside(key) and key.startswith((".part-", f".{ERRORS}.")):
            found.asides.append(key)
        elif not any(name.startswith(".") for name in key.split("/")):
            found.others.append(key)
            if len(found.others) > OTHERS_NAMED:
                break
    return found


def _note_hidden(found: Listing, key: str) -> None:
    name = key.removeprefix(f"{HIDDEN}/")
    found.hidden.append(key)
    if match := _RETIRED.fullmatch(name):
        name = match[2]
        is_shown = name == ERRORS or _PART.fullmatch(name)
        found.retired.append(Retired(int(match[1]), key, name if is_shown else f"{HIDDEN}/{name}"))
        found.numbers.update(_number(name))
        return
    found.numbers.update(_number(name))
    if match := _ITEM_ERRORS.fullmatch(name):
        found.errors.setdefault((int(match[1]), int(match[2])), []).append(key)
    elif match := _PARTIAL.fullmatch(name):
        found.partial[int(match[1])] = key
    elif match := _SCHEMA.fullmatch(name):
        found.schemas[int(match[1])] = key


def last_published(storage: Storage, run: str) -> int | None:
    """The last turn of this run that published something; None where none has."""
    names = (entry.key.rpartition("/")[2] for entry in storage.list(published_prefix(run), "*.json"))
    return max(
        (int(name) for each in names if (name := each.removesuffix(".json")).isdecimal()), default=None
    )


def is_left_out(storage: Storage, run: str, turn: int, seq: int) -> bool:
    """Whether a later turn has published an output without this item."""
    last = last_published(storage, run)
    if last is None or last <= turn:
        return False
    return seq not in json.loads(storage.read(published_key(run, last)))["parts"]


def _number(name: str) -> list[int]:
    """The item that a file is of, if it is of one."""
    found = (kind.fullmatch(name) for kind in (_PART, _ITEM_ERRORS, _PARTIAL, _CRUMB))
    return [int(match[1]) for match in found if match]


def remove(storage: Storage, keys: Iterable[str]) -> None:
    for_each(storage.delete, keys)


def for_each(act: Callable[[T], None], values: Iterable[T]) -> None:
    """Several at a time: each is a request where the storage is far away."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(act, values):
            pass


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

"""Partials that come to the driver with what items leave behind: nodes do not reach the folder of the result.

Only jobs of Shoal's own go this way: the driver merges them itself, and runs no code of a user's.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from shoal.engine.workers.runner import Failed
from shoal.errors import FileError
from shoal.files.turns import Turn
from shoal.work.process import partials
from shoal.work.process.jobs.base import Job
from shoal.work.process.reduction import reduced
from shoal.work.process.result_file import write_result
from shoal.work.process.result_place import ResultPlace
from shoal.work.process.scratch import Scratch

PARTIAL, ERRORS = "partial.parquet", "errors.parquet"
"""What a map item leaves in its folder."""


def leave(folder: str, partial: Path, errors: bytes | None) -> None:
    """Called by a worker: these go with the item."""
    shutil.copyfile(partial, os.path.join(folder, PARTIAL))
    if errors is not None:
        Path(folder, ERRORS).write_bytes(errors)


def merge(job: Job, items: str, ids: Sequence[str], place: ResultPlace, turn: Turn) -> int:
    """Make the result of what these items left below the folder `items`: how many rows it has."""
    turn.ensure()
    try:
        with tempfile.TemporaryDirectory(prefix="shoal-") as folder:
            path = Path(folder, "result")
            tables = reduced(job, [_tables(items, each) for each in ids], Scratch(folder))
            with path.open("wb") as out:
                written = write_result(out, place.ending[1:], job, tables)
            turn.ensure()
            place.make_room(1)
            place.storage.write(place.name, path)
    except Failed as error:
        raise FileError(str(error)) from error
    except FileNotFoundError as error:
        raise FileError(f"{error.filename} is gone: run the workload again to make it anew.") from error
    return written.rows


def _tables(items: str, id_: str) -> Iterator[Any]:
    """Of one partial, which is open only meanwhile."""
    with open(os.path.join(items, id_, PARTIAL), "rb") as file:
        yield from partials.Partial(file, id_).tables()


def clear(items: str) -> None:
    """Remove what was only for the merge."""
    for each in os.listdir(items) if os.path.isdir(items) else ():
        for name in (PARTIAL, ERRORS):
            with suppress(OSError):
                os.unlink(os.path.join(items, each, name))
        with suppress(OSError):
            os.rmdir(os.path.join(items, each))

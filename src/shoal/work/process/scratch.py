"""Runs: sorted tables that a worker puts aside on its own disk because its memory is bounded, and reads again once."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any

from shoal.engine.workers.runner import Failed
from shoal.units import format_size

_BATCH_ROWS = 16 * 1024
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Scratch:
    """A folder for runs. Whoever gives it removes it; each run goes when it has been read."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._numbers = count()

    def keep(self, schema: Any, tables: Iterable[Any]) -> Iterator[Any]:
        """Write a run, and give it back, a bounded number of rows at a time. `Failed` where the disk is full."""
        from pyarrow import ipc

        path = os.path.join(self._folder, f"run-{next(self._numbers):06d}.arrow")
        size = 0
        try:
            with (
                open(path, "wb") as file,
                ipc.new_stream(file, schema, options=ipc.IpcWriteOptions(compression="lz4")) as writer,
            ):
                for table in tables:
                    size += table.nbytes
                    writer.write_table(table, _BATCH_ROWS)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            with suppress(OSError):
                os.unlink(path)
            raise Failed(self._told(size)) from error
        return _read(path)

    def _told(self, size: int) -> str:
        free = format_size(shutil.disk_usage(self._folder).free)
        return (
            f"The disk of {self._folder} is full: up to {format_size(size)} were to be put aside there, and {free} are"
            " free. Make room there, or set TMPDIR to a folder of another disk, then resume the run with --failed."
        )


def _read(path: str) -> Iterator[Any]:
    import pyarrow
    from pyarrow import ipc

    with open(path, "rb") as file:
        os.unlink(path)
        for batch in ipc.open_stream(file):
            yield pyarrow.Table.from_batches([batch])

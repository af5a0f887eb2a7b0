"""The rows of an output, as `shoal results` shows them. Reads parts only: neither errors nor what is hidden."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from shoal.files import Storage
from shoal.spec.infer import Output
from shoal.work.infer.outputs.layout import look, opened

_BATCH_ROWS = 1000


def rows(output: Output, folder: str, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """The rows in the order of parts, as they are read; a part that has gone by now raises `NotFound`."""
    storage = opened(output, folder)
    parts = look(storage).parts
    every = (row for seq in sorted(parts) for row in _rows(storage, parts[seq], limit))
    return islice(every, limit)


def _rows(storage: Storage, key: str, limit: int | None) -> Iterator[dict[str, Any]]:
    from pyarrow import parquet

    size = _BATCH_ROWS if limit is None else max(1, min(_BATCH_ROWS, limit))
    with storage.open(key) as opened_part, parquet.ParquetFile(opened_part) as file:
        for batch in file.iter_batches(size):
            yield from batch.to_pylist()

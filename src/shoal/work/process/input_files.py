"""The files of a process workload's input, each as one range, and what tells them from others."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

from shoal.spec.process import INDEX, RecordInput
from shoal.work.records.file_lists import Inputs, file_ranges, record_ranges
from shoal.work.records.record import BadRecord, Range

_UNCUT = 1 << 62


def input_ranges(
    input_: RecordInput,
    folder: str,
    bad: Callable[[BadRecord], None] = lambda record: None,
    *,
    limit: int | None = None,
) -> list[Range]:
    """All files that are meant, each once and as one range, in the order of their paths; or the records of an index.

    Raises `FileError` and `SpecError` where something cannot be had. `bad` hears of entries of an index that are none.
    `limit` is how many items there will be at most: no more files of a list are looked at.
    """
    inputs = Inputs(input_.targets, folder, input_.endpoint, input_.base, limit)
    found = record_ranges(inputs, bad) if input_.key == INDEX else file_ranges(inputs, _UNCUT)
    return sorted(set(found), key=lambda each: (each.root, each.path, each.start))


def input_digest(input_: RecordInput, folder: str, limit: int | None = None) -> str:
    """Another one where a file of the input is another one."""
    text = "\n".join(map(repr, input_ranges(input_, folder, limit=limit)))
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()

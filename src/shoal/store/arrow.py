"""Lists of plain values as Arrow arrays, from buffers that are filled here.

`pyarrow.array` would do, but it imports pandas wherever that is installed: half a second at the end of every run.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any


def column(values: Sequence[Any], kind: Any) -> Any:
    """An array of the kind bool, int64, float64 or string. None is null; every other value fits the kind."""
    import pyarrow

    nulls = sum(value is None for value in values)
    validity = pyarrow.py_buffer(_bits([value is not None for value in values])) if nulls else None
    data = [pyarrow.py_buffer(part) for part in _buffers(values, str(kind))]
    return pyarrow.Array.from_buffers(kind, len(values), [validity, *data], nulls)


def _buffers(values: Sequence[Any], kind: str) -> list[bytes | array[Any]]:
    if kind == "bool":
        return [_bits([bool(value) for value in values])]
    if kind == "int64":
        return [array("q", (0 if value is None else value for value in values))]
    if kind == "double":
        return [array("d", (0.0 if value is None else value for value in values))]
    texts = [b"" if value is None else value.encode("utf-8", "surrogateescape") for value in values]
    return [array("i", accumulate(map(len, texts), initial=0)), b"".join(texts)]


def _bits(flags: Sequence[bool]) -> bytes:
    """One bit each, the lowest first."""
    packed = bytearray((len(flags) + 7) // 8)
    for position, flag in enumerate(flags):
        if flag:
            packed[position >> 3] |= 1 << (position & 7)
    return bytes(packed)

"""What earlier sessions took, in little memory: inputs that are files by digests, rows by ranges of their file."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from shoal.work.inputs.base import Changes


class KnownFiles:
    """Files by digests of their keys: 17 bytes for each."""

    def __init__(self, items: Iterable[Mapping[str, Any]]) -> None:
        keys, marks = array("Q"), array("Q")
        for params in items:
            keys.extend(map(_digest, params["files"]))
            marks.extend([int(mark, 16) for mark in params["marks"]])
        self._keys, self._marks = _sorted_together(keys, marks)
        self._seen = bytearray(len(keys))
        self._changed = 0

    def __len__(self) -> int:
        return len(self._keys)

    def saw(self, key: str, mark: str) -> bool:
        """There is such a file now. Whether it is known."""
        if not self._keys:
            return False
        digest = _digest(key)
        at = bisect_left(self._keys, digest)
        if at == len(self._keys) or self._keys[at] != digest:
            return False
        if not self._seen[at]:
            self._seen[at] = 1
            self._changed += self._marks[at] != int(mark, 16)
        return True

    def changes(self, new: int, *, seen_all: bool) -> Changes:
        """What is different, when so many were not known."""
        gone = self._seen.count(0) if seen_all else 0
        return Changes(new, self._changed, gone) if self._keys else Changes()


class Range(NamedTuple):
    """Rows of a file that are in one item."""

    start: int
    rows: int
    mark: str
    end: int
    """Where to go on: the byte after them, for lines; how many rows the file had, for tables."""
    broken: bool = False
    """No rows: the file as a whole, because it could not be read."""
    is_packed: bool = False
    """Places are those of what is unpacked, and say nothing of the size of the file."""


class KnownRows:
    """Ranges of rows, by file."""

    def __init__(self, items: Iterable[Mapping[str, Any]], end: str) -> None:
        self._files: dict[str, list[Range]] = {}
        self._rows = self._changed = self._gone = 0
        for each in items:
            place = (each["start"], each["rows"], each["mark"], each[end])
            taken = Range(*place, broken="broken" in each, is_packed="packed" in each)
            self._files.setdefault(each["file"], []).append(taken)
            self._rows += taken.rows
        for ranges in self._files.values():
            ranges.sort()
        self._unseen = set(self._files)

    def __len__(self) -> int:
        return self._rows

    def of(self, key: str) -> Sequence[Range]:
        """What was taken of this file, in order."""
        return self._files.get(key, ())

    def saw(self, key: str, mark: str, rows: int | None = None) -> None:
        """There is such a file now, with so many rows, where that is known."""
        self._unseen.discard(key)
        for taken in self._files.get(key, ()):
            here = taken.rows if rows is None or taken.broken else min(taken.rows, max(0, rows - taken.start))
            self._gone += taken.rows - here
            if taken.mark != mark:
                self._changed += here

    def changes(self, new: int, *, seen_all: bool) -> Changes:
        """What is different, when so many were not known."""
        missing = sum(taken.rows for key in self._unseen for taken in self._files[key])
        return Changes(new, self._changed, self._gone + missing * seen_all) if self._files else Changes()


def gaps(start: int, end: int, ranges: Sequence[Range]) -> Iterator[tuple[int, int]]:
    """What is in none of these ranges, which are in order: first row and row after the last."""
    for taken in ranges:
        if taken.start >= end:
            break
        if taken.start > start:
            yield start, taken.start
        start = max(start, taken.start + taken.rows)
    if start < end:
        yield start, end


def _digest(key: str) -> int:
    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _sorted_together(keys: array[int], marks: array[int]) -> tuple[array[int], array[int]]:
    if not keys:
        return keys, marks
    import numpy as np

    values = np.frombuffer(keys, np.uint64)
    order = np.argsort(values)
    pair = array("Q"), array("Q")
    pair[0].frombytes(values[order].tobytes())
    pair[1].frombytes(np.frombuffer(marks, np.uint64)[order].tobytes())
    return pair

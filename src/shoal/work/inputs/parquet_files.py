"""Parquet files, as the driver lists them: by their footers. Reads no pages.

An item lies within one row group, or has several whole ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow
import pyarrow.parquet

from shoal.errors import FileError, NotFound, Problem, SpecError, nearest, several
from shoal.files import Entry
from shoal.spec.shared_sections import Input
from shoal.work.inputs.base import Piece
from shoal.work.inputs.known import KnownRows, gaps
from shoal.work.inputs.places import BrokenPiece, Place, found_at, mark_of, one_line, own_fault, partitions

LARGEST_BYTES = 64 * 1024 * 1024
"""Of several row groups in one item, as they are in memory."""
_LEFT_OUT = frozenset(("_SUCCESS", "_metadata", "_common_metadata"))
"""What Spark and others put beside their tables: these have no rows."""


class Footer(NamedTuple):
    """A file, and what it says of itself."""

    root: str
    key: str
    mark: str
    starts: Sequence[int]
    """The first row of each row group, and after the last the number of rows."""
    sizes_bytes: Sequence[int]


class RowPiece:
    """See `Piece`: rows of one file, from one to before another."""

    def __init__(self, file: Footer, row: int, end: int) -> None:
        self._file, self._row, self._end = file, row, end

    def __len__(self) -> int:
        return self._end - self._row

    def weight(self) -> int:
        return 8 + len(self._file.starts) // 4

    def cut(self, rows: int) -> dict[str, Any]:
        starts, row = self._file.starts, self._row
        group = bisect_right(starts, row) - 1
        most = min(row + rows, self._end)
        last = group
        if row == starts[group]:
            last = max(group, self._last_whole(group, most))
        end = min(most, starts[last + 1])
        self._row = end
        groups = [each for each in range(group, last + 1) if starts[each] < starts[each + 1]]
        file = {"root": self._file.root, "file": self._file.key, "mark": self._file.mark, "of": starts[-1]}
        return {**file, "groups": groups, "start": row, "rows": end - row, "skip": row - starts[group]}

    def join(self, other: Piece) -> bool:
        return False

    def shorten(self, rows: int) -> None:
        self._end = min(self._end, self._row + rows)

    def _last_whole(self, first: int, most: int) -> int:
        """The last row group that ends before row `most`, and whose bytes still fit beside those before it."""
        last, size = first - 1, 0
        while last + 1 < len(self._file.sizes_bytes) and self._file.starts[last + 2] <= most:
            size += self._file.sizes_bytes[last + 1]
            if size > LARGEST_BYTES:
                break
            last += 1
        return last


def find_rows(
    input_: Input, folder: str, known: KnownRows, ordered: bool
) -> Iterator[RowPiece | BrokenPiece]:
    """Every row that is not known, file after file."""
    place, entries = found_at(input_, folder)
    is_proven = len(known) > 0
    for entry in sorted(entries) if ordered else entries:
        if entry.key.rpartition("/")[2] in _LEFT_OUT:
            continue
        try:
            yield from _rows_of(place, entry, input_, known)
            is_proven = True
        except NotFound:
            continue  # It went away meanwhile: then it is no input, as if it had gone before.
        except (FileError, SpecError) as error:
            yield from _broken(place, entry, known, own_fault(error, is_proven=is_proven))
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            yield from _broken(place, entry, known, f"cannot be read as Parquet: {one_line(error)}")


def _rows_of(place: Place, entry: Entry, input_: Input, known: KnownRows) -> Iterator[RowPiece]:
    mark = mark_of(entry)
    taken = known.of(entry.key)
    if taken and all(each.mark == mark for each in taken):
        whole = taken[0].end
        if taken[0].broken or not list(gaps(0, whole, taken)):
            known.saw(entry.key, mark)
            return
    file = _footer(place, entry, mark, input_)
    known.saw(entry.key, mark, file.starts[-1])
    for start, end in gaps(0, file.starts[-1], [each for each in taken if not each.broken]):
        yield RowPiece(file, start, end)


def _broken(place: Place, entry: Entry, known: KnownRows, reason: str) -> Iterator[BrokenPiece]:
    mark = mark_of(entry)
    known.saw(entry.key, mark)
    if not known.of(entry.key):
        file = {"root": place.root, "file": entry.key, "mark": mark, "of": 0, "groups": [], "skip": 0}
        yield BrokenPiece(file, reason)


def _footer(place: Place, entry: Entry, mark: str, input_: Input) -> Footer:
    with place.storage.open(entry.key) as source, pyarrow.parquet.ParquetFile(source) as file:
        _check_columns(input_, file.schema_arrow.names, place.path(entry.key))
        groups = [file.metadata.row_group(index) for index in range(file.num_row_groups)]
        starts = [0, *accumulate(group.num_rows for group in groups)]
        return Footer(place.root, entry.key, mark, starts, [group.total_byte_size for group in groups])


def _check_columns(input_: Input, names: Sequence[str], path: str) -> None:
    names = [*names, *partitions(path)]
    missing = [name for name in dict.fromkeys((*input_.column, *input_.key)) if name not in names]
    if missing:
        raise several([Problem(f"{path} has no column {name!r}.", nearest(name, names)) for name in missing])

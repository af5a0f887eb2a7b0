"""Files of lines, as the driver lists them: where each line begins and ends. What is in a line is not looked at.

A line ends with a line feed, or with the file. Every line of a text is an input; of JSON, a line of nothing but spaces
is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from shoal.errors import FileError, NotFound, SpecError
from shoal.files import Entry
from shoal.spec.shared_sections import Input
from shoal.work.inputs.base import Piece
from shoal.work.inputs.gzip_lines import opened_lines
from shoal.work.inputs.known import KnownRows, Range, gaps
from shoal.work.inputs.places import BrokenPiece, Place, found_at, mark_of, own_fault

if TYPE_CHECKING:
    import numpy as np

    Offsets = np.ndarray[Any, np.dtype[np.int64]]

LARGEST_BYTES = 64 * 1024 * 1024
"""Of an item. A line that is larger is an item of its own, and an error."""
BOM = b"\xef\xbb\xbf"
SPACES = b" \t\r\n"
_AT_ONCE_BYTES = 1024 * 1024


class LineFile(NamedTuple):
    """The file that lines are in."""

    root: str
    key: str
    mark: str
    is_packed: bool = False
    """With gzip: then places in it are those of what is unpacked."""

    def params(self) -> dict[str, Any]:
        """As an item names it."""
        file = {"root": self.root, "file": self.key, "mark": self.mark}
        return {**file, "packed": True} if self.is_packed else file


class LinePiece:
    """See `Piece`: lines one after the other in one file, the first of which is row `start`."""

    def __init__(self, file: LineFile, start: int, begins: Offsets, ends: Offsets) -> None:
        self._file, self._start, self._begins, self._ends = file, start, begins, ends

    def __len__(self) -> int:
        return len(self._begins)

    def weight(self) -> int:
        return len(self._begins) // 16 + 1

    def cut(self, rows: int) -> dict[str, Any]:
        begin = int(self._begins[0])
        fitting = int(self._ends.searchsorted(begin + LARGEST_BYTES, side="right"))
        count = max(1, min(rows, fitting, len(self)))
        where = {"start": self._start, "rows": count, "begin": begin, "end": int(self._ends[count - 1])}
        self._start += count
        self._begins, self._ends = self._begins[count:], self._ends[count:]
        return {**self._file.params(), **where}

    def join(self, other: Piece) -> bool:
        if not isinstance(other, LinePiece) or other._file != self._file:
            return False
        if other._start != self._start + len(self):
            return False
        import numpy as np

        self._begins = np.concatenate((self._begins, other._begins))
        self._ends = np.concatenate((self._ends, other._ends))
        return True

    def shorten(self, rows: int) -> None:
        self._begins, self._ends = self._begins[:rows], self._ends[:rows]


def find_lines(
    input_: Input, folder: str, known: KnownRows, ordered: bool
) -> Iterator[LinePiece | BrokenPiece]:
    """Every line that is not known, file after file."""
    place, entries = found_at(input_, folder)
    is_proven = len(known) > 0
    for entry in sorted(entries) if ordered else entries:
        file = LineFile(place.root, entry.key, mark_of(entry))
        try:
            for piece in _lines_of(place, entry, file, known, is_json=input_.kind == "jsonl"):
                is_proven = True
                yield piece
            is_proven = True
        except NotFound:
            continue  # It went away meanwhile: then it is no input, as if it had gone before.
        except (FileError, SpecError) as error:
            reason = own_fault(error, is_proven=is_proven)
            known.saw(entry.key, file.mark)
            if not any(each.broken for each in known.of(entry.key)):
                yield BrokenPiece({**file.params(), "begin": 0, "end": 0}, reason)


def _lines_of(
    place: Place, entry: Entry, file: LineFile, known: KnownRows, *, is_json: bool
) -> Iterator[LinePiece]:
    taken = [each for each in known.of(entry.key) if not each.broken]
    if not taken and any(each.mark == file.mark for each in known.of(entry.key)):
        known.saw(entry.key, file.mark)
        return  # It was an error as a whole, and is the same.
    row, at = _after(taken, file.mark)
    if at < entry.size_bytes or any(each.is_packed for each in taken):
        with opened_lines(place, entry.key) as lines:
            file = file._replace(is_packed=lines.is_packed)
            for begins, ends in scan(_pieces(lines.file, at), at, is_json=is_json):
                for start, end in gaps(row, row + len(begins), taken):
                    yield LinePiece(
                        file, start, begins[start - row : end - row], ends[start - row : end - row]
                    )
                row += len(begins)
    known.saw(entry.key, file.mark, row)


def _after(taken: Sequence[Range], mark: str) -> tuple[int, int]:
    """The first row that was not taken, and where it is in the file, if that is still the same."""
    row = at = 0
    for each in taken:
        if each.start != row or each.mark != mark:
            break
        row, at = each.start + each.rows, each.end
    return row, at


def _pieces(file: BinaryIO, at: int) -> Iterator[bytes]:
    file.seek(at)
    while piece := file.read(_AT_ONCE_BYTES):
        yield piece


def scan(pieces: Iterator[bytes], at: int, *, is_json: bool) -> Iterator[tuple[Offsets, Offsets]]:
    """Where lines begin and end, in bytes, as the pieces of a file come. The first of them is at byte `at`."""
    import numpy as np

    begin = at
    filled = False  # Whether there is something in the line so far, for JSON.
    for piece in pieces:
        if at == 0 and piece.startswith(BOM):
            piece = piece[len(BOM) :]
            at = begin = len(BOM)
        data = np.frombuffer(piece, np.uint8)
        breaks = np.flatnonzero(data == ord("\n"))
        if len(breaks):
            ends = breaks + (at + 1)
            begins = np.concatenate((np.array([begin], np.int64), ends[:-1]))
            if is_json:
                kept = _filled(data, breaks)
                kept[0] |= filled
                begins, ends = begins[kept], ends[kept]
            rest = piece[breaks[-1] + 1 :]
            begin, filled = at + len(piece) - len(rest), False
            if len(begins):
                yield begins, ends
        else:
            rest = piece
        filled = filled or bool(rest.strip(SPACES))
        at += len(piece)
    if begin < at and (filled or not is_json):
        yield np.array([begin], np.int64), np.array([at], np.int64)


def _filled(
    data: np.ndarray[Any, np.dtype[np.uint8]], breaks: Offsets
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which of the lines that end at these breaks are more than spaces. The first may have begun before the data."""
    import numpy as np

    starts = np.concatenate((np.zeros(1, np.int64), breaks[:-1] + 1))
    if (data[starts] > ord(" ")).all():  # As nearly always.
        return np.ones(len(breaks), np.bool_)
    is_space = np.isin(data[: breaks[-1] + 1], np.frombuffer(SPACES, np.uint8))
    return np.add.reduceat(~is_space, starts, dtype=np.int64) > 0

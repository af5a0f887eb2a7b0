"""Rows by ranges: lines of text, JSON and CSV, and row groups of Parquet. A row that is wrong costs itself."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, BinaryIO

from shoal.work.inputs.places import one_line, partitions
from shoal.work.protocols import Unreadable
from shoal.work.records.line_source import Line, Lines
from shoal.work.records.record import LARGEST_BYTES, ROW, BadRecord, Extent, Headers, Range

_BATCH_ROWS = 1024
_SPACES = b" \t\r\n"
_DELIMITERS = ",\t;|"
_HEADER_LINES = 100


class _NoHeaders:
    def get(self, name: str, default: str | None = None) -> str | None:
        return default


_NONE = _NoHeaders()


class Row:
    """See `Record`: a row of a table. Its text is the column `text`, its address the column `url`."""

    __slots__ = ("_row", "offset")

    type = ROW
    http = None
    status = None
    media_type = ""
    headers: Headers = _NONE

    def __init__(self, offset: int, row: Mapping[str, Any]) -> None:
        self.offset, self._row = offset, row

    @property
    def row(self) -> Mapping[str, Any]:
        return self._row

    @property
    def url(self) -> str:
        url = self.row.get("url")
        return url if isinstance(url, str) else ""

    def body(self) -> bytes:
        return self.text().encode("utf-8", "replace")

    def text(self) -> str:
        text = self.row.get("text")
        return text if isinstance(text, str) else ""


class TextLine(Row):
    """A line of text: UTF-8, what is not is replaced."""

    __slots__ = ("_line", "_more")

    def __init__(self, line: Line, more: Mapping[str, str]) -> None:
        self.offset, self._line, self._more = line.offset, line.data, more

    @property
    def row(self) -> Mapping[str, Any]:
        return {"text": self.text(), **self._more}

    def body(self) -> bytes:
        return self._line.removesuffix(b"\r")

    def text(self) -> str:
        return str(self.body(), "utf-8", "replace")


class JsonLine(Row):
    """A line with a JSON object, which is parsed when it is asked for."""

    __slots__ = ("_line", "_more", "_parsed")

    def __init__(self, line: Line, more: Mapping[str, str]) -> None:
        self.offset, self._line, self._more = line.offset, line.data, more
        self._parsed: Mapping[str, Any] | None = None

    @property
    def row(self) -> Mapping[str, Any]:
        if self._parsed is None:
            self._parsed = {**_object(self._line), **self._more}
        return self._parsed


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except UnicodeDecodeError:
        raise Unreadable("not UTF-8") from None
    except json.JSONDecodeError as error:
        raise Unreadable(f"not valid JSON: {error.msg} at character {error.pos + 1}") from None
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"not usable JSON: {one_line(error)}") from None
    if not isinstance(found, dict):
        raise Unreadable("not a JSON object")
    return found


class LineReader:
    """Lines of text or JSON of one range, once. `extent` is right when all of them have been taken; then the file is
    closed, as those of the other readers."""

    def __init__(self, file: BinaryIO, range_: Range, format_: str, bad: Callable[[BadRecord], None]) -> None:
        self._file = file
        self._lines = Lines(file, range_, lambda offset, reason: bad(BadRecord(range_.path, offset, reason)))
        self._is_json, self._more = format_ == "jsonl", partitions(range_.path)

    @property
    def extent(self) -> Extent:
        return self._lines.extent

    def __iter__(self) -> Iterator[Row]:
        stop, more = self._lines.stop, self._more
        with self._file:
            for line in self._lines:
                if line.offset >= stop:
                    break
                if not self._is_json:
                    yield TextLine(line, more)
                elif line.data.strip(_SPACES):
                    yield JsonLine(line, more)


class CsvReader:
    """Rows of a CSV file with a header, of one range. Line feeds may be in quotes; so a gzip file is one range."""

    def __init__(self, file: BinaryIO, range_: Range, bad: Callable[[BadRecord], None]) -> None:
        self._file, self._range, self._report = file, range_, bad
        self._more = partitions(range_.path)
        self._lines = Lines(file, range_, self._say)
        self._is_packed = self._lines.is_packed
        self._next = 0
        """Where the line begins that is taken next."""
        self.extent = self._lines.extent

    def __iter__(self) -> Iterator[Row]:
        with self._file:
            yield from self._rows()

    def _rows(self) -> Iterator[Row]:
        if self._is_packed and self._range.start > 0:
            return
        csv.field_size_limit(LARGEST_BYTES)
        names, delimiter = self._header()
        lines = iter(self._lines)
        line = next(lines, None)
        if line is None:
            return
        texts = self._texts(chain((line,), lines))
        rows = csv.reader(texts, delimiter=delimiter)
        self._next = begin = line.offset
        is_header = self._range.start == 0
        while begin < self._lines.stop or self._is_packed:
            try:
                row = next(rows)
            except StopIteration:
                self._next = self._lines.extent.end
                break
            except csv.Error as error:
                self._say(begin, f"not valid CSV: {error}")
                rows, row = csv.reader(texts, delimiter=delimiter), []
            if len(row) == len(names) and not is_header:
                yield Row(begin, {**dict(zip(names, row, strict=True)), **self._more})
            elif row and not is_header:
                self._say(begin, f"it has {len(row)} fields, and the header {len(names)}")
            is_header, begin = False, self._next
        self.extent = Extent(self._lines.extent.first, self._next)

    def _header(self) -> tuple[Sequence[str], str]:
        lines = Lines(self._file, self._range._replace(start=0, stop=1), lambda offset, reason: None)
        texts = list(islice(self._texts(lines), _HEADER_LINES))
        delimiter = max(_DELIMITERS, key="".join(texts[:1]).count)
        return next(csv.reader(texts, delimiter=delimiter), []), delimiter

    def _texts(self, lines: Iterable[Line]) -> Iterator[str]:
        for line in lines:
            self._next = line.offset + len(line.data) + (0 if self._is_packed else 1)
            yield str(line.data, "utf-8", "replace") + "\n"

    def _say(self, offset: int, reason: str) -> None:
        self._report(BadRecord(self._range.path, offset, reason))


class ParquetReader:
    """Rows of the row groups that begin in one range. `extent` is right when all of them have been taken."""

    def __init__(self, file: BinaryIO, range_: Range, bad: Callable[[BadRecord], None]) -> None:
        self._file, self._range, self._report = file, range_, bad
        self._more = partitions(range_.path)
        self.extent = Extent(None, range_.stop)

    def __iter__(self) -> Iterator[Row]:
        with self._file:
            yield from self._rows()

    def _rows(self) -> Iterator[Row]:
        import pyarrow
        import pyarrow.parquet

        wrong = (pyarrow.ArrowException, OSError, ValueError)
        try:
            file = pyarrow.parquet.ParquetFile(self._file, page_checksum_verification=True)
        except wrong as error:
            if self._range.start == 0:
                self._say(0, f"cannot be read as Parquet: {one_line(error)}")
            return
        starts = [_start(file.metadata.row_group(index)) for index in range(file.num_row_groups)]
        mine = [index for index, start in enumerate(starts) if self._range.start <= start < self._range.stop]
        if not mine:
            return
        ends = [*starts, self._file.seek(0, 2)]
        self.extent = Extent(starts[mine[0]], ends[mine[-1] + 1])
        for index in mine:
            try:
                for batch in file.iter_batches(_BATCH_ROWS, row_groups=[index], use_threads=False):
                    for row in batch.to_pylist():
                        yield Row(starts[index], {**row, **self._more} if self._more else row)
            except wrong as error:
                self._say(starts[index], f"its row group cannot be read: {one_line(error)}")

    def _say(self, offset: int, reason: str) -> None:
        self._report(BadRecord(self._range.path, offset, reason))


def _start(group: Any) -> int:
    """Where a row group begins in its file."""
    columns = [group.column(index) for index in range(group.num_columns)]
    offsets = [
        each.dictionary_page_offset if each.has_dictionary_page else each.data_page_offset for each in columns
    ]
    return min(offsets, default=0)

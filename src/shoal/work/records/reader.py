"""The one door to records: any format, any compression, any storage, by ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, Protocol

from shoal.work.protocols import Unreadable
from shoal.work.records.filters import Filter
from shoal.work.records.record import BadRecord, Extent, Range, Record

ARCHIVES = frozenset(("warc", "wet", "wat"))
FORMATS = (*sorted(ARCHIVES), "text", "jsonl", "csv", "parquet")
"""What the keys of an input call formats. How a file is compressed, its content says."""


class Opener(Protocol):
    """Where the files of ranges are."""

    def path(self, range_: Range) -> str:
        """The path of the file, as a person would write it."""

    def open(self, range_: Range) -> BinaryIO:
        """The file, to be closed by the caller. Raises `Unreadable` where it is gone, or is not what was listed."""


class Parts(Protocol):
    """The records of a file's range. Closes the file in the end."""

    @property
    def extent(self) -> Extent: ...

    def __iter__(self) -> Iterator[Record]: ...


class Reader:
    """The records of one range, once, as `for record in Reader(...)`. Blocks; one thread at a time.

    Bad records, and files that cannot be used, are told to `bad`; a storage that cannot be reached raises `FileError`.
    A record that `body`, `text` or `row` find unusable raises `Unreadable` there: the caller tells it to `tell`.
    """

    def __init__(
        self,
        opener: Opener,
        range_: Range,
        format_: str,
        wanted: frozenset[str] | None,
        keep: Filter | None,
        bad: Callable[[BadRecord], None],
    ) -> None:
        """`wanted` are types of records of an archive, None for all; `keep` says which of them."""
        self._opener, self._range, self._format = opener, range_, format_
        self._wanted, self._keep, self._bad = wanted, keep, bad
        self._path = opener.path(range_)
        self._taken: Parts | None = None

    @property
    def extent(self) -> Extent:
        """Where it was read; right when all records have been taken."""
        return Extent(None, self._range.stop) if self._taken is None else self._taken.extent

    def __iter__(self) -> Iterator[Record]:
        try:
            file = self._opener.open(self._range)
        except Unreadable as error:
            self._bad(BadRecord(self._path, self._range.start, str(error)))
            return iter(())
        self._taken = parts = self._parts(file)
        if (
            self._keep is None or self._format in ARCHIVES
        ):  # An archive's reader does it itself: it knows the types.
            return iter(parts)
        return self._accepted(parts, self._keep)

    def tell(self, record: Record, reason: str) -> None:
        """Report a record as bad."""
        self._bad(BadRecord(self._path, record.offset, reason))

    def _accepted(self, parts: Parts, keep: Filter) -> Iterator[Record]:
        for record in parts:
            try:
                is_kept = keep.accepts(record)
            except Unreadable as error:
                self.tell(record, str(error))
            else:
                if is_kept:
                    yield record

    def _parts(self, file: BinaryIO) -> Parts:
        range_ = self._range._replace(path=self._path)
        if self._format in ARCHIVES:
            from shoal.work.records.archive_reader import ArchiveReader

            return ArchiveReader(file, range_, self._wanted, self._keep, self._bad)
        from shoal.work.records.row_ranges import CsvReader, LineReader, ParquetReader

        if self._format == "parquet":
            return ParquetReader(file, range_, self._bad)
        if self._format == "csv":
            return CsvReader(file, range_, self._bad)
        return LineReader(file, range_, self._format, self._bad)

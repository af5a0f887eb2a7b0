"""Records of a range of a web archive, with FastWARC. Damage costs the records that it is in, and is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from operator import or_
from typing import Any, BinaryIO

from shoal.work.protocols import Unreadable
from shoal.work.records.archive_frames import END_ID, Framing, framing_of
from shoal.work.records.archive_record import LONGEST_HEADERS, TYPES, ArchiveRecord
from shoal.work.records.filters import Filter
from shoal.work.records.record import BadRecord, Extent, Range

_ALL = frozenset(TYPES)
_ARC = b"filedesc:"


class ArchiveReader:
    """The records of one range, once. `extent` is right when all of them have been taken; then the file is closed."""

    def __init__(
        self,
        file: BinaryIO,
        range_: Range,
        wanted: frozenset[str] | None,
        keep: Filter | None,
        bad: Callable[[BadRecord], None],
    ) -> None:
        self._file, self._range, self._keep, self._report = file, range_, keep, bad
        self._wanted = _ALL if wanted is None else wanted
        self._size = file.seek(0, 2)
        self._stop = min(range_.stop, self._size)
        self.extent = Extent(None, self._stop)

    def __iter__(self) -> Iterator[ArchiveRecord]:
        """One loop, as every call costs: each turn of the outer one goes on behind something that is wrong."""
        with self._file:
            try:
                framing, head = framing_of(self._file)
            except Unreadable as error:
                self._say(0, str(error))
                return
            begin = framing.next_start(self._file, self._range.start, self._stop)
            self._check_head(framing, head, begin)
            self.extent = Extent(begin, self._stop)
            keep = self._keep
            while begin is not None:
                way = _Way(self._file, begin, self._stop, framing, self._wanted)
                where, source, record = way.where, way.source, ArchiveRecord(way)
                offset = begin
                try:
                    for raw in way.records:
                        offset = raw.stream_pos if where is None else where()
                        if offset == source.end and raw.record_id == END_ID:
                            self.extent = self.extent._replace(end=offset)
                            return
                        record.raw, record.offset = raw, offset
                        if keep is None or self._accepts(keep, record):
                            yield record
                except BaseException as error:  # noqa: BLE001 - raised again, if it is not of the library
                    way.reason(error)
                begin = self._after_damage(framing, offset, record)

    def _after_damage(self, framing: Framing, begin: int, record: ArchiveRecord) -> int | None:
        """Find out which record from `begin` on is not whole, and where the next one begins."""
        last, reason = self._last(framing, begin)
        reason_to_say = None if record.is_bad and record.offset == last else reason
        end = None if last is None else framing.frame_end(self._file, last, self._size)
        if last is None or end is None:
            at = begin if last is None else last
            self._say(at, reason_to_say)
            return self._go_on(framing, at + 1)
        if end < self._size and not framing.is_start(self._file, end):
            self._say(end, "no record begins where the one before it ends")
            return self._go_on(framing, end + 1)
        if end >= self._stop or self._last(framing, end, only_first=True)[0] is not None:
            self._say(last, reason_to_say)
        if end < self._stop:
            return end
        self.extent = self.extent._replace(end=end)
        return None

    def _last(self, framing: Framing, begin: int, *, only_first: bool = False) -> tuple[int | None, str]:
        """Where the last record begins that can be read from here on, and why no other can. None: not even one."""
        way = _Way(self._file, begin, self._stop, framing, _ALL)
        last = None
        try:
            for raw in way.records:
                last = raw.stream_pos if way.where is None else way.where()
                if only_first:
                    break
        except BaseException as error:  # noqa: BLE001 - raised again, if it is not of the library
            return last, way.reason(error)
        return last, "it is longer or shorter than it says, or breaks off"

    def _go_on(self, framing: Framing, low: int) -> int | None:
        found = framing.next_start(self._file, low, self._stop)
        if found is None:
            end = framing.next_start(self._file, max(low, self._stop), self._size)
            self.extent = self.extent._replace(end=self._size if end is None else end)
        return found

    def _accepts(self, keep: Filter, record: ArchiveRecord) -> bool:
        try:
            return keep.accepts(record)
        except Unreadable as error:
            self._say(record.offset, str(error))
            return False

    def _check_head(self, framing: Framing, head: int, begin: int | None) -> None:
        """Say what is wrong with a file that does not begin as it should; the first range does."""
        if self._range.start > 0:
            if self._range.is_exact and begin != self._range.start:
                self._say(self._range.start, "no record begins here")
            return
        if self._size == 0:
            self._say(0, "the file is empty")
        elif framing.shown(self._file, len(_ARC)) == _ARC:
            self._say(0, "it is an ARC file; only WARC is read")
        elif begin != head:
            self._say(0, "it does not begin with a record of a web archive")
        elif framing.is_lax:
            self._say(
                0,
                "its headers end lines with LF alone: lengths are not to be relied on, records may be missing",
            )

    def _say(self, offset: int, reason: str | None) -> None:
        if reason is not None:
            self._report(BadRecord(self._range.path, offset, reason))


class _Way:
    """See `Way`: through a range, from one record on."""

    def __init__(
        self, file: BinaryIO, begin: int, stop: int, framing: Framing, wanted: frozenset[str]
    ) -> None:
        from fastwarc import ArchiveIterator, WarcRecordType

        types = reduce(or_, (getattr(WarcRecordType, name) for name in wanted))
        self.source = _Source(file, begin, stop, framing, framing.end(min(wanted)))
        self._file, self._framing, self._reader = file, framing, framing.reader(self.source)
        self.where: Callable[[], int] | None = getattr(self._reader, "frame_start_position", None)
        """Where the record begins that was just given; None for a plain file, where the record says it."""
        self.frame = self.where if framing.keeps_its_place else None
        self.records: Iterator[Any] = ArchiveIterator(
            self._reader,
            types,
            parse_http=False,
            stream_detect=False,
            quirks_mode=framing.is_lax,
            max_header_len=LONGEST_HEADERS,
        )

    def breaks_off(self, offset: int) -> bool:
        end = self.source.end
        if end is None or offset >= end:
            return False
        if self._framing.is_gzip:  # Others say where a frame ends without decompressing it.
            return int(self._reader.inner_tell()) > end
        return self._framing.frame_end(self._file, offset, end) is None

    def reason(self, error: BaseException) -> str:
        if self.source.error is not None:
            raise self.source.error
        if type(error).__name__ == "PanicException":  # Which is no `Exception`.
            return "it cannot be decompressed"
        if not isinstance(error, (OSError, ValueError)):
            raise error
        return str(error).splitlines()[0]

    def runs_into_another(self, offset: int) -> bool:
        at = self.source.tell()
        end = self._framing.frame_end(self._file, offset, at)
        is_another = end is not None and (end == self.source.end or self._framing.is_start(self._file, end))
        self._file.seek(at)
        return is_another


class _Source:
    """See `Source`: up to the first record that begins at `stop` or later, and then `after`."""

    def __init__(self, file: BinaryIO, begin: int, stop: int, framing: Framing, after: bytes) -> None:
        file.seek(begin)
        self._file, self._at, self._stop, self._framing, self._after = file, begin, stop, framing, after
        self.end: int | None = None
        """Where `after` begins, once that is known."""
        self.error: Exception | None = None
        """What went wrong with the file itself: the library makes an error of its own of it."""

    def tell(self) -> int:
        return self._at

    def read(self, size: int) -> bytes:
        if self.end is not None:
            data, self._after = self._after, b""
            return data
        try:
            data = self._file.read(size)
            begin, self._at = self._at, self._at + len(data)
            return data if self._at <= self._stop and data else self._to_the_end(data, begin)
        except Exception as error:
            self.error = error
            raise

    def _to_the_end(self, data: bytes, begin: int) -> bytes:
        """As much of this as belongs to the range."""
        self.end = self._framing.next_start(self._file, max(begin, self._stop), self._at) if data else begin
        if self.end is None:
            self._file.seek(self._at)
            return data
        return data[: self.end - begin] or self.read(0)

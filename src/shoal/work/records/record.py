"""What reading and jobs share: a record, a range of a file, where a range was really read, and what was wrong.

How records are read is not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

LARGEST_BYTES = 64 * 1024 * 1024
"""Of a body after decoding, and of a line. What is larger is a bad record."""
ROW = "row"
"""The type of a record that is a line or a row of a table."""


class Headers(Protocol):
    """Headers of an archive's record, or of the HTTP response in it. Names go without regard to case."""

    def get(self, name: str, default: str | None = None) -> str | None:
        """The first header with this name, stripped."""


class Record(Protocol):
    """One record, as a job's `map` gets it: all but type and offset is computed when it is asked for.

    A record can be used until the next one is asked for. `url`, `body`, `text` and `row` raise `Unreadable` for a
    record that cannot be used; whoever calls `map` reports it as bad and goes on.
    """

    @property
    def type(self) -> str:
        """The type of an archive's record ("response", "conversion", "metadata"), or `ROW`."""

    @property
    def offset(self) -> int:
        """Where it begins in the stored file: the gzip member or frame it is in, or the row group."""

    @property
    def url(self) -> str:
        """`WARC-Target-URI`, or empty."""

    @property
    def headers(self) -> Headers:
        """Of the archive's record; a row has none."""

    @property
    def http(self) -> Headers | None:
        """Of the HTTP response in the record; None where there is none."""

    @property
    def status(self) -> int | None:
        """Of the HTTP response."""

    @property
    def media_type(self) -> str:
        """Of the HTTP `Content-Type`: lower case, without parameters; empty where there is none."""

    def body(self) -> bytes:
        """The payload after transfer and content decoding, at most `LARGEST_BYTES`."""

    def text(self) -> str:
        """The body as text: by the charset of the header, or the one that is detected; what is wrong is replaced."""

    @property
    def row(self) -> Mapping[str, Any]:
        """The columns of a row; of a line of text, `text`. An archive's record has none."""


class BadRecord(NamedTuple):
    """A record that could not be used, and why, in one line."""

    path: str
    offset: int
    reason: str


class Range(NamedTuple):
    """Bytes of a stored file, from `start` to before `stop`: what begins there is read, to its end.

    Of a Parquet file, row groups are what begins. `mark` is another one when the file is another one; empty where that
    is not known.
    """

    path: str
    """The key of the file in its storage."""
    start: int
    stop: int
    mark: str = ""
    root: str = "."
    """The storage, as `Places` knows it: a folder, or a URL."""
    is_exact: bool = False
    """An index says that one record is here: only these bytes are read, and the range has no neighbours."""


class Extent(NamedTuple):
    """Where a range was really read. Neighbours meet: where one ended, the next that has records began."""

    first: int | None
    """Where its first record began; None where none did."""
    end: int
    """Where what follows begins, or the end of the file."""

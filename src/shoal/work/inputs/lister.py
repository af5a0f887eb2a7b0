"""The thread that lists, and the line of what it found, from which items are cut. Knows kinds of input by name only."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from shoal.spec.shared_sections import Input
from shoal.work.inputs.base import Changes, Listing, Piece
from shoal.work.inputs.known import KnownFiles, KnownRows
from shoal.work.inputs.places import check_address

MOST_WAITING = 65_536
"""What may be found ahead of what is taken, by weight: some tens of megabytes."""
_JOINED = 1024
_END_S = 1.0


class Finds(Protocol):
    """A kind of input, as it is listed."""

    def __call__(self) -> Iterator[Piece]:
        """Find the files, and what is in them that is not known. Raises `FileError` and `SpecError`."""


def begun(
    input_: Input,
    folder: str,
    known: Iterable[Mapping[str, Any]],
    ordered: bool,
    limit: int | None,
    now: Callable[[], float],
) -> Listing:
    """See `listing`."""
    check_address(input_, folder)
    if input_.kind == "images":
        from shoal.work.inputs.image_files import find_images

        files = KnownFiles(known)
        return Found(lambda: find_images(input_, folder, files, ordered), files, limit, now)
    if input_.kind == "parquet":
        from shoal.work.inputs.parquet_files import find_rows

        rows = KnownRows(known, "of")
        return Found(lambda: find_rows(input_, folder, rows, ordered), rows, limit, now)
    from shoal.work.inputs.line_files import find_lines

    lines = KnownRows(known, "end")
    return Found(lambda: find_lines(input_, folder, lines, ordered), lines, limit, now)


class Found:
    """See `Listing`."""

    def __init__(
        self, finds: Finds, known: KnownFiles | KnownRows, limit: int | None, now: Callable[[], float]
    ) -> None:
        self._finds, self._known, self._limit, self._now = finds, known, limit, now
        self._line: deque[Piece] = deque()
        self._weight = 0
        self._changed = threading.Condition()
        """Guards all that follows, and tells the thread of room."""
        self._found = self._taken = len(known)
        self._spent_s = 0.0
        self._since_s: float | None = now()
        self._error: Exception | None = None
        self._is_complete = self._is_closed = False
        self._result = Changes()
        self._thread = threading.Thread(target=self._run, name="shoal-listing", daemon=True)
        self._thread.start()

    def take(self, rows: int) -> Mapping[str, Any] | None:
        with self._changed:
            if self._error is not None:
                raise self._error
            return self._cut(rows) if self._line and rows > 0 else None

    def found(self) -> int:
        return self._found

    def taken(self) -> int:
        return self._taken

    def complete(self) -> bool:
        return self._is_complete

    def finished(self) -> bool:
        with self._changed:
            return self._is_complete and not self._line

    def changes(self) -> Changes:
        return self._result

    def seconds(self) -> float:
        with self._changed:
            return self._spent_s + (0.0 if self._since_s is None else self._now() - self._since_s)

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(
            _END_S
        )  # It may wait for a server: then it ends with the answer, or with the process.

    def _cut(self, rows: int) -> dict[str, Any]:
        first = self._line[0]
        weight = first.weight()
        while len(first) < rows and len(self._line) > 1:
            following = self._line[1]
            added = following.weight()
            if not first.join(following):
                break
            weight += added
            del self._line[1]
        count = len(first)
        params = first.cut(rows)
        self._taken += count - len(first)
        self._weight -= weight
        if len(first):
            self._weight += first.weight()
        else:
            self._line.popleft()
        self._changed.notify()
        return params

    def _run(self) -> None:
        try:
            seen_all = self._list()
        except Exception as error:  # noqa: BLE001 - it comes out of `take`
            with self._changed:
                self._error = error
        else:
            with self._changed:
                self._result = self._known.changes(self._found - len(self._known), seen_all=seen_all)
                self._is_complete = not self._is_closed
        with self._changed:
            self._rest()

    def _list(self) -> bool:
        """Whether the end was reached, and not a limit."""
        for piece in self._finds():
            left = None if self._limit is None else self._limit - self._found
            if left is not None and left <= 0:
                return False
            if left is not None and left < len(piece):
                piece.shorten(left)
            if not self._wait_in_line(piece):
                return False
            if left is not None and left <= len(piece):
                return False
        return True

    def _wait_in_line(self, piece: Piece) -> bool:
        """Add it as soon as there is room. False when nobody wants it any more."""
        count = len(piece)
        with self._changed:
            if self._weight >= MOST_WAITING and not self._is_closed:
                self._rest()
                self._changed.wait_for(lambda: self._weight < MOST_WAITING or self._is_closed)
                self._since_s = self._now()
            last = self._line[-1] if self._line else None
            self._weight += piece.weight()
            if last is None or len(last) >= _JOINED or not self._joined(last, piece):
                self._line.append(piece)
            self._found += count
            return not self._is_closed

    def _joined(self, last: Piece, piece: Piece) -> bool:
        before = last.weight() + piece.weight()
        if not last.join(piece):
            return False
        self._weight += last.weight() - before
        return True

    def _rest(self) -> None:
        """Listing pauses, or is over."""
        if self._since_s is not None:
            self._spent_s += self._now() - self._since_s
            self._since_s = None

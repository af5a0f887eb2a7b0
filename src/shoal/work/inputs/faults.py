"""What goes wrong with files while inputs are read: a file that cannot be used is one input, and an error."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from shoal.errors import AccessDenied, FileError, NotFound, ShoalError, SpecError
from shoal.work.inputs.base import Piece
from shoal.work.protocols import Unreadable

VANISHED = "vanished since it was listed"
CHANGED = "the file was changed since it was listed"
_OF_THE_FILE = frozenset((errno.EIO, errno.ELOOP, errno.ENAMETOOLONG))


@contextmanager
def blamed() -> Iterator[None]:
    """Errors of a file become `Unreadable`. What is wrong with a storage, or with who we are to it, stays an error."""
    try:
        yield
    except NotFound as error:
        raise Unreadable(VANISHED) from error
    except AccessDenied as error:
        if error.is_general:
            raise
        raise Unreadable(one_line(error)) from error
    except SpecError as error:  # A key that no storage takes.
        raise Unreadable(one_line(error)) from error
    except FileError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _OF_THE_FILE:
            raise Unreadable(one_line(error)) from error
        raise


def one_line(error: BaseException) -> str:
    """The first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class BrokenPiece:
    """See `Piece`: a file that cannot be read is one input, which is an error. How many rows it has, nobody knows."""

    def __init__(self, file: Mapping[str, Any], reason: str) -> None:
        self._params = {**file, "start": 0, "rows": 1, "broken": reason}
        self._left = 1

    def __len__(self) -> int:
        return self._left

    def weight(self) -> int:
        return 8

    def cut(self, rows: int) -> dict[str, Any]:
        self._left = 0
        return self._params

    def join(self, other: Piece) -> bool:
        return False

    def shorten(self, rows: int) -> None:
        self._left = min(self._left, rows)


def own_fault(error: ShoalError, *, is_proven: bool) -> str:
    """Why the file that was looked at cannot be used; raises what is not its fault alone.

    Until one file was as it should be (`is_proven`), what is asked for may be what is wrong, and that is an error.
    """
    if not is_proven:
        raise error
    try:
        with blamed():
            raise error
    except Unreadable as found:
        return str(found)

"""Files that cannot be used as what they are to be, among others that can: each is one input, which is an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.errors import ShoalError
from shoal.work.inputs.base import Piece
from shoal.work.inputs.faults import blamed
from shoal.work.protocols import Unreadable


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

"""What a listing is, and the pieces it is made of. No behaviour here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol


class Changes(NamedTuple):
    """How the inputs differ from those that earlier sessions took. Of a file of rows, all of them count as changed."""

    new: int = 0
    """Not taken before, be it that they were not there or that the session ended too soon."""
    changed: int = 0
    gone: int = 0


class Listing(Protocol):
    """Inputs as they are found, cut into items. Found by a thread of its own; no call blocks for long.

    Called by one thread. Inputs that earlier sessions took count as found and as taken.
    """

    def take(self, rows: int) -> Mapping[str, Any] | None:
        """Params of the next item with at most so many inputs; None when there is nothing now.

        Fewer where that is all there is now, where a file or a row group ends, or where they are large. Once listing
        has failed, every call raises what went wrong: `NotFound`, `AccessDenied`, `Unreachable`, `SpecError`.
        """

    def found(self) -> int:
        """Inputs found so far, taken or not."""

    def taken(self) -> int:
        """Inputs in items."""

    def complete(self) -> bool:
        """Whether all inputs have been found."""

    def finished(self) -> bool:
        """Whether `take` will never give anything again: complete, and everything taken."""

    def changes(self) -> Changes:
        """On a resume, once complete; nothing changed before that. Where a limit ended the listing, what was seen."""

    def seconds(self) -> float:
        """Spent listing so far; waiting for somebody to take what was found does not count."""

    def close(self) -> None:
        """Stop listing. May be called twice, and by another thread."""


class Piece(Protocol):
    """Inputs that were found together and are not taken yet: in one file, or files that are inputs themselves."""

    def __len__(self) -> int: ...

    def weight(self) -> int:
        """What it takes in memory, roughly, in files with a name: how much may wait is bounded."""

    def cut(self, rows: int) -> dict[str, Any]:
        """The first of them, at least one and at most so many, as params of an item; the piece is without them then."""

    def join(self, other: Piece) -> bool:
        """Take over what was found next, if it can be in one item with these; whether it could."""

    def shorten(self, rows: int) -> None:
        """Keep only so many of them, the first."""

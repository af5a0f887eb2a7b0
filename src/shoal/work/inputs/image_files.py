"""Images, and whatever else is in a folder: every file is an input, and what it is shows when it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shoal.spec.shared_sections import Input
from shoal.work.inputs.base import Piece
from shoal.work.inputs.known import KnownFiles
from shoal.work.inputs.places import Place, blamed, found_at, mark_of


class FilePiece:
    """See `Piece`."""

    def __init__(self, root: str, key: str, mark: str) -> None:
        self._root = root
        self._keys, self._marks = [key], [mark]

    def __len__(self) -> int:
        return len(self._keys)

    def weight(self) -> int:
        return len(self._keys)

    def cut(self, rows: int) -> dict[str, Any]:
        params = {"root": self._root, "files": self._keys[:rows], "marks": self._marks[:rows]}
        del self._keys[:rows], self._marks[:rows]
        return params

    def join(self, other: Piece) -> bool:
        if not isinstance(other, FilePiece):
            return False
        self._keys += other._keys
        self._marks += other._marks
        return True

    def shorten(self, rows: int) -> None:
        del self._keys[rows:], self._marks[rows:]


def find_images(input_: Input, folder: str, known: KnownFiles, ordered: bool) -> Iterator[FilePiece]:
    """Every file that is not known; in the order of their keys only when they have all been found."""
    place, entries = found_at(input_, folder)
    found = ((entry.key, mark_of(entry)) for entry in entries)
    fresh = ((key, mark) for key, mark in found if not known.saw(key, mark))
    for key, mark in sorted(fresh) if ordered else fresh:
        yield FilePiece(place.root, key, mark)


class Images:
    """See `Opened`. Nothing is kept: each file is read when it is asked for."""

    def __init__(self, place: Place, params: Mapping[str, Any]) -> None:
        self._place = place
        self._keys: Sequence[str] = params["files"]

    def __len__(self) -> int:
        return len(self._keys)

    def keys(self, positions: Sequence[int]) -> dict[str, Sequence[Any]]:
        return {"path": [self._place.path(self._keys[position]) for position in positions]}

    def where(self, position: int) -> str:
        return self._place.path(self._keys[position])

    def read(self, position: int) -> bytes:
        with blamed():
            return self._place.storage.read(self._keys[position])

"""Rows to items: typed values, the texts that cannot be had from them, and the digest by which a row is known again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shoal.model import Item
from shoal.spec.cell import Cell, text_of
from shoal.work.digest import digest


def content_of(columns: Sequence[str], row: Sequence[Cell]) -> str:
    """Equal for rows with the same texts in the same columns, in whatever order the columns stand."""
    parts = sorted(zip(columns, (cell.text for cell in row), strict=True))
    return digest("\x1f".join([f"{name}\x1e{value}" for name, value in parts]))


def make_item(seq: int, columns: Sequence[str], row: Sequence[Cell], content: str, occurrence: int) -> Item:
    values = [cell.value for cell in row]
    texts = {
        name: cell.text for name, cell in zip(columns, row, strict=True) if cell.text != text_of(cell.value)
    }
    return Item(
        seq, item_id(seq), dict(zip(columns, values, strict=True)), texts or None, content, occurrence
    )


def item_id(seq: int) -> str:
    return f"t{seq:04d}"


class Occurrences:
    """Counts equal contents, small enough for a million of them."""

    def __init__(self) -> None:
        self._once: set[int] = set()
        self._more: dict[int, int] = {}

    def next(self, content: str) -> int:
        """Which occurrence of this content comes now, from 0."""
        key = int(content, 16)
        if key not in self._once:
            self._once.add(key)
            return 0
        self._more[key] = self._more.get(key, 0) + 1
        return self._more[key]


def numbered(
    columns: Sequence[str], rows: Iterator[Sequence[Cell]]
) -> Iterator[tuple[Sequence[Cell], str, int]]:
    """Each row with its content and which occurrence of it this is."""
    occurrences = Occurrences()
    for row in rows:
        content = content_of(columns, row)
        yield row, content, occurrences.next(content)

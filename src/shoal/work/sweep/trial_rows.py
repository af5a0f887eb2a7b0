"""Trials that are written down beforehand: the rows of a table or a grid, and rows as items with a digest."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shoal.model import Item, Outcome
from shoal.model.item import digest
from shoal.spec.command import Cell, text_of
from shoal.work.job import Past
from shoal.work.tables.table import Table

FIRST_BLOCK = 200
BLOCK = 2000
"""Rows taken at a time: enough for the pool to choose from, few enough not to hold it up."""


class Rows:
    """The trials, as often as they are asked for."""

    def __init__(self, columns: Sequence[str], repeat: int, count: int) -> None:
        self.columns = tuple(columns)
        self.repeat = repeat
        self.count = count

    def once(self) -> Iterator[Sequence[Cell]]:
        raise NotImplementedError

    def all(self) -> Iterator[Sequence[Cell]]:
        """Every row, then every row again: with `repeat`, each has one result before any has two."""
        for _ in range(self.repeat):
            yield from self.once()

    def contents(self) -> Counter[str]:
        return Counter(content_of(self.columns, row) for row in self.all())


class TableRows(Rows):
    def __init__(self, table: Table, repeat: int) -> None:
        super().__init__(table.columns, repeat, table.count)
        self._table = table

    def once(self) -> Iterator[Sequence[Cell]]:
        return self._table.rows()

    def digest(self) -> str:
        """Another one where a row is another one, or stands elsewhere."""
        return digest(" ".join([*self.columns, *(content_of(self.columns, row) for row in self.once())]))


class GridRows(Rows):
    def __init__(self, grid: Mapping[str, Sequence[Cell]], repeat: int) -> None:
        count = 1
        for values in grid.values():
            count *= len(values)
        super().__init__(tuple(grid), repeat, count)
        self._grid = grid

    def once(self) -> Iterator[Sequence[Cell]]:
        return itertools.product(*self._grid.values())


class RowSource:
    """Gives the rows that are not recorded yet, in order."""

    def __init__(self, rows: Rows, past: Past, limit: int | None) -> None:
        self._columns = rows.columns
        self._rows = numbered(rows.columns, rows.all())
        self._known = past.contents
        self._seq = past.next_seq
        self._left = rows.count * rows.repeat if limit is None else min(limit, rows.count * rows.repeat)
        self._left = max(0, self._left - sum(past.contents.values()))
        self._limit = limit
        self._taken = sum(past.contents.values())
        self._block = FIRST_BLOCK
        self._finished = False

    def take(self, most: int, workers: int) -> Sequence[Item]:
        del most, workers  # More than asked for, so that the pool can put the longest first.
        items = list(itertools.islice(self._new(), self._block))
        self._finished = len(items) < self._block
        self._block = BLOCK
        self._left = max(0, self._left - len(items))
        return items

    def _new(self) -> Iterator[Item]:
        while self._limit is None or self._taken < self._limit:
            entry = next(self._rows, None)
            if entry is None:
                return
            row, content, occurrence = entry
            if occurrence < self._known.get(content, 0):
                continue
            item = make_item(self._seq, self._columns, row, content, occurrence)
            self._seq += 1
            self._taken += 1
            yield item

    def left(self) -> int:
        return 0 if self._finished else self._left

    def finished(self) -> bool:
        return self._finished

    def progressed(self, item: Item, metrics: Mapping[str, Any], step: int | None) -> str | None:
        return None

    def ended(self, item: Item, outcome: Outcome) -> None:
        return None


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

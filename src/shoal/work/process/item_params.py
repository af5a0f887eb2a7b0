"""The items of a process run: what is recorded of each, and what comes back.

A map item reads ranges and leaves a partial. A reduce item merges partials into the result, or into one of its parts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shoal.model.item import HIDDEN, digest
from shoal.work.records.record import Extent, Range

STEP = "step"
"""What is done: one of the two that follow. People see it."""
MAP, REDUCE = "map", "reduce"
BYTES = "bytes"
"""How much of the stored files it reads. People see it, too."""
RANGES = f"{HIDDEN}ranges"
"""Of a map item: its ranges, as `listed` writes them."""
PARTIALS = f"{HIDDEN}partials"
"""Of a reduce item: what it merges, as sequence number and content of each map item."""
SHARE = f"{HIDDEN}share"
"""Of a reduce item: which share of the keys it merges, as (index, number of shares)."""
NUMBERS = f"{HIDDEN}numbers"
"""Of a reduce item: the columns of its result that are numbers."""
FACTS = f"{HIDDEN}facts"
"""What became of an item, as `Facts` is written."""


class Facts(NamedTuple):
    """What became of a map item."""

    records: int = 0
    """That the job could use."""
    errors: int = 0
    """Records that it could not use."""
    bytes: int = 0
    """Read from stored files."""
    partial_bytes: int = 0
    extents: Sequence[Extent] = ()
    """Of each of its ranges."""
    seconds: Mapping[str, float] = {}
    """By phase."""

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {**self._asdict(), "extents": [list(each) for each in self.extents]}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Facts:
        known = {name: value for name, value in document.items() if name in cls._fields}
        return cls(**{**known, "extents": [Extent(*each) for each in document["extents"]]})


def listed(ranges: Sequence[Range]) -> list[list[Any]]:
    """Ranges as JSON values."""
    return [list(each) for each in ranges]


def ranges_of(params: Mapping[str, Any]) -> list[Range]:
    return [Range(*each) for each in params[RANGES]]


def is_map(params: Mapping[str, Any]) -> bool:
    return bool(params[STEP] == MAP)


def map_params(ranges: Sequence[Range]) -> dict[str, Any]:
    return {STEP: MAP, BYTES: sum(each.stop - each.start for each in ranges), RANGES: listed(ranges)}


def reduce_params(partials: Sequence[tuple[int, str]], share: tuple[int, int], size: int) -> dict[str, Any]:
    return {
        STEP: REDUCE,
        BYTES: size,
        PARTIALS: [list(each) for each in partials],
        SHARE: list(share),
    }


def content_of(params: Mapping[str, Any]) -> str:
    """Equal for the same work."""
    return digest(json.dumps(params, sort_keys=True, ensure_ascii=True))


def item_id(params: Mapping[str, Any], seq: int) -> str:
    return f"{'m' if is_map(params) else 'r'}{seq:05d}"

"""Where the items of a process run come from: ranges of the input, then files that were cut wrongly, then the merge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from shoal.model import Item, ItemState, Outcome
from shoal.work.job import Recorded
from shoal.work.process.item_params import (
    FACTS,
    Facts,
    content_of,
    is_map,
    item_id,
    map_params,
    ranges_of,
    reduce_params,
)
from shoal.work.records.ranges import checked, cut
from shoal.work.records.record import Range

ITEMS_A_WORKER = 6
"""So many map items for each worker keep all of them busy to the end."""
LEAST_BYTES = 1 << 20
"""No map item is made smaller than this to have more of them."""
SHARE_BYTES = 1 << 30
"""Partials of about this size are merged by one item, into one file; more are cut into shares, a file each."""


MOST_RANGES = 10_000
"""Of one item."""
_File: TypeAlias = tuple[str, str]
"""The root and the path of a file."""


class _Mapped(NamedTuple):
    """A map item that is done."""

    content: str
    ranges: Sequence[Range]
    facts: Facts


class ProcessSource:
    """Keeps `Source`. Items that cut a file wrongly are left out, and the file is read again as one range."""

    def __init__(
        self,
        files: Sequence[Range],
        split: int,
        *,
        recorded: Iterable[Recorded] = (),
        next_seq: int = 1,
        limit: int | None = None,
        failures: int = 0,
        is_merged: bool = True,
    ) -> None:
        """`files` are those of the input, each as one range, or records that an index names. `failures` items may
        fail: then there is a result of the others. Without `is_merged` there are no reduce items: the driver merges."""
        self._sizes = {_file(file): file.stop for file in files if not file.is_exact}
        self._split = split
        self._seq, self._limit, self._failures, self._is_merged = next_seq, limit, failures, is_merged
        self.notes: list[str] = []
        """What a person should know of how files were cut."""
        self._mapped: dict[int, _Mapped] = {}
        self._open = 0
        """Items that have not come to their end."""
        self.failed = 0
        self._has_repaired = self._has_reduced = False
        self._taken: dict[_File, int] = {}
        self._exact: set[Range] = set()
        """Records that an index names, and that an item has."""
        for each in recorded:
            self._recall(each)
        self._left = [file for file in files if self._is_left(file)]
        self._total_bytes = sum(file.stop - file.start for file in files)
        self._pending: list[tuple[Range, ...]] | None = None

    def _recall(self, recorded: Recorded) -> None:
        item, outcome, _ = recorded
        if is_map(item.params):
            for each in ranges_of(item.params):
                if each.is_exact:
                    self._exact.add(each)
                else:
                    self._taken[_file(each)] = max(each.stop, self._taken.get(_file(each), 0))
        else:
            self._has_reduced = self._has_repaired = True
        if outcome is None or outcome.state == ItemState.STOPPED:
            self._open += 1
        else:
            self._note(item, outcome)

    def _is_left(self, file: Range) -> bool:
        """Whether something of it is in no item."""
        return file not in self._exact if file.is_exact else self._taken.get(_file(file), -1) < file.stop

    # What the pool asks.

    def take(self, most: int, workers: int) -> Sequence[Item]:
        if self._pending is None:
            self._pending = self._cut_all(max(1, workers))
        items = [self._made(map_params(ranges)) for ranges in self._pending[:most]]
        del self._pending[:most]
        if not items and not self._open:
            items = self._following()
        self._open += len(items)
        return items

    def left(self) -> int:
        return len(self._pending or ()) + (0 if self._is_over() else 1)

    def finished(self) -> bool:
        return self._pending == [] and self._is_over()

    def progressed(self, item: Item, metrics: Mapping[str, Any], step: int | None) -> str | None:
        return None

    def ended(self, item: Item, outcome: Outcome) -> None:
        self._open -= 1
        self._note(item, outcome)

    @property
    def is_complete(self) -> bool:
        """Whether all map items have ended, and no more failed than may."""
        return self.finished() and not self._open and self.failed <= self._failures

    # Steps.

    def _note(self, item: Item, outcome: Outcome) -> None:
        if outcome.state != ItemState.DONE:
            self.failed += outcome.state == ItemState.FAILED
        elif is_map(item.params):
            facts = Facts.read(outcome.metrics[FACTS])
            self._mapped[item.seq] = _Mapped(item.content, ranges_of(item.params), facts)

    def _made(self, params: dict[str, Any]) -> Item:
        seq, self._seq = self._seq, self._seq + 1
        return Item(seq, item_id(params, seq), params, content=content_of(params))

    def _cut_all(self, workers: int) -> list[tuple[Range, ...]]:
        """All ranges as lists of what one item reads: one range of a large file, or several small files.

        In the order of the files. A range that is not its whole file is alone in its item: its partial may have to be
        left out.
        """
        fair = self._total_bytes // (workers * ITEMS_A_WORKER)
        size = min(self._split, max(fair, LEAST_BYTES))
        lists: list[tuple[Range, ...]] = []
        small: list[Range] = []
        held = 0
        for file in self._left:
            ranges = [file] if file.is_exact else self._cut(file, size)
            is_cut = len(ranges) > 1 or ranges[0] != file
            weight = file.stop - file.start
            if small and (is_cut or held + weight > size or len(small) >= MOST_RANGES):
                lists.append(tuple(small))
                small, held = [], 0
            if is_cut:
                lists += [(each,) for each in ranges]
            else:
                small.append(file)
                held += weight
        if small:
            lists.append(tuple(small))
        self._left = []
        return lists[: None if self._limit is None else max(0, self._limit - len(self._mapped) - self._open)]

    def _cut(self, file: Range, size: int) -> list[Range]:
        """What is in no item yet of a file, as ranges of about this size."""
        begun = self._taken.get(_file(file), 0)
        ranges = cut(file.path, file.stop, size, file.mark, file.root)
        left = [each for each in ranges if each.stop > begun or not file.stop]
        return [each._replace(start=max(each.start, begun)) for each in left]

    def _following(self) -> list[Item]:
        """What comes when all items so far have ended; nothing where some failed, or all is done."""
        if self.failed > self._failures:
            self._has_repaired = self._has_reduced = True
        if not self._has_repaired:
            self._has_repaired = True
            if repairs := self._repairs():
                return repairs
        if not self._has_reduced:
            self._has_reduced = True
            return self._reductions() if self._is_merged else []
        return []

    def _is_over(self) -> bool:
        """Whether nothing is given out any more."""
        return self._has_repaired and self._has_reduced

    def _repairs(self) -> list[Item]:
        """Files whose ranges do not meet, each as one range. Those of which a range is missing are not looked at."""
        done = self._read_whole()
        parts = [
            part
            for mapped in self._mapped.values()
            for part in zip(mapped.ranges, mapped.facts.extents, strict=True)
            if _file(part[0]) not in done
        ]
        read: Counter[_File] = Counter()
        for range_, _ in parts:
            read[_file(range_)] += range_.stop - range_.start
        verdict = checked(part for part in parts if read[_file(part[0])] == self._sizes.get(_file(part[0])))
        for each in verdict.undivided:
            self.notes.append(f"{each.path} is compressed as one piece: one worker read all of it.")
        for each in verdict.again:
            self.notes.append(
                f"{each.path} was read again in one go: what looked like a record, where it was cut, was none."
            )
        return [self._made(map_params([each])) for each in verdict.again]

    def _is_whole(self, range_: Range) -> bool:
        return not range_.is_exact and range_.start == 0 and range_.stop >= self._sizes.get(_file(range_), 0)

    def _read_whole(self) -> set[_File]:
        """Files that were read as one range."""
        every = (each for mapped in self._mapped.values() for each in mapped.ranges)
        return {_file(each) for each in every if self._is_whole(each)}

    def superseded(self) -> set[int]:
        """Items with a part of a file that was read again as a whole."""
        done = self._read_whole()
        return {
            seq
            for seq, mapped in self._mapped.items()
            if any(_file(each) in done and not self._is_whole(each) for each in mapped.ranges)
        }

    def partials(self) -> list[tuple[int, str]]:
        """What is merged, in the order of the input: sequence number and content of each map item that counts."""
        superseded = self.superseded()
        counted = [(seq, mapped) for seq, mapped in self._mapped.items() if seq not in superseded]
        counted.sort(key=lambda each: _position(each[1].ranges[0]))
        return [(seq, mapped.content) for seq, mapped in counted]

    def _reductions(self) -> list[Item]:
        partials = self.partials()
        size = sum(self._mapped[seq].facts.partial_bytes for seq, _ in partials)
        shares = max(1, -(-size // SHARE_BYTES))
        return [
            self._made(reduce_params(partials, (index, shares), size // shares)) for index in range(shares)
        ]


def _file(range_: Range) -> _File:
    return range_.root, range_.path


def _position(range_: Range) -> tuple[str, str, int]:
    """Where it is in the input."""
    return range_.root, range_.path, range_.start

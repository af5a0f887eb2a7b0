"""How files are cut into ranges without looking into them, and whether what was read of a file fits together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from shoal.work.records.record import Extent, Range


class Verdict(NamedTuple):
    """What the extents of all ranges say of the files, each as one range."""

    again: Sequence[Range]
    """Ranges do not meet: what looked like the start of a record was none, as in an archive within a record. To be
    read again as this one range; nothing that was read of them counts."""
    undivided: Sequence[Range]
    """Cut into several ranges, and read as one: a gzip file of one member, or one large record."""


def cut(path: str, size: int, split: int, mark: str = "", root: str = ".") -> list[Range]:
    """Ranges of about `split` bytes, of equal length, that cover a file of this size. One for an empty file."""
    count = max(1, round(size / split))
    bounds = [size * index // count for index in range(count + 1)]
    return [Range(path, start, stop, mark, root) for start, stop in pairwise(bounds)]


def checked(read: Iterable[tuple[Range, Extent]]) -> Verdict:
    """Whether neighbours meet. All ranges of a file have to be there, in any order."""
    files: defaultdict[tuple[str, str], list[tuple[Range, Extent]]] = defaultdict(list)
    for range_, extent in read:
        if not range_.is_exact:
            files[range_.root, range_.path].append((range_, extent))
    again, undivided = [], []
    for parts in files.values():
        parts.sort(key=lambda part: part[0].start)
        if not _meet(parts):
            again.append(_whole(parts))
        elif len(parts) > 1 and sum(extent.first is not None for _, extent in parts) == 1:
            undivided.append(_whole(parts))
    return Verdict(again, undivided)


def _whole(parts: Sequence[tuple[Range, Extent]]) -> Range:
    return parts[0][0]._replace(stop=parts[-1][0].stop)


def _meet(parts: Sequence[tuple[Range, Extent]]) -> bool:
    with_records = [extent for _, extent in parts if extent.first is not None]
    if not with_records:
        return True
    size = parts[-1][0].stop
    ends = [extent.end for extent in with_records]
    return ends == [*(extent.first for extent in with_records[1:]), size]

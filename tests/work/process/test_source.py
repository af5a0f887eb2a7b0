"""Which items a process run has, in which order, through resumes and files that were cut wrongly."""

from __future__ import annotations

import itertools

from shoal.model import Item, Outcome
from shoal.work.job import Recorded
from shoal.work.process.item_params import FACTS, PARTIALS, SHARE, STEP, Facts, ranges_of
from shoal.work.process.source import ProcessSource
from shoal.work.records.record import Extent, Range

MB = 1 << 20
LARGE, SMALL = Range("large.warc.gz", 0, 40 * MB, "m1"), Range("small.warc.gz", 0, 1000, "m2")


def source(*files: Range, split: int = 8 * MB, recorded=(), next_seq: int = 1, **more):
    return ProcessSource(files, split, recorded=iter(recorded), next_seq=next_seq, **more)


def outcome(item: Item, *, extents=None, size: int = 100) -> Outcome:
    found = [Extent(each.start, each.stop) for each in ranges_of(item.params)] if extents is None else extents
    facts = Facts(records=10, bytes=1, partial_bytes=size, extents=found)
    return Outcome("done", {FACTS: facts.plain()})


def end(into: ProcessSource, items, **more) -> None:
    for item in items:
        into.ended(
            item, outcome(item, **more) if item.params[STEP] == "map" else Outcome("done", {"rows": 3})
        )


def test_a_large_file_is_cut_small_ones_share_an_item_and_the_merge_comes_last():
    found = source(LARGE, SMALL, SMALL._replace(path="tiny.warc.gz"))
    maps = found.take(100, 2)
    assert [len(ranges_of(item.params)) for item in maps] == [1] * (len(maps) - 1) + [2]
    whole = sorted(each for item in maps[:-1] for each in ranges_of(item.params))
    assert whole[0].start == 0
    assert whole[-1].stop == LARGE.stop
    assert all(one.stop == other.start for one, other in itertools.pairwise(whole))
    assert found.take(100, 2) == []
    assert not found.finished()
    end(found, maps)
    [merge] = found.take(100, 2)
    assert merge.params[STEP] == "reduce"
    assert merge.params[SHARE] == [0, 1]
    assert [seq for seq, _ in merge.params[PARTIALS]] == [item.seq for item in maps]
    assert found.finished()


def test_items_are_small_enough_for_all_workers_and_never_tiny():
    file = LARGE._replace(stop=24 * MB)
    assert len(source(file, split=64 * MB).take(100, 2)) == 12
    assert len(source(file._replace(stop=3 * MB)).take(100, 8)) == 3


def test_files_whose_ranges_do_not_meet_are_read_again_and_their_first_reading_is_left_out():
    found = source(LARGE, SMALL)
    maps = found.take(100, 2)
    for item in maps:
        [first, *_] = ranges_of(item.params)
        shifted = [Extent(first.start + 7, first.stop)] if first.start else None
        found.ended(item, outcome(item, extents=shifted if first.path == LARGE.path else None))
    [again] = found.take(100, 2)
    assert ranges_of(again.params) == [LARGE]
    end(found, [again])
    [merge] = found.take(100, 2)
    small = next(item for item in maps if ranges_of(item.params)[0].path == SMALL.path)
    assert {seq for seq, _ in merge.params[PARTIALS]} == {small.seq, again.seq}
    assert found.superseded() == {item.seq for item in maps} - {small.seq}
    assert any(LARGE.path in note for note in found.notes)


def test_a_resume_goes_on_where_a_file_was_left():
    first = source(LARGE)
    begun = first.take(2, 1)
    records = [Recorded(begun[0], outcome(begun[0])), Recorded(begun[1], None)]
    then = source(LARGE, recorded=records, next_seq=3)
    rest = then.take(100, 1)
    taken = sorted(each for item in (*begun, *rest) for each in ranges_of(item.params))
    assert taken[0].start == 0
    assert taken[-1].stop == LARGE.stop
    assert all(one.stop == other.start for one, other in itertools.pairwise(taken))
    assert rest[0].seq == 3
    end(then, [begun[1], *rest])
    [merge] = then.take(100, 1)
    assert len(merge.params[PARTIALS]) == len(begun) + len(rest)


def test_a_resume_after_all_was_read_only_merges():
    first = source(SMALL)
    [item] = first.take(10, 1)
    then = source(SMALL, recorded=[Recorded(item, outcome(item))], next_seq=2)
    [merge] = then.take(10, 1)
    assert (merge.seq, merge.params[STEP]) == (2, "reduce")
    again = source(SMALL, recorded=[Recorded(item, outcome(item)), Recorded(merge, None)], next_seq=3)
    assert again.take(10, 1) == []
    assert again.finished()


def test_after_a_failure_nothing_is_merged():
    found = source(LARGE)
    first, *others = found.take(100, 2)
    found.ended(first, Outcome("failed", {}, "x"))
    end(found, others)
    assert found.take(100, 2) == []
    assert found.finished()


def test_of_a_file_with_a_missing_range_nothing_is_read_again():
    limited = source(LARGE, limit=2)
    end(limited, limited.take(100, 2))
    [merge] = limited.take(100, 2)
    assert merge.params[STEP] == "reduce"
    other = LARGE._replace(path="other.warc.gz")
    found = source(LARGE, other, failures=1)
    lost, *maps = found.take(100, 2)
    found.ended(lost, Outcome("failed", {}, "x"))
    for item in maps:
        [first] = ranges_of(item.params)
        found.ended(item, outcome(item, extents=[Extent(first.start + 7, first.stop)]))
    assert [ranges_of(item.params) for item in found.take(100, 2)] == [[other]]


def test_partials_are_merged_in_the_order_of_the_input():
    files = [Range("a", 0, 9), LARGE._replace(path="b"), Range("c", 0, 9), LARGE._replace(path="d")]
    found = source(*files)
    maps = found.take(100, 2)
    assert [ranges_of(item.params)[0][:2] for item in maps] == sorted(
        ranges_of(item.params)[0][:2] for item in maps
    )
    for item in maps:
        [first] = ranges_of(item.params)
        shifted = [Extent(first.start + 7, first.stop)] if first.path == "b" and first.start else None
        found.ended(item, outcome(item, extents=shifted))
    [again] = found.take(100, 2)
    end(found, [again])
    [merge] = found.take(100, 2)
    by_seq = {item.seq: ranges_of(item.params)[0].path for item in (*maps, again)}
    paths = [by_seq[seq] for seq, _ in merge.params[PARTIALS]]
    assert paths[:3] == ["a", "b", "c"]
    assert set(paths[3:]) == {"d"}


def test_gigabytes_of_partials_are_merged_by_several_items():
    found = source(LARGE)
    end(found, found.take(100, 2), size=300 * MB)
    merges = found.take(100, 2)
    assert len(merges) > 1
    assert [item.params[SHARE] for item in merges] == [[index, len(merges)] for index in range(len(merges))]

"""What tuners measured, kept with the run: all that a drawing needs, and never too much."""

from __future__ import annotations

import json

from shoal.work.infer.tuners import KEPT, MOST_KINDS, MOST_POINTS, curves


def document(points):
    return {
        "version": 1,
        "load_s": {},
        "points": [{"batch": number + 1, "rows": number % 1000} for number in range(points)],
        **{name: {} for name in KEPT if name != "points"},
    }


def test_what_is_for_learning_alone_is_not_kept():
    (kept,) = curves({"2cpu-8gib": document(3)}).values()
    assert set(kept) == set(KEPT)
    assert len(kept["points"]) == 3


def test_of_too_many_points_those_stay_that_most_inputs_were_done_with():
    (kept,) = curves({"2cpu-8gib": document(5000)}).values()
    assert len(kept["points"]) == MOST_POINTS
    assert min(point["rows"] for point in kept["points"]) >= 900
    batches = [point["batch"] for point in kept["points"]]
    assert batches == sorted(batches)


def test_however_many_kinds_of_node_there_are_it_stays_small():
    found = curves({f"{number}cpu-8gib": document(5000) for number in range(100)})
    assert len(found) == MOST_KINDS
    assert len(json.dumps(found)) < 1 << 20

"""Throughput by the number of workers, from what ended while there were so many."""

from __future__ import annotations

import pytest

from shoal.planner.scalability import Throughput


def watch(throughput, begin, seconds, workers, rate):
    for tick in range(int(seconds * 2)):
        throughput.tell(begin + tick / 2, workers, rate / 2)
    return begin + seconds


def test_what_workers_do_together_is_known_when_two_numbers_of_them_were_watched():
    throughput = Throughput()
    now = watch(throughput, 0.0, 20, 2, 20.0)
    assert throughput.law() is None
    watch(throughput, now, 20, 4, 40.0)
    assert throughput.points() == {2: pytest.approx(20.0, rel=0.05), 4: pytest.approx(40.0, rel=0.05)}
    law = throughput.law()
    assert law is not None
    assert law.gain(4, 4) > 0.9


def test_where_more_workers_do_no_more_the_next_one_does_not_pay():
    throughput = Throughput()
    now = watch(throughput, 0.0, 20, 1, 10.0)
    for workers in (2, 4):
        now = watch(throughput, now, 20, workers, 12.0)
    law = throughput.law()
    assert law is not None
    assert law.gain(4, 4) < 0.05


def test_a_glimpse_is_no_measurement():
    throughput = Throughput()
    now = watch(throughput, 0.0, 20, 1, 10.0)
    watch(throughput, now, 4, 2, 20.0)
    assert list(throughput.points()) == [1]


def test_what_ends_right_after_a_worker_came_was_begun_without_it():
    throughput = Throughput()
    now = watch(throughput, 0.0, 20, 1, 10.0)
    throughput.tell(now, 2, 1000.0)
    now = watch(throughput, now + 0.5, 20, 2, 20.0)
    assert throughput.points()[2] == pytest.approx(20.0, rel=0.1)


def test_work_that_ends_in_lumps_is_not_overestimated():
    throughput = Throughput()
    for end in range(3, 16, 3):  # An item of 300 takes three seconds.
        throughput.tell(float(end), 1, 300.0, began=end - 3.0)
    assert throughput.points() == {1: pytest.approx(100.0)}

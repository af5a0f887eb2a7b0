"""kill -9 of drivers and workers of an inference, stops, two runs with one output: one row for each input."""

from __future__ import annotations

import signal

import pytest

from faults import pictures
from faults.pictures import done, fill, inference, output
from faults.storms import check_storm, slow


@pytest.mark.long
def test_twenty_thousand_inputs_get_a_row_each_through_killed_drivers_and_workers_and_a_takeover(place):
    fill(place.folder / "in", 20_000)
    with open(place.folder / place.machine(2), "a") as file:
        file.write("storage: ../shared\n")
    found = check_storm(place, 20_000, cluster="lab.yaml")
    assert "in/000/000000.jpg" in found.rows
    assert "in/000/000399.jpg" in found.errors
    hidden = [path.name for path in (place.folder / "out").rglob("*") if path.is_file()]
    assert not [name for name in hidden if name.startswith((".part", "at-", "errors-"))]


@pytest.mark.long
def test_a_run_that_was_stopped_goes_on_and_does_no_item_again(place):
    fill(place.folder / "in", 800)
    file = inference(place, **slow(place))
    process = place.start("run", file, "--json")
    place.until(lambda: done(place) >= 3, process)
    process.send_signal(signal.SIGINT)
    place.end(process, 3)
    before = {path.name: path.stat().st_mtime_ns for path in (place.folder / "out").glob("part-*")}
    assert 3 <= len(before) < 40
    ended = place.json("resume", "i", "--json")
    assert (ended["infer"]["rows"], ended["infer"]["errors"]) == (798, 2)
    after = {path.name: path.stat().st_mtime_ns for path in (place.folder / "out").glob("part-*")}
    assert before.items() <= after.items()
    assert len(output(place.folder / "out").rows) == 798
    again = place.json("resume", "i", "--json")
    assert again["state"] == "succeeded"
    assert again["items"] == ended["items"]


def test_an_output_has_one_run_at_a_time_and_belongs_to_the_last(place):
    fill(place.folder / "in", 800)
    settings = slow(place)
    first = inference(place, name="first", **settings)
    second = inference(place, name="second", **settings | {"input": {"images": "in/000/00000*.jpg"}})
    process = place.start("run", first)
    place.until(lambda: done(place) >= 2, process)
    said = place.refused("run", second)
    assert "out is the output of run first-" in said
    assert "which is running" in said
    place.shoal("stop", "first", code=0)
    place.end(process, 3)
    ended = place.json("run", second, "--json")
    assert any("of run first-" in note for note in ended["notes"])
    assert sorted(output(place.folder / "out").rows) == [f"in/{pictures.name_of(each)}" for each in range(10)]
    said = place.refused("resume", "first")
    assert "is the output of run second-" in said
    assert len(output(place.folder / "out").rows) == 10


def test_of_runs_that_begin_at_once_with_one_output_one_gets_it(place):
    fill(place.folder / "in", 400)
    settings = slow(place)
    drivers = [
        place.start("run", inference(place, name=f"r{each}", **settings), "--json") for each in range(3)
    ]
    ends = [place.end(driver) for driver in drivers]
    assert sorted(end.returncode for end in ends) == [0, 2, 2], [end.stdout for end in ends]
    assert len(output(place.folder / "out").rows) == 399

"""kill -9 of drivers and workers of an inference, stops, two runs with one output: one row for each input."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from faults import pictures
from faults.pictures import (
    assert_same_predictions,
    done,
    fill,
    inference,
    output,
    workers,
    write_model,
    write_slow_class,
)

ALLOWED = {"errors": "5%"}
DRIVER_KILLS = 5
WORKER_KILLS = 2
"""In each session that is killed."""
SEED = 4


def wait_for(place, process, goal):
    """Until so many items are done, and there are workers: these."""
    return place.until(lambda: workers(place, process.pid) if done(place) >= goal else [], process)


def storm(place, file, chance, items):
    """Kill workers and drivers again and again, resuming each time, then let it end: how many kills hit.

    Kills are spread over the run by what is recorded as done, and each comes some random time after that.
    """
    hits = {"driver": 0, "worker": 0}
    steps = DRIVER_KILLS * (WORKER_KILLS + 1)
    goals = iter([int(items * 0.85 * (step + chance.random()) / steps) for step in range(steps)])
    for session in range(DRIVER_KILLS):
        process = place.start("resume", "i") if session else place.start("run", file)
        for _ in range(WORKER_KILLS):
            wait_for(place, process, next(goals))
            time.sleep(chance.uniform(0.0, 0.2))  # The random moment; nothing is being waited for.
            os.kill(chance.choice(wait_for(place, process, 0)), signal.SIGKILL)
            hits["worker"] += 1
        wait_for(place, process, next(goals))
        time.sleep(chance.uniform(0.0, 0.3))
        place.kill(process)
        assert process.returncode == -signal.SIGKILL, f"it was over before kill {session + 1}"
        hits["driver"] += 1
    return hits


def check_storm(place, count, input_="in/", output_="out/", item=100):
    """Run undisturbed, then through a storm: the same rows, and an error for each input that is none."""
    write_model(place.folder / "model.onnx")
    broken = [number for number in range(count) if pictures.is_broken(number)]
    settings = {"input": {"images": input_}, "limits": ALLOWED, "tune": {"item": item, "runtime": "as-given"}}
    calm_file = inference(place, name="calm", output=output_.rstrip("/") + "-calm/", **settings)
    file = inference(place, output=output_, **settings)
    calm = place.json("run", calm_file, "--json")
    assert calm["infer"]["rows"] == count - len(broken)
    expected = output(calm["results"])
    began = time.monotonic()
    hits = storm(place, file, random.Random(SEED), count // item)
    assert hits == {"driver": DRIVER_KILLS, "worker": DRIVER_KILLS * WORKER_KILLS}
    ended = place.json("resume", "i", "--json")
    print(
        f"{count} inputs, kills that hit: {hits}, {time.monotonic() - began:.0f} s; calm {calm['seconds']:.0f} s"
    )
    assert ended["state"] == "succeeded"
    assert (ended["infer"]["rows"], ended["infer"]["errors"]) == (count - len(broken), len(broken))
    found = output(ended["results"])
    assert len(found.rows) == count - len(broken)
    assert found.errors.keys() == expected.errors.keys()
    assert len(found.errors) == len(broken)
    assert_same_predictions(found, expected)
    return found


@pytest.mark.slow
def test_twenty_thousand_inputs_get_a_row_each_through_five_killed_drivers_and_ten_killed_workers(place):
    fill(place.folder / "in", 20_000)
    found = check_storm(place, 20_000)
    assert "in/000/000000.jpg" in found.rows
    assert "in/000/000399.jpg" in found.errors
    hidden = [path.name for path in (place.folder / "out").rglob("*") if path.is_file()]
    assert not [name for name in hidden if name.startswith((".part", "at-", "errors-"))]


def slow(place):
    """Settings of a run that takes 10 ms for each input."""
    write_slow_class(place.folder / "slow.py")
    changed = {"model": {"function": "slow:Model"}, "postprocess": None}
    return {**changed, "limits": ALLOWED, "tune": {"item": 20, "batch": 4}}


def stop_by_command(place, process):
    place.shoal("stop", "i", code=0)


def stop_by_interrupt(place, process):
    process.send_signal(signal.SIGINT)


@pytest.mark.parametrize("stop", [stop_by_command, stop_by_interrupt])
def test_a_run_that_was_stopped_goes_on_and_does_no_item_again(place, stop):
    fill(place.folder / "in", 800)
    file = inference(place, **slow(place))
    process = place.start("run", file, "--json")
    place.until(lambda: done(place) >= 3, process)
    stop(place, process)
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

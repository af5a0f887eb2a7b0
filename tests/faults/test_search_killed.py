"""A search whose driver is killed again and again, also right after a hand-out: each trial finds its own checkpoint."""

from __future__ import annotations

import random

import pytest

TRIAL = """
    import os, pathlib, time

    def main(x):
        kept = pathlib.Path(os.environ["SHOAL_CHECKPOINT_DIR"], "x")
        found = kept.read_text() if kept.exists() else repr(x)
        with open("seen", "a") as file:
            file.write(f"{os.environ['SHOAL_ITEM']} {x!r} {found}\\n")
        kept.write_text(repr(x))
        time.sleep(0.02)
        return {"y": x}
"""


def is_stopped(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


def kill_after_a_hand_out(place, arguments, chance):
    """At the very moment at which a worker has an item, and the driver has heard nothing of it."""
    point = f"hand-out:{chance.randint(1, 6)}"
    driver = place.start(*arguments, env={"SHOAL_SUSPEND_AT": point})
    place.until(lambda: is_stopped(driver.pid), driver)
    place.kill(driver)


def kill_at_any_time(place, arguments, chance):
    before = place.counts()["done"] if place.runs() else 0
    more = chance.randint(0, 5)
    driver = place.start(*arguments)
    place.until(lambda: place.runs() and place.counts()["done"] >= before + more, driver)
    place.kill(driver)


@pytest.mark.parametrize(
    ("kills", "trials"), [(6, 60), pytest.param(50, 600, marks=pytest.mark.long)], ids=["6", "50"]
)
def test_a_search_that_is_killed_again_and_again_gives_each_trial_its_own_checkpoint(place, kills, trials):
    chance = random.Random(kills)
    place.write("trial.py", TRIAL)
    search = f"{{search: {{x: {{float: [0, 1]}}}}, count: {trials}, sampler: random}}"
    file = place.sweep("s", search, "function: trial:main")
    arguments = ["run", file, "--cluster", place.machine(2)]
    for number in range(kills):
        (kill_after_a_hand_out, kill_at_any_time)[number % 2](place, arguments, chance)
        arguments = ["resume", "s"]
    rows = place.run("s", command="resume")
    assert len(rows) == trials
    assert {row["state"] for row in rows} == {"done"}
    points = {row["item"]: row["x"] for row in rows}
    seen = [line.split() for line in (place.folder / "seen").read_text().splitlines()]
    assert len(seen) > trials, "nothing was killed while it ran"
    assert [line for line in seen if line[1] != line[2]] == [], "went on from the checkpoint of another trial"
    assert [line for line in seen if float(points[line[0]]) != float(line[1])] == [], "an id had two points"

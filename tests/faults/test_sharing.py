"""Several drivers on one machine: they share its workers fairly, and nobody waits for another run to end."""

from __future__ import annotations

import json
import os

import pytest

from shoal.files.machine import process_start

pytestmark = pytest.mark.serial

TRIAL = """
import os, time
LOG = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
def main(who, n, ms):
    os.write(LOG, f"start {who} {n}\\n".encode())
    deadline = time.monotonic() + ms / 1000
    while time.monotonic() < deadline and not os.path.exists("go"):
        time.sleep(min(0.01, ms / 1000))
    os.write(LOG, f"end {who} {n}\\n".encode())
"""


@pytest.fixture
def lab(place):
    place.write("trial.py", TRIAL)
    return place.machine(cpu=2)


def start(place, lab, who, count, ms):
    rows = [f"{who},{number},{ms}" for number in range(1, count + 1)]
    place.write(f"{who}.csv", "\n".join(["who,n,ms", *rows]))
    file = place.sweep(who, f"{{table: {who}.csv}}", "function: trial:main")
    return place.start("run", file, "--cluster", lab)


def log(place):
    path = place.folder / "log"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def ends(place, who):
    return sum(entry[:2] == ["end", who] for entry in log(place))


def most_at_once(entries):
    running = most = 0
    for what, *_ in entries:
        running += 1 if what == "start" else -1
        most = max(most, running)
    return most


def test_two_sweeps_started_at_the_same_time_share_two_workers_fairly(place, lab):
    drivers = [start(place, lab, who, 40, 50) for who in ("left", "right")]
    for driver in drivers:
        place.end(driver, 0)
    entries = log(place)
    both = [[], []]
    for index, (what, who, _) in enumerate(entries):
        if what == "start":
            both[who == "right"].append(index)
    # While both were at work: from the later one's beginning to the earlier one's end.
    shared = entries[max(places[0] for places in both) : min(places[-1] for places in both)]
    counts = {who: sum(entry[:2] == ["end", who] for entry in shared) for who in ("left", "right")}
    assert min(counts.values()) >= 10, counts
    assert max(counts.values()) <= 2 * min(counts.values()), counts
    assert most_at_once(entries) <= 3, "a worker that is being given back may still end its trial"


def test_a_short_sweep_is_not_stuck_behind_a_long_one(place, lab):
    long = start(place, lab, "long", 400, 50)
    place.until(lambda: ends(place, "long") >= 4, long)
    short = start(place, lab, "short", 6, 50)
    place.end(short, 0)
    assert ends(place, "short") == 6
    assert ends(place, "long") < 200
    assert long.poll() is None
    place.shoal("stop", "long", code=0)
    place.end(long, 3)


def test_a_short_sweep_is_not_stuck_behind_trials_that_take_for_ever(place, lab):
    long = start(place, lab, "long", 6, 1_000_000)
    place.until(lambda: len(log(place)) == 2, long)
    place.end(start(place, lab, "short", 3, 5), 0)
    assert ends(place, "short") == 3
    assert ends(place, "long") == 0
    (place.folder / "go").touch()
    place.end(long, 0)
    assert ends(place, "long") == 6


def test_workers_that_were_given_up_come_back_when_the_other_run_is_over(place, lab):
    long = start(place, lab, "long", 2000, 50)
    place.until(lambda: ends(place, "long") >= 4, long)
    place.end(start(place, lab, "short", 4, 50), 0)
    over = len(log(place))
    place.until(lambda: overlap(log(place)[over:]), long)
    place.shoal("stop", "long", code=0)
    place.end(long, 3)


def overlap(entries):
    """Whether two trials were ever running at the same time."""
    running: set[str] = set()
    for what, _, number in entries:
        running = running | {number} if what == "start" else running - {number}
        if len(running) > 1:
            return True
    return False


def test_the_share_of_a_killed_driver_is_free_at_once(place, lab):
    killed = start(place, lab, "killed", 6, 1_000_000)
    place.until(lambda: len(log(place)) == 2, killed)
    place.kill(killed)
    place.end(start(place, lab, "next", 4, 200), 0)
    assert overlap([entry for entry in log(place) if entry[1] == "next"]), "one worker only"


def test_a_limit_on_concurrent_trials_holds(place):
    place.write("trial.py", TRIAL)
    rows = [f"only,{number},20" for number in range(1, 16)]
    place.write("only.csv", "\n".join(["who,n,ms", *rows]))
    file = place.sweep("only", "{table: only.csv}", "function: trial:main", "limits: {concurrent: 2}")
    place.shoal("run", file, "--cluster", place.machine(cpu=8), code=0)
    assert most_at_once(log(place)) == 2


def test_beside_a_version_that_keeps_another_table_of_leases_a_run_is_refused_and_leaves_nothing(place):
    table = place.folder / "leases.json"
    place.environment["SHOAL_LEASES"] = str(table)
    entry = {"pid": os.getpid(), "start": process_start(os.getpid()), "scope": "machine"}
    table.write_text(json.dumps({"another": entry}))
    place.write("trial.py", TRIAL)
    file = place.sweep("s", "{grid: {who: [a], n: [1], ms: [1]}}", "function: trial:main")
    assert "Another version of Shoal is at work on this machine" in place.refused("run", file)

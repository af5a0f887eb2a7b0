"""kill -9 of the driver at any moment, then `shoal resume`: nothing done is lost, nothing done is done again."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

TRIALS = 800
KILLS = 20
UNRECORDED_S = 2.0
"""About a second of the work of each of two workers may have ended unrecorded when the driver was killed."""
SEED = 20

TRIAL = """
import os, time
LOG = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
def main(n, ms):
    os.write(LOG, b"start %d\\n" % n)
    time.sleep(ms / 1000)
    os.write(LOG, b"end %d\\n" % n)
    return {"square": n * n}
"""


def write_sweep(place, durations_ms):
    place.write("trial.py", TRIAL)
    rows = [f"{number},{ms}" for number, ms in enumerate(durations_ms, 1)]
    place.write("t.csv", "\n".join(["n,ms", *rows]))
    return place.sweep("s", "{table: t.csv}", "function: trial:main")


def log(place, since=0):
    """What the trials wrote, from a line on: (what, number) pairs."""
    path = place.folder / "log"
    lines = path.read_text().splitlines() if path.exists() else []
    pairs = [line.split() for line in lines[since:]]
    return [(what, int(number)) for what, number in pairs]


def done(place):
    """The trials that are done on disk now, by the number in their row; none while there is no run."""
    if not place.runs():
        return set()
    with place.store() as store:
        return {record.item.params["n"] for record in store.items(("done",))}


def check_results(place, rows, count):
    """Every trial ended exactly once, and well."""
    assert [int(row["n"]) for row in rows] == list(range(1, count + 1))
    assert [row["state"] for row in rows] == ["done"] * count
    assert [int(row["square"]) for row in rows] == [number * number for number in range(1, count + 1)]
    assert len({row["item"] for row in rows}) == count
    assert place.states() == dict.fromkeys(range(1, count + 1), "done")


@pytest.mark.serial
def test_a_run_killed_twenty_times_loses_no_finished_trial_and_repeats_none(place):
    chance = random.Random(SEED)
    lab = place.machine(cpu=2)
    durations = [chance.choice((2, 5, 10, 20, 35, 50)) for _ in range(TRIALS)]
    file = write_sweep(place, durations)
    finished: set[int] = set()
    for kill in range(KILLS):
        seen = len(log(place))
        process = place.start("resume", "s") if place.runs() else place.start("run", file, "--cluster", lab)
        if chance.random() < 0.8:
            # Some time after the first trial of this driver began; else some time after the driver itself began.
            place.until(lambda seen=seen: len(log(place)) > seen, process)
        # The random moment; nothing is being waited for. A few drivers live long enough for several commits.
        time.sleep(chance.uniform(1.0, 1.5) if kill % 7 == 3 else chance.uniform(0.0, 0.2))
        place.kill(process)
        assert process.returncode == -signal.SIGKILL, f"it was over before kill {kill + 1}"
        written = log(place, seen)
        again = finished & {number for what, number in written if what == "start"}
        assert not again, f"done before kill {kill + 1} and started again: {again}"
        now = done(place)
        assert finished <= now, f"lost by kill {kill + 1}: {finished - now}"
        unrecorded = [number for what, number in written if what == "end" and number not in now]
        assert sum(durations[number - 1] for number in unrecorded) / 1000 <= UNRECORDED_S
        finished = now
    assert len(finished) < TRIALS
    seen = len(log(place))
    rows = place.run("s", command="resume")
    check_results(place, rows, TRIALS)
    after = log(place, seen)
    assert sorted(number for what, number in after if what == "end") == sorted(
        set(range(1, TRIALS + 1)) - finished
    )
    assert len(place.runs()) == 1


def test_a_killed_run_of_commands_goes_on_where_it_was(place):
    """Each trial leaves a child that has gone its own way, and ends with the driver all the same."""
    place.write(
        "trial.py",
        """
        import os, subprocess, sys, time
        log = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(log, b"start %d\\n" % int(sys.argv[1]))
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
        time.sleep(0.1)
        os.write(log, b"end %d\\n" % int(sys.argv[1]))
        print("square", int(sys.argv[1]) ** 2)
        """,
    )
    grid = f"{{grid: {{n: {list(range(1, 16))}}}}}"
    file = place.sweep("s", grid, "python trial.py {n}", "metrics: {square: 'square (.*)'}")
    for ends in (2, 5, 9):
        process = place.start("resume", "s") if place.runs() else place.start("run", file)
        place.until(lambda ends=ends: sum(what == "end" for what, _ in log(place)) >= ends, process)
        before = done(place)
        place.kill(process)
        assert before <= done(place)
    check_results(place, place.run("s", command="resume"), 15)


def folder_is_there(place):
    return next(iter((place.home / "runs").iterdir()), None) if (place.home / "runs").is_dir() else None


def record_is_there(place):
    return place.runs()


def logs_are_there(place):
    return any(place.home.glob("runs/*/logs"))


def trial_has_begun(place):
    return log(place)


def items_are_there(place):
    return place.runs() and place.states()


@pytest.mark.parametrize(
    "moment", [folder_is_there, record_is_there, logs_are_there, trial_has_begun, items_are_there]
)
def test_a_driver_killed_while_it_starts_leaves_nothing_that_is_in_the_way(place, moment):
    file = write_sweep(place, [2] * 30)
    place.killed(moment, "run", file)
    known = place.json("ls", "--json")
    assert [run["state"] for run in known] == ["interrupted"] * len(known)
    before = done(place)
    seen = len(log(place))
    rows = place.run("s", command="resume") if known else place.run(file)
    check_results(place, rows, 30)
    assert not before & {number for what, number in log(place, seen) if what == "start"}


@pytest.mark.parametrize("delay_s", [0.03, 0.1])
def test_a_driver_killed_soon_after_it_was_started_leaves_nothing_that_is_in_the_way(place, delay_s):
    file = write_sweep(place, [2] * 30)
    process = place.start("run", file)
    time.sleep(delay_s)  # The moment of the kill; nothing is being waited for.
    place.kill(process)
    place.shoal("ls", code=0)
    check_results(place, place.run("s", command="resume") if place.runs() else place.run(file), 30)


def results_have_begun(place):
    return any(place.home.glob("runs/*/.results.*"))


def csv_is_there(place):
    return any(place.home.glob("runs/*/results.csv"))


@pytest.mark.parametrize("moment", [results_have_begun, csv_is_there])
def test_a_driver_killed_while_it_writes_the_results_has_them_written_by_the_next(place, moment):
    count = 5000
    place.write("trial.py", "def main(n): return {'square': n * n}\n")
    place.write("t.csv", "\n".join(["n", *map(str, range(1, count + 1))]))
    place.killed(moment, "run", place.sweep("s", "{table: t.csv}", "function: trial:main"))
    assert len(done(place)) == count
    for path in place.home.glob("runs/*/results.csv"):
        assert len(place.table(path)) == count
    (place.folder / "trial.py").write_text("def main(n): raise SystemExit('it must not run again')\n")
    check_results(place, place.run("s", command="resume"), count)
    assert not list(place.home.glob("runs/*/.results.*"))


def test_of_two_drivers_that_resume_a_run_exactly_one_gets_it(place):
    file = write_sweep(place, [20] * 40)
    process = place.start("run", file)
    place.until(lambda: log(place), process)
    place.kill(process)
    drivers = [place.start("resume", "s", "--json") for _ in range(4)]
    ends = [place.end(driver) for driver in drivers]
    codes = sorted(end.returncode for end in ends)
    # A late one may find the run succeeded, which is no quarrel.
    assert codes[0] == 0
    assert set(codes) <= {0, 2}
    refused = [end for end in ends if end.returncode == 2]
    assert refused
    pids = {str(driver.pid) for driver in drivers}
    for end in refused:
        assert "is being driven by another process (process" in end.stdout
        assert any(f"process {pid} on " in end.stdout for pid in pids)
    starts = [number for what, number in log(place) if what == "start"]
    assert len(starts) <= 40 + 4
    check_results(place, place.table(next(place.home.glob("runs/*/results.csv"))), 40)


def test_a_killed_zygote_costs_no_trial_because_nobody_knows_whose_doing_it_was(place):
    file = write_sweep(place, [1500] + [100] * 11)
    process = place.start("run", file, "--json")
    place.until(lambda: ("start", 1) in log(place), process)
    zygote = next(pid for pid in place.alive() if pid != process.pid and parent(pid) == process.pid)
    os.kill(zygote, signal.SIGKILL)
    place.end(process, 0)
    assert list(place.states().values()) == ["done"] * 12
    assert log(place).count(("start", 1)) == 2


def test_a_trial_that_kills_the_process_above_its_worker_fails_and_no_other_does(place):
    place.write(
        "f.py",
        """
        import os, signal, time
        def main(n):
            time.sleep(0.3)
            if n == 2:
                os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(0.3)
        """,
    )
    limits = "resources: {cpu: 0.1}\nlimits: {retries: 1, concurrent: 6}"
    file = place.sweep("s", "{grid: {n: [1, 2, 3, 4, 5, 6]}}", "function: f:main", limits)
    rows = place.run(file, code=1)
    assert [row["state"] for row in rows] == ["done", "failed", "done", "done", "done", "done"]
    assert [row["attempt"] for row in rows] == ["1", "2", "1", "1", "1", "1"]
    assert rows[1]["error"] == (
        "crashed: the process that starts workers was killed while only this item ran under it"
    )


def parent(pid):
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])


@pytest.mark.parametrize("run", ["function: trial:main", "python trial.py"], ids=["function", "command"])
def test_a_worker_that_somebody_kills_costs_one_attempt_of_one_trial_and_leaves_no_process(place, run):
    place.write(
        "trial.py",
        """
        import os, time
        def main(n=None):
            if os.environ["SHOAL_ITEM"] == "t0002" and os.environ["SHOAL_ATTEMPT"] == "1":
                worker = os.getpid() if n else os.getppid()
                with open("worker.part", "w") as file:
                    file.write(str(worker))
                os.rename("worker.part", "worker")
                time.sleep(1000)
        if __name__ == "__main__":
            main()
        """,
    )
    file = place.sweep("s", "{grid: {n: [1, 2, 3, 4, 5]}}", run, "limits: {retries: 1}")
    process = place.start("run", file, "--json")
    place.until((place.folder / "worker").exists, process)
    os.kill(int((place.folder / "worker").read_text()), signal.SIGKILL)
    place.end(process, 0)
    rows = place.table(next(place.home.glob("runs/*/results.csv")))
    assert [row["state"] for row in rows] == ["done"] * 5
    assert [row["attempt"] for row in rows] == ["1", "2", "1", "1", "1"]
    assert not place.alive()

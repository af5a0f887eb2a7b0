"""Runs that end early or go on later: Ctrl-C, `stop`, retries, tables that changed, failed trials, searches."""

from __future__ import annotations

import json
import os
import signal

import pytest

WAIT = """
import os, sys, time
def main(n, how="ok"):
    with open("log", "a") as file:
        file.write(f"{n}\\n")
    while how == "wait" and not os.path.exists("go"):
        time.sleep(0.01)
    if how == "fail" and not os.path.exists("mended"):
        raise ValueError("not yet")
    return {"square": int(n) ** 2}
if __name__ == "__main__":
    main(*sys.argv[1:])
"""


def started(place):
    path = place.folder / "log"
    return path.read_text().split() if path.exists() else []


def write_table(place, *rows):
    place.write("trial.py", WAIT)
    place.write("t.csv", "\n".join(["n,how", *rows]) + "\n")


FUNCTION = ("{table: t.csv}", "function: trial:main")
COMMAND = ("{table: t.csv}", "python trial.py {n} {how}")


@pytest.mark.parametrize("kind", [FUNCTION, COMMAND], ids=["function", "command"])
def test_a_run_that_was_interrupted_exits_with_3_and_goes_on_where_it_was(place, kind):
    write_table(place, "1,ok", "2,wait", "3,wait", "4,ok")
    process = place.start("run", place.sweep("s", *kind, "limits: {concurrent: 2}"))
    place.until(lambda: {"1", "2", "3"} <= set(started(place)), process)
    process.send_signal(signal.SIGINT)
    ended = place.end(process, 3)
    assert "shoal resume s-" in ended.stderr
    assert place.states()[1] == "done"
    assert set(place.states().values()) <= {"done", "stopped", "waiting"}
    assert place.json("show", "s", "--json")["state"] == "stopped"
    (place.folder / "go").touch()
    rows = place.run("s", command="resume")
    assert [row["state"] for row in rows] == ["done"] * 4
    assert started(place).count("1") == 1


def test_ctrl_c_reaches_the_whole_group_as_in_a_terminal_and_is_still_clean(place):
    write_table(place, "1,wait", "2,wait")
    process = place.start("run", place.sweep("s", *COMMAND), process_group=0)
    place.until(lambda: started(place), process)
    os.killpg(process.pid, signal.SIGINT)
    place.end(process, 3)
    assert set(place.states().values()) <= {"stopped", "waiting"}


def test_a_trial_that_ignores_every_signal_cannot_keep_a_run_from_stopping(place):
    place.write(
        "trial.py",
        """
        import signal, time
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        open("began", "w").close()
        while True:
            time.sleep(100)
        """,
    )
    process = place.start("run", place.sweep("s", "{grid: {x: [1]}}", "python trial.py"))
    place.until((place.folder / "began").exists, process)
    process.send_signal(signal.SIGINT)
    place.end(process, 3)
    assert list(place.states().values()) == ["stopped"]


def test_a_failed_trial_is_tried_again_as_often_as_asked_for(place):
    place.write(
        "trial.py",
        """
        import os
        def main(n):
            with open(f"tries-{n}", "a") as file:
                file.write("x")
            if os.path.getsize(f"tries-{n}") <= n:
                raise ValueError(f"try {os.environ['SHOAL_ATTEMPT']}")
            return {"attempt_seen": int(os.environ["SHOAL_ATTEMPT"])}
        """,
    )
    file = place.sweep("s", "{grid: {n: [0, 1, 2, 3]}}", "function: trial:main", "limits: {retries: 2}")
    rows = place.run(file, code=1)
    assert [(row["state"], row["attempt"]) for row in rows] == [
        ("done", "1"),
        ("done", "2"),
        ("done", "3"),
        ("failed", "3"),
    ]
    assert "ValueError: try 3" in rows[3]["error"]
    assert [(place.folder / f"tries-{n}").stat().st_size for n in range(4)] == [1, 2, 3, 3]


def test_rows_that_were_added_are_run_by_a_resume_and_the_others_are_not(place):
    write_table(place, "1,ok", "2,ok")
    place.shoal("run", place.sweep("s", *FUNCTION), code=0)
    write_table(place, "3,ok", "1,ok", "2,ok", "2,ok")
    rows = place.run("s", command="resume")
    assert [(row["item"], row["n"]) for row in rows] == [
        ("t0001", "1"),
        ("t0002", "2"),
        ("t0003", "3"),
        ("t0004", "2"),
    ]
    assert sorted(started(place)) == ["1", "2", "2", "3"]


def test_a_row_that_was_changed_is_a_new_one(place):
    write_table(place, "1,ok", "2,ok")
    place.shoal("run", place.sweep("s", *FUNCTION), code=0)
    write_table(place, "1,ok", "5,ok")
    rows = place.run("s", command="resume")
    assert [(row["n"], row["state"]) for row in rows] == [("1", "done"), ("2", "done"), ("5", "done")]
    assert started(place).count("1") == 1


@pytest.mark.parametrize("kept", [["1,ok", "4,ok"], ["1,ok"]], ids=["others wait", "nothing waits"])
def test_rows_that_were_removed_before_they_ran_are_not_run(place, kept):
    write_table(place, "1,ok", "2,wait", "3,ok", "4,ok")
    process = place.start("run", place.sweep("s", *FUNCTION, "limits: {concurrent: 1}"))
    place.until(lambda: "2" in started(place), process)
    place.shoal("stop", "s", code=0)
    place.end(process, 3)
    write_table(place, *kept)
    rows = place.run("s", command="resume")
    by_row = {row["n"]: row for row in rows}
    for row in kept:
        assert by_row[row.partition(",")[0]]["state"] == "done"
    assert "3" not in started(place)
    assert by_row["3"]["state"] == "stopped", by_row["3"]
    assert "no longer in the table" in by_row["3"]["error"]
    summary = place.json("show", "s", "--json")
    assert summary["state"] == "succeeded"
    assert place.shoal("resume", "s", code=0).returncode == 0
    assert "3" not in started(place)


def test_a_table_that_is_gone_or_broken_at_resume_changes_nothing(place):
    write_table(place, "1,ok", "2,fail")
    place.shoal("run", place.sweep("s", *FUNCTION), code=1)
    before = place.states()
    (place.folder / "t.csv").rename(place.folder / "u.csv")
    assert "t.csv" in place.refused("resume", "s", "--failed")
    place.write("t.csv", "n,n\n1,2\n")
    assert "2 times" in place.refused("resume", "s", "--failed")
    assert place.states() == before
    (place.folder / "u.csv").rename(place.folder / "t.csv")
    (place.folder / "mended").touch()
    place.run("s", "--failed", command="resume")


def test_a_workload_folder_that_is_gone_at_resume_is_a_sentence(place):
    write_table(place, "1,ok", "2,fail")
    place.write("sub/trial.py", WAIT)
    place.write("sub/t.csv", "n,how\n1,fail\n")
    file = place.sweep("s", *FUNCTION)
    (place.folder / file).rename(place.folder / "sub" / file)
    place.shoal("run", f"sub/{file}", code=1)
    (place.folder / "sub").rename(place.folder / "elsewhere")
    place.refused("resume", "s", "--failed")


# Searches.

CURVE = """
import os, sys, time, shoal
def main(x):
    with open("log", "a") as file:
        file.write(f"{x}\\n")
    x = float(x)
    for step in range(1, 60):
        shoal.report(score=x, step=step)
        time.sleep(0.02 if x < 0.5 else 0.001)
    return {"score": x, "whole": 1}
if __name__ == "__main__":
    main(sys.argv[1])
"""


@pytest.mark.parametrize("run", ["function: curve:main", "python curve.py {x}"], ids=["function", "command"])
def test_a_running_trial_that_is_behind_is_pruned(place, run):
    place.write("curve.py", CURVE)
    choices = json.dumps([0.9, 0.91, 0.92, 0.93, 0.94, 0.95, 0.1, 0.11])
    trials = f"{{search: {{x: {{choice: {choices}}}}}, count: 8, sampler: grid, pruner: asha, seed: 1}}"
    more = "objective: {metric: score, goal: max}\nlimits: {concurrent: 1}\n"
    rows = place.run(place.sweep("s", trials, run, more))
    assert len(rows) == 8
    pruned = [row for row in rows if row["state"] == "pruned"]
    assert pruned
    for row in pruned:
        assert "is behind other trials" in row["error"]
        assert not row.get("whole")
        assert row["score"] == row["x"]
    assert any(row["state"] == "done" for row in rows)
    assert max(float(row["x"]) for row in rows if row["state"] == "done") == 0.95


@pytest.mark.parametrize("sampler", ["tpe", "random", "grid"])
def test_a_killed_search_goes_on_with_new_points_and_loses_none(place, sampler):
    place.write(
        "trial.py",
        """
        import os, time
        def main(a, b):
            with open("log", "a") as file:
                file.write(f"{a}-{b}\\n")
            time.sleep(0.03)
            return {"score": a * b}
        """,
    )
    space = (
        "{a: {int: [1, 5]}, b: {int: [1, 4]}}"
        if sampler == "grid"
        else "{a: {float: [0, 1]}, b: {int: [1, 4]}}"
    )
    trials = f"{{search: {space}, count: 20, sampler: {sampler}, seed: 3}}"
    file = place.sweep("s", trials, "function: trial:main", "objective: {metric: score, goal: max}")
    for least in (6, 13):
        process = place.start("resume", "s") if place.runs() else place.start("run", file)
        place.until(lambda least=least: len(started(place)) > least, process)
        place.kill(process)
    rows = place.run("s", command="resume")
    assert [row["state"] for row in rows] == ["done"] * 20
    points = {(row["a"], row["b"]) for row in rows}
    assert len(points) == 20, "a point was tried twice"


def test_a_search_with_repeats_repeats_every_point_as_often_through_a_kill(place):
    place.write(
        "trial.py",
        """
        import time
        def main(x):
            with open("log", "a") as file:
                file.write(f"{x}\\n")
            time.sleep(0.05)
            return {"score": x}
        """,
    )
    trials = "{search: {x: {float: [0, 1]}}, count: 6, sampler: random, repeat: 3}"
    file = place.sweep("s", trials, "function: trial:main", "objective: {metric: score, goal: max}")
    process = place.start("run", file)
    place.until(lambda: len(started(place)) >= 4, process)
    place.kill(process)
    rows = place.run("s", command="resume")
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["x"]] = counts.get(row["x"], 0) + 1
    assert sorted(counts.values()) == [3] * 6


def test_a_resumed_search_still_knows_the_curves_that_others_are_behind(place):
    place.write(
        "trial.py",
        """
        import os, time, shoal
        def main(x):
            with open("log", "a") as file:
                file.write(f"{x}\\n")
            while x < 0.5 and not os.path.exists("go"):
                time.sleep(0.01)
            shoal.report(score=x, step=1)
            if x < 0.5:
                time.sleep(30)
            return {"score": x}
        """,
    )
    trials = "{search: {x: {choice: [0.9, 0.1]}}, count: 2, sampler: grid, pruner: asha}"
    more = "objective: {metric: score, goal: max}\nlimits: {concurrent: 1, timeout: 20s}\n"
    process = place.start("run", place.sweep("s", trials, "function: trial:main", more))
    place.until(lambda: "0.1" in started(place), process)
    place.shoal("stop", "s", code=0)
    place.end(process, 3)
    (place.folder / "go").touch()
    rows = place.run("s", command="resume")
    assert [(row["x"], row["state"]) for row in rows] == [("0.9", "done"), ("0.1", "pruned")]


def test_a_resume_gives_no_number_again_whose_folder_is_there_though_its_record_was_lost(place):
    write_table(place, "1,ok")
    place.run(place.sweep("s", *FUNCTION))
    with place.store() as store:
        os.makedirs(os.path.join(store.folder, "checkpoints", "t0005-3154d8b436249eda"))
    write_table(place, "1,ok", "2,ok")
    place.run("s", command="resume")
    assert place.states() == {1: "done", 6: "done"}

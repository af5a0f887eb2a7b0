"""Trials that go wrong in every way a script can: each is recorded as what it was, and no other trial suffers."""

from __future__ import annotations

import json
import sqlite3
import subprocess

import pytest

ODD = [
    "two words",
    "  spaces around  ",
    "single ' quote",
    'double " quote',
    "$(touch hacked)",
    "`touch hacked`",
    "; touch hacked",
    "| touch hacked",
    "$HOME",
    "*",
    "~",
    "line one\nline two",
    "tab\there",
    "back\\slash",
    "{x}",
    "{{x}}",
    "{0}",
    "%s %d",
    "--help",
    "-c",
    "naïve 日本 🐟",
    "007",
    "1e-5",
    "0.10",
    "nan",
    "NaN",
    "inf",
    "true",
    "None",
    "null",
    "\u202eright to left",
    "e\u0301",
    "\x1b[31mred",
    "x" * 5000,
    "a,b",
    "\r",
    "",
]

KEEP = """
import json, os, sys
with open(os.path.join(os.environ["SHOAL_ITEM_DIR"], "arguments"), "wb") as file:
    file.write(b"\\0".join(os.fsencode(argument) for argument in sys.argv[1:]))
"""


def received(place, run, item):
    """The arguments that the script of an item was given, as bytes."""
    return (place.home / "runs" / run / "items" / item / "arguments").read_bytes().split(b"\0")


def test_a_cell_arrives_as_exactly_one_argument_byte_for_byte(place):
    place.write("keep.py", KEEP)
    with open(place.folder / "t.jsonl", "w") as file:
        file.writelines(json.dumps({"n": number, "x": cell}) + "\n" for number, cell in enumerate(ODD))
    run = place.json(
        "run", place.sweep("s", "{table: t.jsonl}", "python keep.py {n} {x} --x={x} '{x} {n}'"), "--json"
    )
    assert run["items"]["done"] == len(ODD)
    for number, cell in enumerate(ODD):
        expected = [str(number), cell, f"--x={cell}", f"{cell} {number}"]
        assert received(place, run["run"], f"t{number + 1:04d}") == [text.encode() for text in expected]
    assert not list(place.folder.rglob("hacked"))
    rows = place.table(run["results"])
    assert [row["x"] for row in rows] == ODD


def test_a_quoted_csv_cell_arrives_as_it_was_written(place):
    cells = [cell for cell in ODD if cell]
    place.write("keep.py", KEEP)
    with open(place.folder / "t.csv", "w", newline="", encoding="utf-8") as file:
        quoted = ['"' + cell.replace('"', '""') + '"' for cell in cells]
        file.write("\r\n".join(["x,y", *(f"{cell},." for cell in quoted)]))
    run = place.json("run", place.sweep("s", "{table: t.csv}", "python keep.py {x}"), "--json")
    arrived = [received(place, run["run"], f"t{number:04d}") for number in range(1, len(cells) + 1)]
    assert arrived == [[cell.encode()] for cell in cells]


def test_blank_and_nan_cells_are_an_empty_argument_and_none(place):
    place.write("t.csv", "n,x\n1,\n2,nan\n3,NaN\n4,5\n")
    place.write("keep.py", KEEP)
    place.write("f.py", "def main(n, x): return {'saw': repr(x)}\n")
    run = place.json("run", place.sweep("s", "{table: t.csv}", "python keep.py {x}"), "--json")
    arrived = [received(place, run["run"], f"t000{number}") for number in range(1, 5)]
    assert arrived == [[b""], [b"nan"], [b"NaN"], [b"5"]]
    rows = place.run(place.sweep("f", "{table: t.csv}", "function: f:main"))
    assert [row["saw"] for row in rows] == ["None", "nan", "nan", "5"]
    assert [row["x"] for row in rows] == ["", "nan", "NaN", "5"]


TRIAL = """
import ctypes, os, signal, subprocess, sys, time
how = sys.argv[1]
print("began", how, flush=True)
if how == "exit":
    print("no luck", file=sys.stderr)
    sys.exit(3)
if how == "segfault":
    ctypes.string_at(0)
if how == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if how == "memory":
    held = []
    while True:
        held.append(bytearray(10_000_000))
if how == "hang":
    time.sleep(1000)
if how == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1000)
if how == "loud":
    for _ in range(100):
        sys.stdout.write("x" * 1_000_000)
    print()
if how == "bytes":
    sys.stdout.buffer.write(b"\\xff\\xfe caf\\xe9 \\x00 \\xed\\xa0\\x80\\n")
    sys.stdout.flush()
if how == "nan":
    print("score: nan")
    sys.exit()
print("score: 7")
"""
SCORE = "metrics: {score: 'score: (.*)'}\nobjective: {metric: score, goal: max}\n"


def test_each_way_a_script_can_end_badly_is_recorded_and_the_others_go_on(place):
    place.write("trial.py", TRIAL)
    hows = ["exit", "ok", "segfault", "killed", "ok", "memory", "hang", "stubborn", "bytes", "nan", "ok"]
    place.write("t.csv", "\n".join(["how", *hows]))
    more = SCORE + "limits: {timeout: 3s}\nresources: {memory: 300MiB}\n"
    rows = place.run(place.sweep("s", "{table: t.csv}", "python trial.py {how}", more), code=1)
    assert [row["how"] for row in rows] == hows
    by_how = {row["how"]: row for row in rows}
    assert [row["score"] for row in rows if row["state"] == "done"] == ["7", "7", "7", "nan", "7"]
    assert {row["state"] for row in rows if row["how"] in ("ok", "bytes", "nan")} == {"done"}
    for how, words in {
        "exit": "exited with status 3: no luck",
        "segfault": "segmentation fault",
        "killed": "SIGKILL (most likely out of memory",
        "memory": "MemoryError",
        "hang": "timed out after 3.0s",
        "stubborn": "timed out after 3.0s",
    }.items():
        assert by_how[how]["state"] == "failed"
        assert words in by_how[how]["error"], by_how[how]
        assert by_how[how]["attempt"] == "1"
    assert place.json("show", "s", "--json")["best"]["score"] == 7


def test_a_hundred_megabytes_of_output_are_kept_and_cost_no_process_the_memory(place):
    place.write("trial.py", TRIAL)
    file = place.sweep("s", "{grid: {how: [loud]}}", "python trial.py {how}", SCORE)
    process = place.start("run", file)
    assert 0 < place.peak_bytes(process) < 250_000_000
    place.end(process, 0)
    assert place.table(place.home / "runs" / place.runs()[0] / "results.csv")[0]["score"] == "7"
    size = sum(path.stat().st_size for path in place.home.rglob("*.log"))
    assert size > 100_000_000
    logs = place.start("logs", "s", "t0001", stdout=subprocess.DEVNULL)
    assert logs.wait(60) == 0


def test_bytes_that_are_not_utf_8_are_kept_as_they_are(place):
    place.write("trial.py", TRIAL)
    place.shoal("run", place.sweep("s", "{grid: {how: [bytes]}}", "python trial.py {how}"), code=0)
    path = place.folder / "log"
    with open(path, "wb") as file:
        place.shoal("logs", "s", "t0001", stdout=file, code=0)
    assert b"\xff\xfe caf\xe9 \x00 \xed\xa0\x80\n" in path.read_bytes()


@pytest.mark.parametrize("way", ["stays", "setsid", "double fork"])
def test_processes_that_a_script_leaves_behind_end_with_its_trial(place, way):
    """The second trial starts only after the first, so it can see whether the sleeper of the first is gone."""
    place.write(
        "trial.py",
        """
        import os, pathlib, subprocess, sys
        way, n = sys.argv[1], sys.argv[2]
        note = pathlib.Path("sleeper")
        if n == "1":
            if way == "double fork":
                if os.fork():
                    os.wait()
                else:
                    os.setsid()
                    if not os.fork():
                        note.write_text(str(os.getpid()))
                        os.execvp("sleep", ["sleep", "1000"])
                    os._exit(0)
                while not note.exists():
                    pass
            else:
                sleeper = subprocess.Popen(["sleep", "1000"], start_new_session=way == "setsid")
                note.write_text(str(sleeper.pid))
        else:
            try:
                os.kill(int(note.read_text()), 0)
            except ProcessLookupError:
                print("gone")
            else:
                sys.exit("the sleeper of the first trial still runs")
        """,
    )
    file = place.sweep(
        "s", "{grid: {n: [1, 2]}}", f"python trial.py '{way}' {{n}}", "limits: {concurrent: 1}"
    )
    place.shoal("run", file, code=0)


def test_a_program_that_is_not_there_or_may_not_be_run_is_a_failed_trial(place):
    place.write("plain.txt", "no program")
    rows = place.run(place.sweep("s", "{grid: {p: [./nothing, ./plain.txt, .]}}", "{p}"), code=1)
    assert [row["state"] for row in rows] == ["failed"] * 3
    assert "not found" in rows[0]["error"]
    assert "not allowed" in rows[1]["error"]


def test_an_argument_list_that_is_too_long_is_a_failed_trial(place):
    place.write("keep.py", KEEP)
    place.write("t.csv", "x\n" + "x" * 3_000_000 + "\nok\n")
    said = place.shoal("run", place.sweep("s", "{table: t.csv}", "python keep.py {x}"))
    assert said.returncode in (1, 2)
    assert "longer" in said.stderr or "too long" in said.stderr


FUNCTION = """
import os, signal, subprocess, sys, time

class Unpicklable(Exception):
    def __init__(self, first, second):
        super().__init__(first)
        self.lock = __import__("threading").Lock()

class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")
    __repr__ = __str__

def main(how):
    if how == "unpicklable":
        raise Unpicklable("cannot be sent", 2)
    if how == "mute":
        raise Mute()
    if how == "list":
        return [1, 2]
    if how == "object":
        return {"model": object()}
    if how == "huge":
        return {"n": 10 ** 5000}
    if how == "keys":
        return {("a", 1): 2, None: 3}
    if how == "_exit":
        os._exit(0)
    if how == "exit":
        sys.exit(4)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "memory":
        held = []
        while True:
            held.append(bytearray(10_000_000))
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "recursion":
        return main(how)
    if how == "hang":
        time.sleep(1000)
    if how == "deaf":
        while True:
            try:
                time.sleep(1000)
            except BaseException:
                pass
    if how == "closes":
        sys.stdout.close()
        sys.stderr.close()
    if how == "chdir":
        os.chdir("/")
    if how == "fork":
        if not os.fork():
            return {"score": -1}
        os.wait()
    if how == "nan":
        return {"score": float("nan")}
    assert os.path.exists("function.py") or how == "chdir"
    return {"score": 7}
"""


def test_each_way_a_function_can_end_badly_is_recorded_and_the_others_go_on(place):
    place.write("function.py", FUNCTION)
    bad = {
        "unpicklable": "Unpicklable: cannot be sent (function.py:",
        "mute": "Mute: (its message cannot be shown)",
        "list": "returned a list; expected a dict",
        "object": "metric 'model' is a object",
        "_exit": "crashed: the process exited with status 0",
        "exit": "called sys.exit(4)",
        "killed": "killed by SIGKILL (most likely out of memory",
        "memory": "MemoryError: out of memory; give it more",
        "interrupt": "KeyboardInterrupt",
        "recursion": "RecursionError",
        "hang": "timed out after 2.0s",
        "deaf": "timed out after 2.0s",
    }
    good = ["keys", "closes", "chdir", "fork", "nan", "huge"]
    hows = [how for pair in [*bad, *good] for how in (pair, "ok")]
    more = "limits: {timeout: 2s}\nresources: {memory: 300MiB}\n"
    place.write("t.csv", "\n".join(["how", *hows]))
    file = place.sweep("s", "{table: t.csv}", "function: function:main", more)
    rows = place.run(file, code=1)
    assert [row["how"] for row in rows] == hows
    for row in rows:
        if row["how"] in bad:
            assert row["state"] == "failed", row
            assert bad[row["how"]] in row["error"], row
        elif row["how"] == "huge":
            assert row["state"] in ("done", "failed"), row
            assert "70" not in row["error"]
        else:
            assert (row["state"], row["error"]) == ("done", ""), row
    assert {row["score"] for row in rows if row["how"] in ("ok", "fork")} == {"7"}


def test_a_storm_of_crashes_costs_only_the_trials_that_crash(place):
    """Workers die while more is being sent to them, over and over."""
    place.write(
        "f.py",
        """
        import os
        def main(n):
            if n % 4 == 1:
                os.closerange(3, 100)
                os._exit(9)
            return {"n2": n * 2}
        """,
    )
    numbers = list(range(1, 201))
    rows = place.run(place.sweep("s", f"{{grid: {{n: {numbers}}}}}", "function: f:main"), code=1)
    assert [row["state"] for row in rows] == ["failed" if number % 4 == 1 else "done" for number in numbers]
    assert {row["attempt"] for row in rows} == {"1"}


def test_processes_that_a_function_leaves_behind_end_with_the_run(place):
    place.write(
        "f.py",
        """
        import subprocess
        def main(n):
            subprocess.Popen(["sleep", "1000"], start_new_session=n == 2)
        """,
    )
    place.run(place.sweep("s", "{grid: {n: [1, 2]}}", "function: f:main"))
    assert not place.alive()


def test_a_module_that_ends_the_process_when_it_is_imported_fails_the_run(place):
    place.write("f.py", "import os\nos._exit(5)\ndef main(x): ...\n")
    done = place.shoal("run", place.sweep("s", "{grid: {x: [1, 2, 3]}}", "function: f:main"), code=1)
    assert "No worker could start" in done.stderr
    assert "status 5" in done.stderr


def test_a_module_that_cannot_be_imported_fails_the_run_and_a_mended_one_can_be_resumed(place):
    place.write("f.py", "1 / 0\ndef main(x): ...\n")
    done = place.shoal("run", place.sweep("s", "{grid: {x: [1, 2, 3]}}", "function: f:main"), code=1)
    assert "ZeroDivisionError" in done.stderr
    place.write("f.py", "def main(x): return {'y': x}\n")
    rows = place.run("s", command="resume")
    assert [row["y"] for row in rows] == ["1", "2", "3"]


REPORTS = """
import sys, shoal
def main(how):
    if how == "huge step":
        shoal.report(score=1, step=10**30)
    elif how == "negative step":
        shoal.report(score=1, step=-1)
    elif how == "text step":
        shoal.report(score=1, step="one")
    elif how == "float step":
        shoal.report(score=1, step=1.0)
    elif how == "numpy step":
        import numpy
        shoal.report(score=numpy.float32(0.5), step=numpy.int64(3))
    elif how == "same step":
        shoal.report(score=1, step=1)
        shoal.report(score=2, step=1)
    elif how == "text value":
        shoal.report(score="high", step=1)
    elif how == "object value":
        shoal.report(score=object(), step=1)
    elif how == "nan value":
        shoal.report(score=float("nan"), step=1)
    return {"end": 1}
if __name__ == "__main__":
    main(sys.argv[1])
"""
REPORT_HOWS = [
    "huge step",
    "negative step",
    "text step",
    "float step",
    "numpy step",
    "same step",
    "text value",
    "object value",
    "nan value",
    "none",
]


@pytest.mark.parametrize(
    "run", ["function: reports:main", "python reports.py {how}"], ids=["function", "command"]
)
def test_an_odd_report_fails_its_own_trial_at_most(place, run):
    place.write("reports.py", REPORTS)
    choice = f"{{how: {{choice: {json.dumps(REPORT_HOWS)}}}}}"
    trials = f"{{search: {choice}, count: {len(REPORT_HOWS)}, sampler: grid, pruner: asha}}"
    file = place.sweep("s", trials, run, "objective: {metric: score, goal: max}")
    done = place.shoal("run", file, "--json")
    found = json.loads(done.stdout)
    rows = {row["how"]: row for row in place.table(found["results"])}
    assert len(rows) == len(REPORT_HOWS)
    for how in ("numpy step", "same step", "text value", "nan value", "none"):
        assert rows[how]["state"] in ("done", "pruned"), rows[how]
    assert rows["object value"]["state"] == "failed"


def test_a_command_that_reports_what_cannot_be_recorded_fails_alone(place):
    place.write(
        "trial.py",
        """
        import os, sys
        value = "[" * 600 + "]" * 600 if sys.argv[1] == "deep" else "1"
        name = "half \\\\ud800" if sys.argv[1] == "name" else "score"
        with open(os.environ["SHOAL_REPORT"], "ab") as file:
            file.write(f'["1", null, {{"{name}": {value}}}]\\n'.encode())
        """,
    )
    rows = place.run(place.sweep("s", "{grid: {x: [deep, name, fine]}}", "python trial.py {x}"), code=1)
    assert [row["state"] for row in rows] == ["failed", "failed", "done"]
    assert rows[0]["error"] == "metric 'score' is nested more than 100 deep: give it as text"
    assert "is no valid text" in rows[1]["error"]


def test_a_search_goes_on_after_values_that_cannot_be_searched_by(place):
    """Those that were recorded before they were refused, too: a resumed search learns from them again."""
    place.write(
        "f.py",
        """
        def main(x):
            return {"y": 10 ** 400 if x < 0.5 else x}
        """,
    )
    search = "{search: {x: {uniform: [0, 1]}}, count: 8, sampler: tpe, seed: 1}"
    more = "objective: {metric: y, goal: max}\nlimits: {failures: 8}"
    rows = place.run(place.sweep("s", search, "function: f:main", more))
    assert {row["state"] for row in rows} == {"done", "failed"}
    with sqlite3.connect(place.home / "runs" / place.runs()[-1] / "run.db") as record:
        metrics = json.dumps({"y": 10**400})
        record.execute("UPDATE items SET metrics=? WHERE seq IN (1, 2) AND state='done'", (metrics,))
        record.execute(
            "UPDATE items SET state='done', metrics=?, error=NULL WHERE state='failed'", (metrics,)
        )
        record.execute("UPDATE items SET state='waiting' WHERE seq=8")
        record.execute("""UPDATE run SET value='{"done": 7, "waiting": 1}' WHERE key='counts'""")
    record.close()
    rows = place.run("s", command="resume")
    assert len(rows) == 8


def test_lines_in_the_report_file_that_are_no_reports_are_ignored(place):
    place.write(
        "trial.py",
        """
        import os
        lines = [b"garbage", b"[]", b"[1,2,3]", b"{}", b"[" * 100000, b"\\xff\\xfe", b"null",
                 b'["1", 0, {"score": 1}, 2]', b'["1", 99999999999999999999999999, {"score": 5}]',
                 b'["1", -5, {"score": [1, {"a": NaN}]}]', b'["1", "x", {"score": "\\\\ud800"}]']
        with open(os.environ["SHOAL_REPORT"], "ab") as file:
            file.write(b"\\n".join(lines) + b"\\n" + b'["1", null, {"last": 3}]\\n')
        """,
    )
    rows = place.run(place.sweep("s", "{grid: {x: [1]}}", "python trial.py"))
    assert (rows[0]["state"], rows[0]["last"]) == ("done", "3")


def test_metrics_named_like_parameters_and_result_columns_do_not_replace_them(place):
    place.write(
        "f.py",
        "def main(x): return {'x': 9, 'item': 'a', 'state': 'b', 'seconds': 'c', 'error': 'd', '': 1, 'a,b\\n': 2}\n",
    )
    rows = place.run(place.sweep("s", "{grid: {x: [1]}}", "function: f:main"))
    assert (rows[0]["x"], rows[0]["metric.x"], rows[0]["item"], rows[0]["state"]) == (
        "1",
        "9",
        "t0001",
        "done",
    )
    assert rows[0]["error"] == ""

"""Whoever is killed, and wherever: in the end each input is there exactly once, as a row or as an error."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from shoal.spec.shared_sections import Output
from shoal.work.outputs import PartWriter, claim, document_of, ensure_ours, finish, replace, rows, tidy
from shoal.work.protocols import Facts

RUN = "a-1"
GOOD, BAD = 40, 2
TIMEOUT_S = 120

WORKER = f"""
import json, sys
from shoal.spec.infer import Output
from shoal.work.protocols import Facts
from shoal.work.outputs import PartWriter, document_of

def attempt(writer, seq, number):
    '''One attempt at an item. Which of several attempts it was can be told from every row and every error.'''
    if number > 1 and (found := writer.find(seq, "c")) is not None:
        return found
    good = 0 if seq % 5 == 3 else {GOOD}
    keys = {{"path": [f"{{seq}}/{{row}}" for row in range(good)]}}
    columns = {{"attempt": [number] * good, "label": ["on"] * good}}
    errors = [({{"path": f"{{seq}}/bad{{row}}"}}, f"attempt {{number}}") for row in range({BAD} if seq % 2 else 0)]
    return writer.write(seq, number, "c", keys, columns, errors, Facts(0, 0, 1))

def main():
    path, endpoint, number, seqs = json.loads(sys.argv[1])
    writer = PartWriter(Output(path=path, endpoint=endpoint), ".", "{RUN}")
    print("ready", flush=True)
    sys.stdin.readline()
    for seq in seqs:
        print(json.dumps([seq, None]), flush=True)
        print(json.dumps([seq, document_of(attempt(writer, seq, number))]), flush=True)
"""


def started(output: Output, number: int, seqs: list[int]) -> subprocess.Popen[str]:
    """A worker that is ready, and begins when it is given a line."""
    arguments = json.dumps([output.path, output.endpoint, number, seqs])
    command = [sys.executable, "-c", f"{WORKER}\nmain()", arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def kill_after(process: subprocess.Popen[str], lines: int) -> None:
    """Kill it when it has said so much, in the middle of whatever it does next."""
    assert process.stdout is not None
    for _ in range(lines):
        process.stdout.readline()
    process.kill()
    process.communicate(timeout=TIMEOUT_S)


def told(process: subprocess.Popen[str]) -> dict[int, dict[str, Any]]:
    """The facts of all items, from a worker that lives to its end."""
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    return {seq: document for seq, document in map(json.loads, output.splitlines()) if document}


def check_whole(output: Output, facts: dict[int, dict[str, Any]], count: int) -> None:
    """Finish, and look whether every input is there once, from the attempt that its item's facts name."""
    done = list(facts.items())
    totals = finish(output, ".", RUN, done)
    assert finish(output, ".", RUN, done) == totals
    tidy(output, ".", RUN)
    assert finish(output, ".", RUN, done) == totals
    good = [seq for seq in range(count) if seq % 5 != 3]
    expected = [(f"{seq}/{row}", facts[seq]["attempt"]) for seq in good for row in range(GOOD)]
    assert [(row["path"], row["attempt"]) for row in rows(output, ".")] == expected
    assert (totals.rows, totals.parts, totals.missing) == (len(expected), count, ())
    assert totals.errors == sum(totals.reasons.values()) == BAD * (count // 2)


def check_local(output: Output, facts: dict[int, dict[str, Any]], count: int) -> None:
    """The same, as others read the folder."""
    check_whole(output, facts, count)
    found = pq.read_table(output.path).to_pylist()
    errors = pq.read_table(f"{output.path}/errors.parquet").to_pylist()
    assert {(row["path"], row["reason"]) for row in errors} == {
        (f"{seq}/bad{row}", f"attempt {facts[seq]['attempt']}")
        for seq in range(1, count, 2)
        for row in range(BAD)
    }
    assert (
        len({row["path"] for row in found})
        == len(found)
        == len(errors) + sum(GOOD for seq in range(count) if seq % 5 != 3)
    )
    assert not [path for path in Path(output.path).rglob("*") if path.name.endswith(".part")]


def claimed(output: Output) -> Output:
    claim(output, ".", RUN, "home", is_alive=lambda *_: False)
    return output


def killed_rounds(output: Output, rounds: int, count: int, seed: int) -> dict[int, dict[str, Any]]:
    """Two workers at a time go about the same items, and are killed in the middle; the last one is not."""
    chance = random.Random(seed)
    seqs = list(range(count))
    for number in range(1, 2 * rounds, 2):
        both = [started(output, number + each, chance.sample(seqs, count)) for each in range(2)]
        for process in both:
            begin(process)
        for process in both:
            kill_after(process, chance.randrange(1, 8))
    last = started(output, 2 * rounds + 1, seqs)
    begin(last)
    return told(last)


def test_workers_that_are_killed_lose_and_repeat_nothing(local_output: Output) -> None:
    check_local(local_output, killed_rounds(claimed(local_output), 6, 20, seed=4), 20)


@pytest.mark.long
def test_the_same_over_a_network(far_output: Output) -> None:
    check_whole(far_output, killed_rounds(claimed(far_output), 3, 8, seed=5), 8)


def race(output: Output, count: int) -> dict[int, dict[str, Any]]:
    """Two workers write the same items at once; what they were told."""
    both = [started(output, number, list(range(count))) for number in (1, 2)]
    for process in both:
        begin(process)
    first, second = map(told, both)
    assert first == second
    return first


def test_of_two_attempts_at_once_one_counts_and_both_are_told_which(local_output: Output) -> None:
    facts = race(claimed(local_output), 30)
    check_local(local_output, facts, 30)


@pytest.mark.long
def test_the_race_over_a_network(far_output: Output) -> None:
    check_whole(far_output, race(claimed(far_output), 10), 10)


DYING = """
import os, signal, sys

def at_each_step(root, action, before=lambda deaths: None):
    '''Fork, and let the child die before its first, second, ... step in the folder, until one lives to the end.'''
    for deaths in range(200):
        before(deaths)
        pid = os.fork()
        if pid == 0:
            steps = 0
            def count(event, arguments):
                nonlocal steps
                if event not in STEPS or not any(root in str(each) for each in arguments[:2]):
                    return
                steps += 1
                if steps > deaths:
                    os.kill(os.getpid(), signal.SIGKILL)
            sys.addaudithook(count)
            action(deaths)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status == 0:
            return deaths
        assert status == -signal.SIGKILL, status
    raise AssertionError("it never comes to its end")

STEPS = ("open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.scandir")
"""


def die_at_each_step(program: str, *arguments: str) -> int:
    """Run a program that calls `at_each_step`: how many deaths there were."""
    command = [sys.executable, "-c", f"{WORKER}\n{DYING}\n{program}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_a_writer_may_die_at_any_step(local_output: Output) -> None:
    program = """
output = Output(path=sys.argv[1])
import pyarrow.parquet, numpy
writer = PartWriter(output, ".", "a-1")
def act(deaths):
    attempt(writer, 2 * deaths + 1, 1)  # Another item for each death; those have errors, too.
print(at_each_step(output.path, act))
"""
    deaths = die_at_each_step(program, claimed(local_output).path)
    assert deaths >= 8
    count = 2 * deaths + 2
    last = started(local_output, 2, list(range(count)))
    begin(last)
    check_local(local_output, told(last), count)


def fill(output: Output, count: int) -> dict[int, dict[str, Any]]:
    process = started(claimed(output), 1, list(range(count)))
    begin(process)
    return told(process)


def test_finishing_may_die_at_any_step(local_output: Output) -> None:
    facts = fill(local_output, 8)
    PartWriter(local_output, ".", RUN).write(
        9, 1, "c", {"path": ["x"]}, {"attempt": [1], "label": ["on"]}, [({"path": "y"}, "bad")], Facts(0, 0)
    )
    program = """
from shoal.work.outputs import finish, tidy
import pyarrow.parquet
output, done = Output(path=sys.argv[1]), json.loads(sys.argv[2])
def act(_deaths):
    finish(output, ".", "a-1", done)
    tidy(output, ".", "a-1")
print(at_each_step(output.path, act))
"""
    deaths = die_at_each_step(program, local_output.path, json.dumps(list(facts.items())))
    assert deaths >= 15
    check_local(local_output, facts, 8)


def test_taking_over_may_die_at_any_step(local_output: Output, tmp_path: Path) -> None:
    fill(local_output, 4)
    program = """
import shutil
from shoal.work.outputs import claim, replace
filled, copies = sys.argv[1:]
def before(deaths):
    shutil.copytree(filled, f"{copies}/{deaths}")
def act(deaths):
    claim(Output(path=f"{copies}/{deaths}"), ".", "b-2", "home", is_alive=lambda *_: False)
    replace(Output(path=f"{copies}/{deaths}"), ".", "b-2")
print(at_each_step(copies, act, before))
"""
    deaths = die_at_each_step(program, local_output.path, str(tmp_path / "copies"))
    assert deaths >= 10
    for number in range(deaths + 1):
        output = Output(path=str(tmp_path / "copies" / str(number)))
        run = "c-3" if number % 2 else "b-2"
        if run == "b-2" and number > deaths // 2:
            ensure_ours(output, ".", run)  # It is resumed, and goes on where it was.
        claim(output, ".", run, "home", is_alive=lambda *_: False)
        replace(output, ".", run)
        assert list(rows(output, ".")) == []
        facts = PartWriter(output, ".", run).write(0, 1, "c", {"path": ["x"]}, {"y": [1]}, [], Facts(0, 0))
        assert finish(output, ".", run, [(0, document_of(facts))]).rows == 1
        tidy(output, ".", run)
        left = sorted(path.name for path in Path(output.path).rglob("*") if path.is_file())
        assert left == ["1.json", "part-000000.parquet", "run.json", "schema-1.arrow"]

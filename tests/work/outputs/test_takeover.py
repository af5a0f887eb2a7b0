"""A driver is suspended between a look and what it does after it; its heir ends the run; then it goes on.

Whatever it was about to do: all rows are there once, the errors are the heir's, and it is told that it was replaced.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from shoal.engine.workers.runner import Failed
from shoal.errors import TakenOver
from shoal.files.turns import Turns
from shoal.spec.shared_sections import Output
from shoal.work.outputs import PartWriter, claim, document_of, finish, next_number, replace, rows, tidy, turns
from shoal.work.outputs.layout import HIDDEN, aside_key, look, opened, part_key, put_back
from shoal.work.protocols import Facts

RUN = "a-1"
ROWS = 100
HANG_S = 60


class Taken(NamedTuple):
    """A turn of a driver that looks in the output alone."""

    places: Turns
    number: int

    def ensure(self) -> None:
        if self.places.highest() > self.number:
            raise TakenOver(f"turn {self.places.highest()} was taken")


def turn_of(output: Output, number: int, run: str = RUN) -> Taken:
    taken = Taken(turns(output, ".", run), number)
    assert taken.places.take(number, {"number": number})
    return taken


def write(
    output: Output, seq: int, by: str, columns: Any = None, run: str = RUN, content: str = ""
) -> tuple[int, Any]:
    """An item with an error, and who wrote it."""
    keys = {"path": [f"{seq}/{number}" for number in range(ROWS)]}
    errors = [({"path": f"{seq}/bad"}, f"found by {by}")]
    given = {"by": [by] * ROWS} | (columns or {})
    writer = PartWriter(output, ".", run)
    return seq, document_of(writer.write(seq, 1, content or f"c{seq}", keys, given, errors, Facts(0, 0)))


SUSPENDED = """
import json, sys
from shoal.errors import TakenOver
from shoal.spec.infer import Output
from shoal.work.outputs import finish, replace, tidy
sys.path.insert(0, sys.argv[1])
from test_takeover import RUN, turn_of
path, act, done = json.loads(sys.argv[2])
output = Output(path=path)
turn = turn_of(output, 1, "b-2" if act == "replace" else RUN)
try:
    if act == "replace":
        replace(output, ".", "b-2", turn)
    else:
        finish(output, ".", RUN, done, turn)
except TakenOver as error:
    print(error)
"""


@pytest.fixture
def suspended(local_output: Output) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """A driver of turn 1 that was stopped at this point."""
    started: list[subprocess.Popen[str]] = []

    def make(point: str, act: str, done: Any = ()) -> subprocess.Popen[str]:
        arguments = json.dumps([local_output.path, act, list(done)])
        command = [sys.executable, "-c", SUSPENDED, os.path.dirname(__file__), arguments]
        environment = {**os.environ, "SHOAL_SUSPEND_AT": point}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        started.append(process)
        until(lambda: state(process.pid) in "TZ")
        assert state(process.pid) == "T", f"it never came to {point}"
        return process

    yield make
    for process in started:
        process.kill()
        process.communicate()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)


def go_on(process: subprocess.Popen[str]) -> None:
    """Continue it: it ends, and was told that it was replaced."""
    process.send_signal(signal.SIGCONT)
    said, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 0
    assert said == "turn 2 was taken\n"


def check(output: Output, by: list[str], run_rows: int) -> None:
    """As others read the folder: every row once, and the errors of these writers in the order of items."""
    found = [row["path"] for row in rows(output, ".")]
    assert len(found) == len(set(found)) == run_rows
    errors = pq.read_table(f"{output.path}/errors.parquet").column("reason").to_pylist()
    assert errors == [f"found by {each}" for each in by]
    assert pq.read_table(output.path).num_rows == run_rows + len(by)


Suspended = Callable[..., subprocess.Popen[str]]


@pytest.mark.parametrize("point", ["publish", "errors", "delete"])
def test_a_driver_that_ends_late_takes_nothing_from_its_heir(
    local_output: Output, suspended: Suspended, point: str
) -> None:
    """Five of ten items are done, and the part of a sixth is there, for which its driver was told of no end."""
    claim(local_output, ".", RUN, "home", is_alive=lambda *_: False)
    done = [write(local_output, seq, "the first") for seq in range(1, 7)]
    first = suspended(point, "finish", done[:5])
    heir = turn_of(local_output, 2)
    adopted = PartWriter(local_output, ".", RUN).find(6, "c6")
    assert adopted is not None
    assert next_number(local_output, ".") == 7
    done += [write(local_output, seq, "the heir") for seq in range(7, 11)]
    assert finish(local_output, ".", RUN, done, heir).rows == 10 * ROWS
    tidy(local_output, ".", RUN, heir)
    go_on(first)
    check(local_output, ["the first"] * 6 + ["the heir"] * 4, 10 * ROWS)
    assert not list(opened(local_output, ".").list(HIDDEN, "aside-*"))


def test_errors_that_an_heir_did_not_have_do_not_come_back(
    local_output: Output, suspended: Suspended
) -> None:
    claim(local_output, ".", RUN, "home", is_alive=lambda *_: False)
    done = [write(local_output, 1, "the first")]
    first = suspended("errors", "finish", done)
    heir = turn_of(local_output, 2)
    finish(local_output, ".", RUN, [], heir)  # It knows nothing of that item.
    go_on(first)
    assert not os.path.exists(f"{local_output.path}/errors.parquet")


def test_a_driver_that_clears_the_folder_late_takes_nothing_from_its_heir(
    local_output: Output, suspended: Suspended
) -> None:
    """The parts of an earlier run have the same names, their columns others, and one error is the same to the byte."""
    claim(local_output, ".", RUN, "home", is_alive=lambda *_: False)
    old = [write(local_output, seq, "all", {"old": [1] * ROWS}) for seq in range(1, 5)]
    finish(local_output, ".", RUN, old)
    claim(local_output, ".", "b-2", "home", is_alive=lambda *_: False)
    first = suspended("delete", "replace")
    heir = turn_of(local_output, 2, "b-2")
    (note,) = replace(local_output, ".", "b-2", heir)
    assert "held 4 parts of run a-1" in note
    done = [write(local_output, seq, "all", run="b-2") for seq in range(1, 11)]
    go_on(first)
    done += [write(local_output, 11, "all", run="b-2")]
    assert finish(local_output, ".", "b-2", done, heir).rows == 11 * ROWS
    check(local_output, ["all"] * 11, 11 * ROWS)


@pytest.mark.parametrize("is_known", [True, False], ids=["known to the heir", "not known to the heir"])
def test_a_driver_that_completes_parts_late_spoils_none_of_its_heirs(
    local_output: Output, suspended: Suspended, is_known: bool
) -> None:
    """The first part has a column of which only the heir learns the type."""
    claim(local_output, ".", RUN, "home", is_alive=lambda *_: False)
    done = [write(local_output, 1, "the first", {"score": [None] * ROWS})]
    first = suspended("complete", "finish", done)
    heir = turn_of(local_output, 2)
    if is_known:
        done += [write(local_output, 2, "the heir", {"score": [0.5] * ROWS})]
    else:
        done = [write(local_output, 2, "the heir", {"score": [0.5] * ROWS})]
    finish(local_output, ".", RUN, done, heir)
    go_on(first)
    assert len(list(rows(local_output, "."))) == len(done) * ROWS
    for path in Path(local_output.path).glob("part-*.parquet"):
        assert str(pq.read_schema(path).field("score").type) == "double"


def test_a_driver_that_is_killed_with_parts_aside_costs_its_heir_nothing(local_output: Output) -> None:
    claim(local_output, ".", RUN, "home", is_alive=lambda *_: False)
    done = [write(local_output, seq, "the first") for seq in range(1, 4)]
    storage = opened(local_output, ".")
    storage.move(part_key(2), aside_key(1, part_key(2)))
    storage.write(aside_key(1, part_key(9)), b"of an item that nobody knows")
    storage.write(aside_key(3, part_key(8)), b"of a driver that comes later")
    assert next_number(local_output, ".") == 10
    totals = finish(local_output, ".", RUN, done, turn_of(local_output, 2))
    assert (totals.rows, totals.missing) == (3 * ROWS, ())
    check(local_output, ["the first"] * 3, 3 * ROWS)
    left = [entry.key for entry in storage.list(HIDDEN, "aside-*")]
    assert left == [aside_key(3, part_key(8))]


def test_what_is_put_back_does_not_replace_what_was_written_since(local_output: Output) -> None:
    storage = opened(local_output, ".")
    storage.write(aside_key(1, part_key(1)), b"old")
    storage.write(part_key(1), b"new")
    put_back(storage, look(storage).retired)
    assert [(entry.key, storage.read(entry.key)) for entry in storage.list(hidden=True)] == [
        (part_key(1), b"new")
    ]


def write_numbered(output: Output, content: str, turn: int) -> Facts:
    writer = PartWriter(output, ".", RUN)
    return writer.write(5, 1, content, {"path": [content]}, {"by": [str(turn)]}, [], Facts(0, 0), turn)


def test_a_part_of_an_item_that_was_lost_with_its_driver_makes_room(local_output: Output) -> None:
    """A worker of the first driver wrote it, under a number that the heir has given to other inputs."""
    claim(local_output, ".", RUN, "home", is_alive=lambda *_: False)
    lost = write_numbered(local_output, "lost", 1)
    assert PartWriter(local_output, ".", RUN).find(5, "lost", 2) == lost
    facts = write_numbered(local_output, "known", 2)
    assert [row["path"] for row in rows(local_output, ".")] == ["known"]
    assert [each.key for each in look(opened(local_output, ".")).retired] == [part_key(5)]
    with pytest.raises(Failed, match="is of other inputs"):
        write_numbered(local_output, "lost", 1)
    finish(local_output, ".", RUN, [(5, document_of(facts))], turn_of(local_output, 2))
    assert [row["path"] for row in rows(local_output, ".")] == ["known"]
    assert not look(opened(local_output, ".")).retired


def test_a_part_that_comes_when_the_heir_has_ended_without_it_is_taken_back(local_output: Output) -> None:
    claim(local_output, ".", RUN, "home", is_alive=lambda *_: False)
    done = [write(local_output, 1, "the heir")]
    finish(local_output, ".", RUN, done, turn_of(local_output, 2))
    with pytest.raises(Failed, match="was taken over, and has ended without part-000005"):
        write_numbered(local_output, "late", 1)
    check(local_output, ["the heir"], ROWS)
    write_numbered(local_output, "new", 3)  # The run was resumed, and has more to do.
    assert len(list(rows(local_output, "."))) == ROWS + 1


def test_a_run_that_is_not_over_keeps_what_a_resume_takes_up(local_output: Output) -> None:
    claim(local_output, ".", RUN, "home", is_alive=lambda *_: False)
    done = [write(local_output, seq, "the first") for seq in range(1, 7)]
    finish(local_output, ".", RUN, done[:2], strangers=range(4, 6))
    there = {int(path.stem[-6:]) for path in Path(local_output.path).glob("part-*.parquet")}
    assert there == {1, 2, 3, 6}


def test_a_driver_that_was_replaced_does_nothing_at_all(local_output: Output) -> None:
    claim(local_output, ".", RUN, "home", is_alive=lambda *_: False)
    done = [write(local_output, seq, "the first") for seq in range(1, 3)]
    first = turn_of(local_output, 1)
    turn_of(local_output, 2)
    storage = opened(local_output, ".")
    before = {entry.key: entry.etag for entry in storage.list(hidden=True)}
    with pytest.raises(TakenOver):
        finish(local_output, ".", RUN, done[:1], first)
    with pytest.raises(TakenOver):
        tidy(local_output, ".", RUN, first)
    assert {entry.key: entry.etag for entry in storage.list(hidden=True)} == before

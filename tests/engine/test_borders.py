"""What a worker says is checked where it arrives: no value and no stray byte ends a driver, or another worker."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.engine.local.engine import LocalEngine
from shoal.engine.workers import messages
from shoal.engine.workers.worker_links import Connection, Known
from shoal.model import Factory, Item, ItemEnded, ItemProgressed, Need, Node, Place, WorkerLost
from shoal.testing import collect
from shoal.testing.events import heard, lost, of

END = messages.Ended(1, 1, 5.0, "done", {"x": 1}, None, 0.5, 0, 10, kept=False)


def end(**changes: Any) -> bytes:
    """An end of an item with other metrics, or with other values by their positions."""
    message = ["ended", *END]
    for name, value in changes.items():
        message[int(name.removeprefix("at"))] = value
    return json.dumps(message).encode()


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def said(*lines: bytes) -> tuple[list[messages.Said], Connection]:
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.setblocking(False)
        theirs.send(b"".join(line + b"\n" for line in lines))
        connection = Connection(ours)
        told = connection.receive()
    ours.close()
    return told, connection


NO_MESSAGES = {
    "no JSON": b"Segmentation fault",
    "no text": b"\xff\xfe\x00",
    "nothing": b"",
    "half of one": b'["ready", 1.0',
    "endless brackets": b"[" * 100_000,
    "many brackets": b"[" * 900 + b"]" * 900,
    "another value": b'{"op": "kill"}',
    "an empty list": b"[]",
    "a list of lists": b"[[1]]",
    "an unknown word": b'["hello", 1]',
    "too short": b'["ended", 1, 1]',
    "too long": b'["ready", 1.0, 1.0, {}, 1.0]',
    "a moment that is none": b'["ready", NaN, 1.0, {}]',
    "a moment without end": b'["ready", 1e300, 1.0, {}]',
    "a number of an item that is a text": end(at1="1"),
    "a number beyond 64 bits": end(at1=2**70),
    "an integer of 5,000 digits": b'["returned", [[1' + b"0" * 5000 + b", 1]]]",
    "an unknown state": end(at4="running"),
    "metrics that are a list": end(at5=[1]),
    "an integer that no float can hold": end(at5={"x": 10**308}),
    "a deep list": end(at5={"x": nested(101)}),
    "a name that is no text": end(at5={"\ud800": 1}),
    "a huge step": b'["progressed", 1, 1, 1.0, {}, 99999999999999999999]',
    "a log that begins before the file does": b'["started", 1, 1, 1.0, -1]',
    "pairs that are none": b'["returned", [[1, 2], [3]]]',
}


@pytest.mark.parametrize("line", NO_MESSAGES.values(), ids=NO_MESSAGES.keys())
def test_what_is_no_message_is_the_end_of_that_connection_and_nothing_more(line: bytes) -> None:
    told, connection = said(end(), line, end())
    assert told[0] == END
    [broken] = told[1:]
    assert isinstance(broken, messages.Broken)
    why = broken.why
    assert why.startswith("what its process said was refused: ")
    assert len(why) < 500
    assert not connection.open
    known = Known(1, Place(1, "here", Need()), "1.log")
    assert [known.hear(message, 1.0) is None for message in told] == [False, True]
    assert known.end(-9, None) == ("crash", why)


def test_every_message_of_a_worker_passes() -> None:
    told = [
        messages.Ready(1.0, 0.1, {"port": 1}),
        messages.Facts(1.0, {"port": 2}),
        messages.FailedStart("ValueError: \ud800"),
        messages.Leaving("no room"),
        messages.Broken("of no use"),
        messages.Started(1, 2, 3.0, 4),
        messages.Progressed(1, 2, 3.0, {}, None),
        messages.Progressed(1, 2, 3.0, {"é": [1, {"a": None}], "big": -(10**308) + 1}, -5),
        messages.Ended(1, 2, 3, "pruned", {"deep": nested(100)}, "why", 0, 0, 0, kept=True),
        END,
        messages.Returned([]),
        messages.Returned([[1, 2], [3, 4]]),
    ]
    lines = b"".join(messages.encode(message) for message in told)
    found, why = messages.decode(lines[:-1])
    assert why is None
    assert found == told
    assert list(map(type, found)) == list(map(type, told))


def test_every_order_to_a_worker_arrives_as_it_was() -> None:
    item = Item(7, "t7", {"lr": 0.1}, {"lr": "0.10"}, "c", 0, 2, 1)
    factory = Factory("module:name", {"a": [1]}, {"B": "c"}, "/folder")
    told = [
        messages.Setup(1, factory, "1.log", 0.5, 1 << 30, "/run", 5.5, ["0", "1"], "YQ=="),
        messages.Chunk([messages.Entry(7, 2, 2, "t7", {"lr": 0.1}, {"lr": "0.10"}, "t7-c")]),
        messages.Recall(),
        messages.Cancel(7, 2, "stopped", "why"),
        messages.End(),
    ]
    assert told[1] == messages.Chunk([messages.entry(item)])
    found = [messages.decode_order(messages.encode(order)) for order in told]
    assert found == told
    assert list(map(type, found)) == list(map(type, told))
    assert isinstance(found[0], messages.Setup)
    assert found[0].factory.target == "module:name"
    assert isinstance(found[1], messages.Chunk)
    assert found[1].entries[0].checkpoint == "t7-c"


def test_a_line_without_an_end_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MESSAGE_BYTES", 1000)
    told, connection = said(messages.encode(messages.Ready(1.0, 1.0, {}))[:-1] + b"\n" + b"x" * 2000)
    assert list(map(type, told)) == [messages.Ready, messages.Broken]
    assert not connection.open


def test_a_large_message_arrives_whole_whatever_the_pieces_are() -> None:
    line = end(at5={"x": "y" * 500_000})
    ours, theirs = socket.socketpair()
    connection, told = Connection(ours), []
    data = b"".join([line, b"\n", end(), b"\n"])
    for start in range(0, len(data), 70_000):
        theirs.sendall(data[start : start + 70_000])
        told += connection.receive()
    assert told == [END._replace(metrics={"x": "y" * 500_000}), END]
    ours.close()
    theirs.close()


def test_a_worker_that_gives_up_in_the_middle_of_an_item_has_died_of_it() -> None:
    known = Known(1, Place(1, "here", Need()), "1.log")
    known.hear(messages.Ready(1.0, 1.0, {}), 1.0)
    known.hear(messages.Started(1, 1, 1.0, 0), 1.0)
    known.hear(messages.FailedStart("OSError: no space left"), 1.0)
    assert known.end(70, None) == ("crash", "OSError: no space left")


RUNNERS = '''
import os, socket, stat, sys, time

def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value

def cycle():
    value = []
    value.append(value)
    return value

class Itself:
    def item(self):
        return self

VALUES = {
    "huge": lambda: {"x": 10 ** 5000},
    "beyond": lambda: {"x": [{"y": -10 ** 308}]},
    "deep": lambda: {"x": nested(600)},
    "deeper": lambda: {"x": nested(50_000)},
    "cycle": lambda: {"x": cycle()},
    "itself": lambda: {"x": Itself()},
    "name": lambda: {"a\\ud800": 1},
    "large": lambda: {"x": "y" * (65 << 20)},
    "fine": lambda: {"x": 10 ** 307, "y": nested(100), "z": "\\ud800"},
}

def sockets():
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISSOCK(os.stat(int(name)).st_mode):
                found.append(int(name))
        except OSError:
            continue
    return found

class Say:
    def run(self, work):
        from shoal.engine.workers import reporting
        if work.params["by"] == "return":
            return VALUES[work.params["value"]]()
        if work.params["by"] == "exit":
            sys.exit(VALUES[work.params["value"]]()["x"])
        reporting.report(**VALUES[work.params["value"]]())

class Forks:
    """Eight children report at the same time, values that no socket takes at once."""

    def run(self, work):
        from shoal.engine.workers import reporting
        children = []
        for child in range(8):
            pid = os.fork()
            if pid == 0:
                for step in range(10):
                    reporting.report(step=step, **{f"child{child}": "x" * 40_000})
                if child % 2:
                    return {"ended": "twice"}
                os._exit(0)
            children.append(pid)
        for step in range(10):
            reporting.report(step=step, parent="x" * 40_000)
        for pid in children:
            os.waitpid(pid, 0)
        return {"ended": "once"}

class Late:
    """The first item leaves a child behind that reports later; the second waits for it."""

    def run(self, work):
        from shoal.engine.workers import reporting
        if work.params["first"]:
            if os.fork() == 0:
                while not os.path.exists(work.params["go"]):
                    time.sleep(0.005)
                reporting.report(late=1)
                open(work.params["went"], "w").close()
                os._exit(0)
            return {"n": 1}
        if os.fork() == 0:
            reporting.report(mine=2)
            os._exit(0)
        open(work.params["go"], "w").close()
        while not os.path.exists(work.params["went"]):
            time.sleep(0.005)
        return {"n": 2}

class Stray:
    """Writes to every socket it finds: as a child, as a program that was started, or itself."""

    def run(self, work):
        if work.params["who"] == "child":
            if os.fork() == 0:
                for found in sockets():
                    os.write(found, b"stray\\n")
                os._exit(0)
            os.wait()
        elif work.params["who"] == "program":
            os.system(f"{sys.executable} {__file__}")
        elif work.params["who"] == "itself":
            for found in sockets():
                os.write(found, b"stray\\n")
            time.sleep(100)
        return {"x": 1}

if __name__ == "__main__":
    for found in sockets():
        os.write(found, b"stray\\n")
'''


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    (tmp_path / "runners.py").write_text(RUNNERS)
    engine = LocalEngine([Node("here", 4, 1 << 34)], str(tmp_path / "run"))
    yield engine
    engine.close()


def start(engine: LocalEngine, folder: Path, runner: str, *params: dict[str, Any]) -> int:
    place = engine.reserve([Need()], None).places[0]
    worker = engine.spawn(Factory(f"runners:{runner}", {}, {}, str(folder)), place)
    engine.submit(worker, [Item(seq, f"t{seq}", given) for seq, given in enumerate(params, 1)])
    return worker


@pytest.mark.parametrize("by", ["return", "report"])
def test_a_value_that_cannot_be_recorded_fails_its_own_item_with_a_sentence(
    engine: LocalEngine, tmp_path: Path, by: str
) -> None:
    reasons = {
        "huge": "has an integer of more than 308 digits",
        "beyond": "has an integer of more than 308 digits",
        "deep": "is nested more than 100 deep",
        "deeper": "is nested more than 100 deep",
        "cycle": "is nested more than 100 deep",
        "itself": "is a Itself; expected a number",
        "name": "is no valid text",
        "large": "its metrics take 65 MiB as JSON; at most 64 MiB can be recorded",
    }
    start(engine, tmp_path, "Say", *[{"by": by, "value": value} for value in [*reasons, "fine"]])
    *bad, fine = of(ItemEnded, collect(engine, heard(ItemEnded, len(reasons) + 1), 60))
    assert [event.outcome.state for event in bad] == ["failed"] * len(reasons)
    for event, reason in zip(bad, reasons.values(), strict=True):
        assert reason in str(event.outcome.error)
        assert len(str(event.outcome.error)) < 2100
    assert fine.outcome.state == "done"
    assert fine.outcome.metrics == {"x": 10**307, "y": nested(100), "z": "\ud800"}


def test_an_exit_with_a_value_that_cannot_be_shown_fails_its_own_item(
    engine: LocalEngine, tmp_path: Path
) -> None:
    start(engine, tmp_path, "Say", {"by": "exit", "value": "huge"}, {"by": "exit", "value": "large"})
    first, second = of(ItemEnded, collect(engine, heard(ItemEnded, 2), 30))
    assert "cannot be shown" in str(first.outcome.error)
    assert "sys.exit" in str(second.outcome.error)


def test_children_of_a_function_report_at_the_same_time_and_nothing_is_mixed_up(
    engine: LocalEngine, tmp_path: Path
) -> None:
    start(engine, tmp_path, "Forks", {})
    events = collect(engine, heard(ItemEnded), 60)
    [end] = of(ItemEnded, events)
    assert end.outcome.error is None
    names = {"parent", *[f"child{child}" for child in range(8)]}
    assert end.outcome.metrics == dict.fromkeys(names, "x" * 40_000) | {"ended": "once"}
    told = [(*report.metrics, report.step) for report in of(ItemProgressed, events)]
    assert sorted(told) == sorted((name, step) for name in names for step in range(10))


def test_a_child_that_an_item_left_behind_reports_nothing_of_the_next(
    engine: LocalEngine, tmp_path: Path
) -> None:
    paths = {"go": str(tmp_path / "go"), "went": str(tmp_path / "went")}
    start(engine, tmp_path, "Late", {"first": True, **paths}, {"first": False, **paths})
    first, second = of(ItemEnded, collect(engine, heard(ItemEnded, 2), 30))
    assert first.outcome.metrics == {"n": 1}
    assert second.outcome.metrics == {"mine": 2, "n": 2}


@pytest.mark.parametrize("who", ["child", "program"])
def test_what_others_write_to_the_socket_of_a_worker_goes_nowhere(
    engine: LocalEngine, tmp_path: Path, who: str
) -> None:
    start(engine, tmp_path, "Stray", {"who": who}, {"who": "nobody"})
    ends = of(ItemEnded, collect(engine, heard(ItemEnded, 2), 30))
    assert [end.outcome.state for end in ends] == ["done", "done"]


def test_a_stray_write_of_the_worker_itself_ends_that_worker_only(
    engine: LocalEngine, tmp_path: Path
) -> None:
    guilty = start(engine, tmp_path, "Stray", {"who": "itself"})
    start(engine, tmp_path, "Stray", *[{"who": "nobody"}] * 20)
    events = collect(engine, lambda told: lost(guilty)(told) and len(of(ItemEnded, told)) == 20, 30)
    [end] = of(WorkerLost, events)
    assert (end.worker, end.cause, end.running) == (guilty, "crash", (1, 0))
    assert end.why == "what its process said was refused: 'stray' is no message"

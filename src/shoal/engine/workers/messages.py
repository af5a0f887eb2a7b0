"""The messages between a driver and its workers: lists of JSON values, one a line where they travel as text.

Built, written, checked and taken apart here only, so that both ends agree. Nothing in them is ever unpickled. What a
worker's process says may come from user code: `decode` lets nothing through that a driver could not record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shoal.model import (
    DEPTH,
    Event,
    FactsChanged,
    Item,
    ItemEnded,
    ItemProgressed,
    ItemsReturned,
    ItemStarted,
    ItemState,
    LogSlice,
    Outcome,
    WorkerReady,
)
from shoal.model.states import FINAL

Message = list[Any]
Entry = Sequence[Any]
"""An item on its way to a worker: seq, attempt, which of the attempts that count this is, id, params, texts,
name of its checkpoint."""

SETTLING = ("ended", "returned")
ENDS = FINAL - {ItemState.CACHED}
"""The states in which a worker can end an item."""
MESSAGE_BYTES = 64 << 20
"""Most that one message may take as text."""
DIGITS = 308
"""Of an integer. One that is longer has no number near it that programs could compute with."""
SHOWN = 100
"""How much of what is no message is shown."""
_BEYOND = 10**DIGITS
_COUNTS = 2**63
_MOMENTS = 1e11


def entry(item: Item) -> Entry:
    return (item.seq, item.attempt, item.used + 1, item.id, item.params, item.texts, item.checkpoint)


def ready(at: float, startup_s: float, facts: Mapping[str, Any]) -> Message:
    return ["ready", at, startup_s, dict(facts)]


def facts(at: float, facts: Mapping[str, Any]) -> Message:
    return ["facts", at, dict(facts)]


def failed_start(why: str) -> Message:
    return ["failed", why]


def leaving(why: str) -> Message:
    return ["leaving", why]


def broken(why: str) -> Message:
    return ["broken", why]


def started(seq: int, attempt: int, at: float, log_start: int) -> Message:
    return ["started", seq, attempt, at, log_start]


def progressed(seq: int, attempt: int, at: float, metrics: Mapping[str, Any], step: int | None) -> Message:
    return ["progressed", seq, attempt, at, dict(metrics), step]


def ended(
    seq: int,
    attempt: int,
    at: float,
    state: str,
    metrics: Mapping[str, Any],
    error: str | None,
    seconds: float,
    log_start: int,
    log_end: int,
    kept: bool,
) -> Message:
    return ["ended", seq, attempt, at, state, metrics, error, seconds, log_start, log_end, kept]


def returned(items: Sequence[tuple[int, int]]) -> Message:
    return ["returned", items]


def names(entries: Sequence[Entry]) -> dict[int, tuple[str, str]]:
    """The ids of items on their way and the names of their checkpoints, by seq."""
    return {entry[0]: (entry[3], entry[6]) for entry in entries}


def kept(told: Sequence[Message]) -> list[int]:
    """The items among these messages that ended and left something in their folder."""
    return [message[1] for message in told if message[0] == "ended" and message[10]]


def settled(told: Sequence[Message]) -> int:
    """How many items these messages say the worker no longer has."""
    return sum(1 if message[0] == "ended" else len(message[1]) for message in told if message[0] in SETTLING)


def encode(message: Message) -> bytes:
    """A message as a line. Raises ValueError, with a sentence for the item, where its metrics cannot be recorded."""
    if message[0] in _METRICS and (why := fault(message[_METRICS[message[0]]])) is not None:
        raise ValueError(why)
    line = json.dumps(message).encode() + b"\n"
    if len(line) > MESSAGE_BYTES:
        raise ValueError(
            f"its metrics take {len(line) >> 20} MiB as JSON; at most {MESSAGE_BYTES >> 20} MiB can be recorded: "
            "write what is large to a file in SHOAL_ITEM_DIR"
        )
    return line


def decode(lines: bytes) -> tuple[list[Message], str | None]:
    """The messages in these lines, and why the first line that is none is none: nothing after it is looked at."""
    try:
        told = json.loads(b"[" + lines.replace(b"\n", b",") + b"]")
    except (ValueError, RecursionError):
        told = _one_by_one(lines)
    for position, message in enumerate(told):
        if not _is_usual(message) and (why := _wrong(message)) is not None:
            return told[:position], why
    return told, None


def _is_usual(message: Any) -> bool:
    """Whether it is one of the two that nearly every item sends, and right: what `_wrong` checks, in one go."""
    if type(message) is not list:
        return False
    if len(message) == 5:
        kind, seq, attempt, at, start = message
        known = kind == "started"
    elif len(message) == 11:
        kind, seq, attempt, at, state, metrics, error, seconds, start, end, kept = message
        known = kind == "ended" and state == "done" and error is None and type(kept) is bool
        known = known and type(seconds) is float and 0 <= seconds < _MOMENTS and type(end) is int
        known = known and 0 <= end < _COUNTS and type(metrics) is dict and fault(metrics) is None
    else:
        return False
    return (
        known
        and type(seq) is type(attempt) is type(start) is int
        and type(at) is float
        and 0 <= seq < _COUNTS
        and 0 <= attempt < _COUNTS
        and 0 <= start < _COUNTS
        and 0 <= at < _MOMENTS
    )


def _one_by_one(lines: bytes) -> list[Any]:
    """Values, one a line; a line that is no JSON as its text."""
    told: list[Any] = []
    for line in lines.split(b"\n"):
        try:
            told.append(json.loads(line))
        except (ValueError, RecursionError):
            told.append(line[:SHOWN].decode("utf-8", "replace"))
    return told


def _wrong(message: Any) -> str | None:
    """Why something is no message; None where it is one."""
    checks = (
        _FIELDS.get(message[0]) if type(message) is list and message and type(message[0]) is str else None
    )
    if checks is None or len(message) != len(checks) + 1:
        return f"{_shown(message)} is no message"
    for position, check in enumerate(checks, 1):
        if not check(message[position]):
            return f"{_shown(message[position])} cannot stand in a message {message[0]!r}"
    if message[0] in _METRICS and (why := fault(message[_METRICS[message[0]]])) is not None:
        return why
    return None


def _shown(value: Any) -> str:
    try:
        return ascii(value)[:SHOWN]
    except RecursionError:
        return f"a {type(value).__name__} that is nested too deep"


def fault(metrics: Mapping[str, Any]) -> str | None:
    """What of these metrics cannot be recorded, as a sentence; None where all of it can."""
    for name, value in metrics.items():
        if not name.isascii() and not _is_valid(name):
            return (
                f"the name of the metric {name!a:.{SHOWN}} is no valid text (half a surrogate pair is in it)"
            )
        if type(value) in _SIMPLE:
            continue
        if (why := _fault(value, DEPTH)) is not None:
            return f"metric {name!a:.{SHOWN}} {why}"
    return None


def _fault(value: Any, room: int) -> str | None:
    if isinstance(value, int) and not -_BEYOND < value < _BEYOND:
        return f"has an integer of more than {DIGITS} digits: give it as text"
    if not isinstance(value, dict | list | tuple):
        return None
    if not room:
        return f"is nested more than {DEPTH} deep: give it as text"
    for part in value.values() if isinstance(value, dict) else value:
        if type(part) not in _SIMPLE and (why := _fault(part, room - 1)) is not None:
            return why
    return None


def _is_valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_step(step: object) -> bool:
    """Whether it is an integer that the record can hold."""
    return isinstance(step, int) and -_COUNTS <= step < _COUNTS


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _COUNTS


def _is_moment(value: Any) -> bool:
    return type(value) in (float, int) and 0 <= value < _MOMENTS


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_pairs(value: Any) -> bool:
    return type(value) is list and all(
        type(pair) is list and len(pair) == 2 and _is_count(pair[0]) and _is_count(pair[1]) for pair in value
    )


_SIMPLE = (float, str, bool, type(None))
_METRICS = {"progressed": 4, "ended": 5, "ready": 3, "facts": 2}
_FIELDS: Mapping[str, Sequence[Callable[[Any], bool]]] = {
    "ready": (_is_moment, _is_moment, lambda facts: type(facts) is dict),
    "facts": (_is_moment, lambda facts: type(facts) is dict),
    "failed": (_is_text,),
    "leaving": (_is_text,),
    "broken": (_is_text,),
    "started": (_is_count, _is_count, _is_moment, _is_count),
    "progressed": (
        _is_count,
        _is_count,
        _is_moment,
        lambda metrics: type(metrics) is dict,
        lambda step: step is None or is_step(step),
    ),
    "ended": (
        _is_count,
        _is_count,
        _is_moment,
        lambda state: type(state) is str and state in ENDS,
        lambda metrics: type(metrics) is dict,
        lambda error: error is None or type(error) is str,
        _is_moment,
        _is_count,
        _is_count,
        lambda kept: type(kept) is bool,
    ),
    "returned": (_is_pairs,),
}


def event(message: Message, worker: int, log_file: str, now: float) -> Event | None:
    """What the driver hears. None for what is no event (`failed`, `leaving`, `broken`), or not one of ours."""
    kind = message[0]
    if kind == "ended":
        _, seq, attempt, at, state, metrics, error, seconds, log_start, log_end, kept = message
        outcome = Outcome(state, metrics, error, seconds, LogSlice(log_file, log_start, log_end), kept)
        return ItemEnded(worker, seq, attempt, at, outcome)
    if kind == "started":
        _, seq, attempt, at, log_start = message
        return ItemStarted(worker, seq, attempt, at, LogSlice(log_file, log_start))
    if kind == "progressed":
        _, seq, attempt, at, metrics, step = message
        return ItemProgressed(worker, seq, attempt, at, metrics, step)
    if kind == "returned":
        return ItemsReturned(worker, tuple((seq, attempt) for seq, attempt in message[1]), now)
    if kind == "ready":
        return WorkerReady(worker, message[1], message[2], message[3])
    if kind == "facts":
        return FactsChanged(worker, message[1], message[2])
    return None

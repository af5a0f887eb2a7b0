"""The messages between a driver, its workers and the actors in between: named tuples, and their form as JSON lines.

A line is a list of JSON values, the first of them the name of the message. Lines are written, checked and taken apart
here only, so that both ends agree. Nothing in them is ever unpickled. What a worker's process says may come from user
code: `decode` lets nothing through that a driver could not record. Ray carries the tuples themselves.

Messages are told apart by their types: two of different types may be equal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from shoal.engine.workers.reporting import (
    COUNTS,
    MOMENTS,
    SHOWN,
    fault,
    is_count,
    is_moment,
    is_pairs,
    is_step,
    is_text,
    shown,
)
from shoal.model import (
    Factory,
    Item,
    ItemState,
)
from shoal.model.item import encoder
from shoal.model.states import FINAL

ENDS = FINAL - {ItemState.CACHED}
"""The states in which a worker can end an item."""
MESSAGE_BYTES = 64 << 20
"""Most that one message may take as text."""
_text = encoder()


# What a worker's process says.


class Ready(NamedTuple):
    at: float
    startup_s: float
    facts: Mapping[str, Any]


class Facts(NamedTuple):
    """What it says of itself has changed."""

    at: float
    facts: Mapping[str, Any]


class FailedStart(NamedTuple):
    """Its factory failed."""

    why: str


class Leaving(NamedTuple):
    """It goes, as there is no room for it."""

    why: str


class Broken(NamedTuple):
    """It is of no use any more."""

    why: str


class Started(NamedTuple):
    seq: int
    attempt: int
    at: float
    log_start: int


class Progressed(NamedTuple):
    seq: int
    attempt: int
    at: float
    metrics: Mapping[str, Any]
    step: int | None


class Ended(NamedTuple):
    seq: int
    attempt: int
    at: float
    state: str
    metrics: Mapping[str, Any]
    error: str | None
    seconds: float
    log_start: int
    log_end: int
    kept: bool
    """Whether it left something in its folder."""


class Returned(NamedTuple):
    """Items that had not started, as seq and attempt."""

    items: Sequence[Sequence[int]]


Farewell = FailedStart | Leaving | Broken
Said = Ready | Facts | Farewell | Started | Progressed | Ended | Returned


# What it is told.


class Setup(NamedTuple):
    """The first line: what a process has to know to become a worker."""

    worker: int
    factory: Factory
    log: str
    """The path of its log; on the way to another node, below the run's folder there."""
    cpu: float
    memory_bytes: int
    root: str = ""
    """The run's folder."""
    clock_offset: float = 0.0
    """The engine's clock less monotonic time."""
    devices: Sequence[str] = ()
    address: str = ""
    """Of its node, as others reach it."""
    blob: str | None = None
    """The content of the factory's blob, as base64, where its file is on another machine."""


class Entry(NamedTuple):
    """An item on its way to a worker."""

    seq: int
    attempt: int
    counted: int
    """Which of the attempts that count this is."""
    id: str
    params: Mapping[str, Any]
    texts: Mapping[str, str] | None
    checkpoint: str
    """The name of its checkpoint."""


class Chunk(NamedTuple):
    entries: Sequence[Entry]


class Recall(NamedTuple):
    """Give back what has not started."""


class Cancel(NamedTuple):
    seq: int
    attempt: int
    state: str
    why: str


class End(NamedTuple):
    """Finish what there is, and go."""


Order = Setup | Chunk | Recall | Cancel | End


# What an actor and a driver say to each other beside that.


class Label(NamedTuple):
    """What a parcel is."""

    kind: str
    """`files`: what an item left in its folder; `checkpoint`: its checkpoint."""
    name: str
    """Of the folder that it becomes; a safe file name."""
    seq: int = 0
    """Of the item."""


class Parcel(NamedTuple):
    """A block of a folder, for the one side or the other; see `parcels`."""

    label: Label
    number: int
    block: list[Any]
    """Of `parcels.Piece`s."""


class Now(NamedTuple):
    """The time at the actor."""

    at: float


class Log(NamedTuple):
    """A part of the worker's log."""

    start: int
    data: bytes


class Stored(NamedTuple):
    """The storage has this checkpoint."""

    checkpoint: str


class Exit(NamedTuple):
    """The process is gone."""

    status: int | None
    why: str | None


class Kill(NamedTuple):
    """End the process."""


class Note(NamedTuple):
    """A line for the worker's log."""

    line: str


Freight = Log | Stored | Parcel
"""What has to be written down before anything after it counts."""
FREIGHT = (Log, Stored, Parcel)
Passed = Said | Freight | Now | Exit
"""From an actor."""
Given = Order | Parcel | Kill | Note
"""To an actor."""


def entry(item: Item) -> Entry:
    seq, identity, params, texts, _, _, attempt, used = item
    return tuple.__new__(Entry, (seq, attempt, used + 1, identity, params, texts, item.checkpoint))


def settled(told: Sequence[Said]) -> int:
    """How many items these messages say the worker no longer has."""
    return sum(
        1 if type(message) is Ended else len(message.items) if type(message) is Returned else 0
        for message in told
    )


# Lines.


def encode(message: Said | Order) -> bytes:
    """A message as a line. Raises ValueError, with a sentence for the item, where its metrics cannot be recorded."""
    kind = type(message)
    if kind in _OPEN and (why := fault(getattr(message, _OPEN[kind]))) is not None:
        raise ValueError(why)
    line = (_text((_NAMES[kind], *message)) + "\n").encode()
    if len(line) > MESSAGE_BYTES and kind not in _ORDERS:
        raise ValueError(
            f"its metrics take {len(line) >> 20} MiB as JSON; at most {MESSAGE_BYTES >> 20} MiB can be recorded: "
            "write what is large to a file in SHOAL_ITEM_DIR"
        )
    return line


def decode_order(line: bytes) -> Order:
    """What a driver told its worker, which trusts it."""
    name, *fields = json.loads(line)
    if name == "chunk":
        return Chunk([tuple.__new__(Entry, each) for each in fields[0]])
    order: Order = _ORDER_TYPES[name]._make(fields)
    if isinstance(order, Setup):
        return order._replace(factory=Factory._make(order.factory))
    return order


def decode(lines: bytes) -> tuple[list[Said], str | None]:
    """The messages in these lines, and why the first line that is none is none: nothing after it is looked at."""
    try:
        values = json.loads(b"[" + lines.replace(b"\n", b",") + b"]")
    except (ValueError, RecursionError):
        values = _one_by_one(lines)
    told: list[Said] = []
    for value in values:
        message = _usual(value)
        if message is None:
            if (why := _wrong(value)) is not None:
                return told, why
            message = _SAID[value[0]].type._make(value[1:])
        told.append(message)
    return told, None


def _usual(value: Any) -> Said | None:
    """One of the two messages that nearly every item sends, if it is right: what `_wrong` checks, in one go."""
    if type(value) is not list:
        return None
    if len(value) == 5:
        name, seq, attempt, at, start = value
        known = name == "started"
        message: Said = tuple.__new__(Started, (seq, attempt, at, start))
    elif len(value) == 11:
        name, seq, attempt, at, state, metrics, error, seconds, start, end, kept = value
        known = name == "ended" and state == "done" and error is None and type(kept) is bool
        known = known and type(seconds) is float and 0 <= seconds < MOMENTS and type(end) is int
        known = known and 0 <= end < COUNTS and type(metrics) is dict and fault(metrics) is None
        message = tuple.__new__(Ended, value[1:])
    else:
        return None
    is_right = (
        known
        and type(seq) is type(attempt) is type(start) is int
        and type(at) is float
        and 0 <= seq < COUNTS
        and 0 <= attempt < COUNTS
        and 0 <= start < COUNTS
        and 0 <= at < MOMENTS
    )
    return message if is_right else None


def _one_by_one(lines: bytes) -> list[Any]:
    """Values, one a line; a line that is no JSON as its text."""
    told: list[Any] = []
    for line in lines.split(b"\n"):
        try:
            told.append(json.loads(line))
        except (ValueError, RecursionError):
            told.append(line[:SHOWN].decode("utf-8", "replace"))
    return told


def _wrong(value: Any) -> str | None:
    """Why something is no message; None where it is one."""
    form = _SAID.get(value[0]) if type(value) is list and value and type(value[0]) is str else None
    if form is None or len(value) != len(form.checks) + 1:
        return f"{shown(value)} is no message"
    for field, check in zip(value[1:], form.checks, strict=True):
        if not check(field):
            return f"{shown(field)} cannot stand in a message {value[0]!r}"
    if form.type in _OPEN:
        return fault(getattr(form.type._make(value[1:]), _OPEN[form.type]))
    return None


class _Form(NamedTuple):
    """A message as a line: its type, and what each of its fields has to be."""

    type: Any
    checks: Sequence[Callable[[Any], bool]]


def _is_metrics(value: Any) -> bool:
    return type(value) is dict


_OPEN: Mapping[type, str] = {Ended: "metrics", Progressed: "metrics", Ready: "facts", Facts: "facts"}
"""The field of a message in which anything may stand that can be recorded."""
_ITEM = (is_count, is_count, is_moment)
_SAID = {
    "ready": _Form(Ready, (is_moment, is_moment, _is_metrics)),
    "facts": _Form(Facts, (is_moment, _is_metrics)),
    "failed": _Form(FailedStart, (is_text,)),
    "leaving": _Form(Leaving, (is_text,)),
    "broken": _Form(Broken, (is_text,)),
    "started": _Form(Started, (*_ITEM, is_count)),
    "progressed": _Form(Progressed, (*_ITEM, _is_metrics, lambda step: step is None or is_step(step))),
    "ended": _Form(
        Ended,
        (
            *_ITEM,
            lambda state: is_text(state) and state in ENDS,
            _is_metrics,
            lambda error: error is None or is_text(error),
            is_moment,
            is_count,
            is_count,
            lambda kept: type(kept) is bool,
        ),
    ),
    "returned": _Form(Returned, (is_pairs,)),
}
_ORDER_TYPES: Mapping[str, Any] = {
    "setup": Setup,
    "chunk": Chunk,
    "recall": Recall,
    "cancel": Cancel,
    "end": End,
}
_ORDERS = frozenset(_ORDER_TYPES.values())
_NAMES = {form.type: name for name, form in _SAID.items()} | {
    order: name for name, order in _ORDER_TYPES.items()
}

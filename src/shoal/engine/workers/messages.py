"""The messages between a driver and its workers: lists of JSON values, one a line where they travel as text.

Built and taken apart here only, so that both ends agree. Nothing in them is ever unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.model import (
    Event,
    Item,
    ItemEnded,
    ItemProgressed,
    ItemsReturned,
    ItemStarted,
    LogSlice,
    Outcome,
    WorkerReady,
)

Message = list[Any]
Entry = Sequence[Any]
"""An item on its way to a worker: seq, attempt, which of the attempts that count this is, id, params, texts,
name of its checkpoint."""

SETTLING = ("ended", "returned")


def entry(item: Item) -> Entry:
    return (item.seq, item.attempt, item.used + 1, item.id, item.params, item.texts, item.checkpoint)


def ready(at: float, startup_s: float) -> Message:
    return ["ready", at, startup_s]


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
        return WorkerReady(worker, message[1], message[2])
    return None

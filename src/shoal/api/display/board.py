"""What there is to see of a run at a moment. Fed like a watcher, read by whoever draws; draws nothing."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shoal import words
from shoal.shape.base import Ended, Progress, Running
from shoal.store import RunInfo, RunStore
from shoal.units import format_seconds
from shoal.work.kind import Kind, kind_of

FINAL = ("done", "failed", "cached", "pruned")
SETTLING_S = 5.0
"""How fast the estimate follows: a change of mind shows over about this time."""
FAILURES_SHOWN = 3
LATELY_S = 15.0


class Best(NamedTuple):
    value: float
    item: str
    params: Mapping[str, Any]


class Estimate:
    """When the run will end, smoothed, so that the number on the screen does not jump about."""

    def __init__(self) -> None:
        self._end: float | None = None
        self._at = 0.0

    def tell(self, now: float, remaining_s: float | None) -> None:
        if remaining_s is None:
            return
        end = now + remaining_s
        weight = 1.0 if self._end is None else 1.0 - math.exp(-max(0.0, now - self._at) / SETTLING_S)
        self._end = end if self._end is None else self._end + weight * (end - self._end)
        self._at = now

    def left_s(self, now: float) -> float | None:
        return None if self._end is None else max(0.0, self._end - now)


class Units:
    """What people count of a kind whose items are not that: an inference is done with inputs."""

    def __init__(self, kind: Kind, before: int = 0) -> None:
        """`before` are those that earlier sessions were done with."""
        self._kind = kind
        self.done = before
        self.left: int | None = None
        """None while they are still being listed."""
        self._marks: deque[tuple[float, int]] = deque()

    @classmethod
    def of(cls, kind: Kind, store: RunStore, info: RunInfo) -> Units | None:
        """None where each item is one."""
        if not kind.counted_by:
            return None
        return cls(kind, int(store.sum_of(*kind.counted_by)) if info.turn > 1 else 0)

    def add(self, metrics: Mapping[str, Any]) -> None:
        self.done += sum(int(metrics.get(name, 0)) for name in self._kind.counted_by)

    @property
    def told(self) -> str:
        """`7/10 inputs`."""
        total = "" if self.total is None else f"/{self.total:,}"
        return f"{self.done:,}{total} {self._kind.unit}s"

    @property
    def total(self) -> int | None:
        return None if self.left is None else self.done + self.left

    def rate(self, now: float) -> float:
        """A second, lately. Items are long, so that this looks back further than one of them."""
        self._marks.append((now, self.done))
        while len(self._marks) > 2 and self._marks[1][0] < now - LATELY_S:
            self._marks.popleft()
        since, before = self._marks[0]
        return (self.done - before) / (now - since) if now > since else 0.0


class Board:
    """The state of the display: all that is drawn comes from here."""

    def __init__(
        self,
        run: str,
        total: int | None,
        *,
        before: Mapping[str, int] | None = None,
        objective: tuple[str, str] | None = None,
        best: Best | None = None,
        units: Units | None = None,
    ) -> None:
        self.run = run
        self.total = total
        self.objective = objective
        self.best = best
        self.progress: Progress | None = None
        self.note: str | None = None
        """Something that has to be said until the end, such as that the run is being stopped."""
        self.failures: deque[Ended] = deque(maxlen=FAILURES_SHOWN)
        self._before = dict(before or {})
        self._units = units
        self._rate = 0.0
        self._estimate = Estimate()

    @classmethod
    def of(cls, info: RunInfo, total: int | None, store: RunStore) -> Board:
        """A board for a session that begins now with this run. What earlier sessions did counts as well."""
        has_past = info.turn > 1 or not info.state.is_active
        before = {state: info.items.get(state, 0) for state in FINAL} if has_past else {}
        best = None
        if info.best is not None and info.objective is not None:
            metric = info.objective[0]
            value = info.best.get(f"metric.{metric}", info.best.get(metric))
            if isinstance(value, int | float):
                best = Best(value, str(info.best["item"]), {})
        units = Units.of(kind_of(info.kind), store, info)
        return cls(info.run, total, before=before, objective=info.objective, best=best, units=units)

    def durable(self, ended: Sequence[Ended]) -> None:
        for entry in ended:
            if entry.outcome.state == "failed":
                self.failures.append(entry)
            elif self._units is not None:
                self._units.add(entry.outcome.metrics)
            elif self.objective is not None and entry.outcome.state == "done":
                self._consider(entry, *self.objective)

    def _consider(self, entry: Ended, metric: str, goal: str) -> None:
        value = entry.outcome.metrics.get(metric)
        if not isinstance(value, int | float) or value != value:
            return
        if self.best is None or (value > self.best.value if goal == "max" else value < self.best.value):
            self.best = Best(value, entry.item.id, entry.item.params)

    def moment(self, progress: Progress) -> None:
        self.progress = progress
        self._estimate.tell(progress.now, progress.remaining_s)
        self._rate = progress.rate
        if self._units is not None:
            self._units.left = progress.left
            self._rate = self._units.rate(progress.now)

    # What is drawn.

    @property
    def counts(self) -> dict[str, int]:
        """Items of the whole run that have ended, by state."""
        now = self.progress.counts if self.progress is not None else {}
        return {state: self._before.get(state, 0) + now.get(state, 0) for state in FINAL}

    @property
    def ended(self) -> int:
        return sum(self.counts.values())

    @property
    def of_total(self) -> str:
        """`412/1000`, or `412` where nobody knows how many there will be; in what people count."""
        if self._units is not None:
            return self._units.told
        return str(self.ended) if self.total is None else f"{self.ended}/{max(self.total, self.ended)}"

    @property
    def share(self) -> float | None:
        """From 0 to 1; None where the total is unknown."""
        if self._units is not None:
            return self._units.done / self._units.total if self._units.total else None
        return None if not self.total else min(1.0, self.ended / self.total)

    @property
    def running(self) -> Sequence[Running]:
        """Longest first."""
        found = self.progress.running if self.progress is not None else ()
        return sorted(found, key=lambda entry: entry.since)

    @property
    def left_s(self) -> float | None:
        """Seconds to go, as they are to be shown; None while nothing is known, or nothing is left."""
        if self.progress is None or (self.share or 0.0) >= 1.0:
            return None
        return self._estimate.left_s(self.progress.now)

    def pace(self) -> str:
        """`25.3/s, about 23s left`, as far as it is known."""
        parts = []
        if self._rate > 0:
            parts.append(words.rate(self._rate))
        if self.left_s is not None:
            parts.append(f"about {format_seconds(self.left_s)} left")
        return ", ".join(parts)

    def others(self) -> str:
        """`2 failed, 3 pruned`: what did not simply get done."""
        return words.counts({state: count for state, count in self.counts.items() if state != "done"})

    def how_far(self) -> str:
        """`412/1000 ended, 2 failed, 2 running, 25.3/s, about 23s left; best ...`: all of it in one line."""
        running = f"{len(self.running)} running" if self.running else ""
        done = "done" if self._units is not None else "ended"
        parts = (f"{self.of_total} {done}", self.others(), running, self.pace())
        line, best = ", ".join(part for part in parts if part), self.best_in_words()
        return f"{line}; best {best}" if best else line

    def best_in_words(self) -> str | None:
        """`accuracy 0.93 by t0203 (lr=0.1 model=2)`."""
        if self.best is None or self.objective is None:
            return None
        params = words.parameters(self.best.params)
        value = words.number(self.best.value)
        return f"{self.objective[0]} {value} by {self.best.item}" + (f" ({params})" if params else "")

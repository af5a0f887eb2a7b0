"""What there is to see of a run at a moment. Fed like a watcher, read by whoever draws; draws nothing."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shoal.api.display import words
from shoal.shape.base import Ended, Progress, Running
from shoal.store import RunInfo
from shoal.units import format_seconds

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


class Inputs:
    """Inputs that an inference is done with: what people count, rather than the items they are in."""

    def __init__(self, before: int = 0) -> None:
        """`before` are those that earlier sessions were done with."""
        self.done = before
        self.left: int | None = None
        """None while they are still being listed."""
        self._marks: deque[tuple[float, int]] = deque()

    def add(self, metrics: Mapping[str, Any]) -> None:
        self.done += int(metrics.get("rows", 0)) + int(metrics.get("errors", 0))

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
        inputs: Inputs | None = None,
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
        self._inputs = inputs
        self._rate = 0.0
        self._estimate = Estimate()

    @classmethod
    def of(cls, info: RunInfo, total: int | None, inputs_before: int = 0) -> Board:
        """A board for a session that begins now with this run. What earlier sessions did counts as well."""
        has_past = info.turn > 1 or not info.state.is_active
        before = {state: info.items.get(state, 0) for state in FINAL} if has_past else {}
        best = None
        if info.best is not None and info.objective is not None:
            metric = info.objective[0]
            value = info.best.get(f"metric.{metric}", info.best.get(metric))
            if isinstance(value, int | float):
                best = Best(value, str(info.best["item"]), {})
        inputs = Inputs(inputs_before) if info.kind == "infer" else None
        return cls(info.run, total, before=before, objective=info.objective, best=best, inputs=inputs)

    def durable(self, ended: Sequence[Ended]) -> None:
        for entry in ended:
            if entry.outcome.state == "failed":
                self.failures.append(entry)
            elif self._inputs is not None:
                self._inputs.add(entry.outcome.metrics)
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
        if self._inputs is not None:
            self._inputs.left = progress.left
            self._rate = self._inputs.rate(progress.now)

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
        """`412/1000`, or `412` where nobody knows how many there will be; the inputs of an inference."""
        if self._inputs is not None:
            total = "" if self._inputs.total is None else f"/{self._inputs.total:,}"
            return f"{self._inputs.done:,}{total} inputs"
        return str(self.ended) if self.total is None else f"{self.ended}/{max(self.total, self.ended)}"

    @property
    def share(self) -> float | None:
        """From 0 to 1; None where the total is unknown."""
        if self._inputs is not None:
            return self._inputs.done / self._inputs.total if self._inputs.total else None
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
        done = "done" if self._inputs is not None else "ended"
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

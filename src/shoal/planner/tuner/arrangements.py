"""How many workers of a node, with how many threads each: what may be tried, what is being tried, and what came of it.

An arrangement is measured only when all of its workers, and no others, are at work on the node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from shoal.model.advice import Setting, Space

AT_A_GPU, UNKNOWN_AT_A_GPU = 64, 2
"""Workers that share a GPU at first, at most; and where it is not known how much memory it has."""
GPU_BYTES = 2 << 30
"""What each of them should have of it."""
NEAR = 0.95
"""What comes this close to the best does not yet mean that the next one in this direction is worse."""


class Arrangement(NamedTuple):
    workers: int
    threads: int

    def __str__(self) -> str:
        return f"{self.workers} x {self.threads} thread{'' if self.threads == 1 else 's'}"


def ladder(space: Space) -> list[Arrangement]:
    """What may be tried, from few workers to many. One only, where both are given."""
    machine = space.machine
    cores = max(1, machine.cpu)
    if space.workers is not None:
        return [Arrangement(space.workers, space.threads or max(1, cores // space.workers))]
    most = min(machine.most_workers, max(1, cores // space.threads) if space.threads else cores)
    if machine.gpu:
        counts = {min(most, machine.gpu * 2**power) for power in range(most.bit_length())} | {most}
    elif space.threads:
        counts = {most}
    else:
        halves = {cores // 2**power for power in range(cores.bit_length())}
        counts = {count for count in halves if count < most} | {most}
    return [Arrangement(count, space.threads or max(1, cores // count)) for count in sorted(counts)]


def first(space: Space) -> Arrangement:
    """Where to begin: a worker for each core, or each place; at a GPU, a few for each GPU."""
    rungs = ladder(space)
    if not space.machine.gpu:
        return rungs[-1]
    memory = space.machine.gpu_memory_bytes
    each = min(AT_A_GPU, max(1, memory // GPU_BYTES)) if memory else UNKNOWN_AT_A_GPU
    wanted = each * space.machine.gpu
    return max((rung for rung in rungs if rung.workers <= wanted), default=rungs[0])


def permitted(space: Space, arrangement: Arrangement) -> bool:
    """Whether nothing that is given says otherwise."""
    if space.workers not in (None, arrangement.workers) or space.threads not in (None, arrangement.threads):
        return False
    if space.workers is not None:
        return True
    within = arrangement.workers * arrangement.threads <= max(1, space.machine.cpu)
    return arrangement.workers <= space.machine.most_workers and (within or space.threads is not None)


class Trial:
    """One arrangement that is being tried.

    Where it has fewer workers than before, they first get used to their new threads while the others go on, because
    that may mean loading the model anew; then the others get nothing until it is measured.
    """

    def __init__(self, arrangement: Arrangement, setting: Setting, instead: Setting, *, warm: bool) -> None:
        self.arrangement = arrangement
        self.setting = setting
        self.instead = instead
        """What it is compared with, of the arrangement in use."""
        self.running = not warm
        self.warmed_before = warm
        self.told: set[int] = set()
        self.asked = 0

    def takes(self, worker: int, alive: Iterable[int]) -> bool:
        """Whether this worker's next item belongs to the trial: of those alive, the first ones will go on."""
        if self.running:
            return True
        return worker not in self.told and worker in sorted(alive)[: self.arrangement.workers]

    def ready(self) -> bool:
        """Whether all of its workers have done an item in the new way."""
        return self.warmed_before or len(self.told) >= self.arrangement.workers

    def tell(self, worker: int) -> bool:
        """Whether this one was the last to get warm, so that the others now stop."""
        self.told.add(worker)
        if self.running or len(self.told) < self.arrangement.workers:
            return False
        self.running = True
        return True

    def lost(self, worker: int) -> None:
        self.told.discard(worker)

    def is_hopeless(self, alive: int) -> bool:
        """So many items for each worker, and still no measurement: its own ones do not come together."""
        return self.asked > 6 * max(alive, self.arrangement.workers) + 8


class Arranger:
    """The arrangement in use, and what is known of the others."""

    def __init__(self, space: Space) -> None:
        self._rungs = ladder(space)
        self._gpu = space.machine.gpu > 0
        self._pinned = space.workers is not None
        self.current = first(space)
        self.trial: Trial | None = None
        self.rates: dict[Arrangement, float | None] = {}
        """Inputs a second of the node, by arrangement; None where it could not be measured."""
        self.reasons: dict[Arrangement, str] = {}
        """Why one was not tried."""
        self.round = 0
        """Counts the changes of who is at work; what was handed out before the last one disturbs measurements."""

    @property
    def in_effect(self) -> Arrangement:
        if self.trial is not None and self.trial.running:
            return self.trial.arrangement
        return self.current

    def candidates(self, node_rate: float, enough: int, alive: int) -> list[Arrangement]:
        """What to try next, the most promising first. `enough` workers do as much, by the law of scalability.

        Those with more workers than are `alive` are named, too, and those behind them.
        """
        if self._pinned:
            return []
        found: list[Arrangement] = []
        if enough < self.current.workers and not self._gpu:
            found.append(Arrangement(enough, self.current.threads))
        above = [rung for rung in self._rungs if rung.workers > self.current.workers]
        below = [rung for rung in reversed(self._rungs) if rung.workers < self.current.workers]
        for direction in (above, below) if self._gpu else (below, above):
            for rung in direction:
                rate = self.rates.get(rung, node_rate)
                if rung not in self.rates:
                    found.append(rung)
                    if rung.workers > alive:
                        continue
                    break
                if rate is None or rate < NEAR * node_rate:
                    break
        return [rung for rung in found if rung not in self.rates]

    def has_untried(self, above: int, most: int) -> bool:
        """Whether one with more workers than are in use, and than `above`, but not more than `most`, was not tried."""
        above = max(above, self.current.workers)
        rungs = () if self._pinned else self._rungs
        return any(above < rung.workers <= most and rung not in self.rates for rung in rungs)

    def begin(self, arrangement: Arrangement, setting: Setting, *, instead: Setting) -> None:
        fewer = arrangement.workers < self.current.workers and arrangement.threads != self.current.threads
        self.trial = Trial(arrangement, setting, instead, warm=fewer)
        self.reasons.pop(arrangement, None)
        if self.trial.running:
            self.round += 1

    def conclude(self, rate: float | None, *, adopt: bool) -> None:
        """End the trial: with what the node did, and whether it stays so."""
        assert self.trial is not None
        self.rates[self.trial.arrangement] = rate
        if adopt:
            self.current = self.trial.arrangement
        elif self.trial.running:
            self.round += 1
        self.trial = None

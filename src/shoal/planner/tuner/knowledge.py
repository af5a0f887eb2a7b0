"""What a tuner has found out of one kind of node, and what is best by it: runtimes, batches, arrangements, memory.

It decides nothing about what to try next; that is `tuner`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from shoal.model.advice import LEAST_AT_A_GPU, Heard, Measured, Setting, Space
from shoal.planner import scalability
from shoal.planner.tuner import batches
from shoal.planner.tuner.arrangements import Arrangement, Arranger, permitted
from shoal.planner.tuner.batches import CLIMB, Memory
from shoal.planner.tuner.curve import Curve, Estimate
from shoal.units import format_number

SLOWER = 0.7
"""A runtime below this share of the best one gets no more inputs."""
LONGEST_S, FEW = 2.0, 4
"""A batch should take no longer than this, unless it has only a few inputs: measuring it would take too long."""
PARABOLA = 2.0
"""Weight of the neighbouring batches against the measurements of a batch itself."""
LEAN, LEAN_S = 0.02, 0.4
"""On a GPU, the bonus of a score for each doubling of the batch, up to batches of `LEAN_S` seconds: larger ones keep
the GPU busy for less time. Beyond that length it is subtracted, as long batches make the run end unevenly."""
GRAIN = 32
"""On a GPU, larger batches are multiples of this: its units compute that many at once, and idle for the remainder."""
WORTH_LOADING, WORTH_LOADING_AT_ONCE = 0.02, 0.1
"""Gain for which another runtime is loaded: once it is well measured, and after a first measurement."""
SURE = 2.0
"""Measurements after which a point is given up only for one that is better beyond doubt."""


class Knowledge:
    """All measurements of one kind of node, and the choices they lead to. Mutable, deterministic."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.curve = Curve(space.machine)
        self.memory = Memory(space.machine)
        self.arranger = Arranger(space)
        self.load_s: dict[str, float] = {}
        self.differences: dict[str, float] = {}
        self.unusable: dict[str, str] = {}
        self.slower: dict[str, str] = {}
        """Runtimes that are clearly slower, and the figures."""
        self.not_tried: dict[str, str] = {}
        """Runtimes that were not worth a trial, and why."""
        self.ratios: dict[str, float] = {}
        """How many times as fast as the first runtime each was, all in all."""
        self.fixed_rows = 1
        """The fixed batch of a model that pads smaller ones: batches are multiples of it. 1 where any batch does."""
        self.known_rate: float | None = None
        """What a worker did at the chosen point in an earlier run."""
        self.settled = False
        self.present = 0
        """The most workers that were ever alive on a node; 0 while that was not told."""
        self.settled_with = 0
        """The most workers that were alive when a choice was final, in this run or an earlier one."""
        self.chosen = self.setting(space.runtimes[0], min(CLIMB, space.largest_batch) if self.on_gpu else 1)

    # What is best.

    @property
    def on_gpu(self) -> bool:
        return self.space.machine.gpu > 0

    def usable(self) -> list[str]:
        """The runtimes that are still in the race."""
        found = [
            name for name in self.space.runtimes if name not in self.unusable and name not in self.slower
        ]
        return found or [self.space.runtimes[0]]

    def estimate(self, setting: Setting) -> Estimate | None:
        """Of a setting, with the workers as they are arranged."""
        found = self.curve.estimate(setting, self.at_work())
        if found is None or not self.on_gpu:
            return found
        long = math.log2(max(1.0, LEAN_S * found.rate))
        doublings = long - abs(math.log2(setting.batch) - long)
        return found._replace(score=found.score * (1 + LEAN * doublings))

    def at_work(self) -> int:
        """How many workers a node has at the chosen point: perhaps there are fewer than it is meant for."""
        wanted = self.arranger.current.workers
        return min(wanted, self.present) if self.present else wanted

    def came(self, alive: int) -> None:
        """So many are alive on a node: what could not be tried for want of workers perhaps can be now."""
        self.present = max(alive, self.present)
        if self.settled and self.arranger.has_untried(self.settled_with, alive):
            self.settled = False

    def settle(self) -> None:
        self.settled = True
        self.settled_with = max(self.present, self.settled_with)

    def was_tried(self, runtime: str) -> bool:
        return runtime in self.ratios or any(each.runtime == runtime for each in self.curve.settings())

    def known(self, runtime: str) -> dict[Setting, Estimate]:
        """The points of a runtime that can be compared: memory allows them, nothing that is given forbids them."""
        largest = self.space.batch or self.largest(runtime)
        settings = [
            each
            for each in self.curve.settings()
            if each.runtime == runtime and each.batch <= largest and self._comparable(each)
        ]
        return {each: found for each in settings if (found := self.estimate(each)) is not None}

    def smoothed(self, runtime: str) -> dict[Setting, Estimate]:
        """The same, with scores that take their neighbours into account."""
        known = self.known(runtime)
        scores = {each.batch: (found.score, found.sure) for each, found in known.items()}
        moved = batches.smooth(scores, PARABOLA)
        return {each: found._replace(score=moved[each.batch]) for each, found in known.items()}

    def best_of(self, runtime: str) -> tuple[Setting, Estimate] | None:
        pairs = self.smoothed(runtime).items()
        return max(pairs, key=lambda pair: (self.cautious(pair[1]), -pair[0].batch), default=None)

    def unmeasured(self, runtime: str) -> list[int]:
        """The batches worth looking at next."""
        if self.space.batch is not None:
            return []
        known = self.known(runtime)
        scores = {setting.batch: estimate.score for setting, estimate in known.items()}
        rate = max((estimate.rate for estimate in known.values()), default=0.0)
        following = batches.next_to(scores, self.largest(runtime)) if scores else []
        whole = dict.fromkeys(self._whole(runtime, self._grained(batch)) for batch in following)
        return [batch for batch in whole if batch not in scores and batch <= max(FEW, rate * LONGEST_S)]

    def rises(self, rows: float = math.inf) -> bool:
        """Whether a larger batch may still be much better, and items of this many inputs could show it."""
        following = self.unmeasured(self.chosen.runtime)
        return any(self.chosen.batch < batch <= rows / 3 for batch in following)

    def cautious(self, estimate: Estimate) -> float:
        """The score, less where it rests on little."""
        return estimate.score * (1 - 0.5 * self.curve.noise() / math.sqrt(max(0.25, estimate.sure)))

    def rate_of_worker(self) -> float | None:
        """Inputs a second of one worker at the chosen point; at first, what an earlier run says."""
        estimate = self.estimate(self.chosen)
        return estimate.rate if estimate is not None else self.known_rate

    def rate(self) -> float | None:
        """The same of the node."""
        rate = self.rate_of_worker()
        return None if rate is None else rate * self.at_work()

    def choose(self) -> bool:
        """Take the best point; whether it is another one. One that is known well yields only to a better one."""
        pairs = {name: found for name in self.usable() if (found := self.best_of(name)) is not None}
        if not pairs:
            if self.chosen.runtime not in self.usable():
                # Nothing else was measured: one of the others will do.
                self.chosen = self.setting(self.usable()[0], self.chosen.batch)
            return False
        self._compare(pairs)
        setting, estimate = max(pairs.values(), key=lambda pair: self.cautious(pair[1]))
        lawful = self.chosen.runtime in self.usable() and self._comparable(self.chosen)
        before = self.smoothed(self.chosen.runtime).get(self.chosen) if lawful else None
        if setting == self.chosen:
            return False
        if before is not None:
            bar = before.score * 1.005 if before.sure >= SURE else self.cautious(before)
            if setting.runtime != self.chosen.runtime:  # Every worker would have to load it.
                sure = estimate.sure >= SURE
                bar = max(bar, before.score * (1 + (WORTH_LOADING if sure else WORTH_LOADING_AT_ONCE)))
            if self.cautious(estimate) <= bar:
                return False
        elif lawful and self.known_rate is not None:
            if self._may_come(estimate):
                return False  # It was the best in an earlier run, and was not measured in this one yet.
            self.settled, self.known_rate = False, None
        self.chosen = setting
        return True

    def _may_come(self, other: Estimate) -> bool:
        """Whether the chosen point will be measured: memory allows it, and another does not always come instead."""
        allowed = self.space.batch is not None or self.chosen.batch <= self.largest(self.chosen.runtime)
        return allowed and other.sure < 2 * SURE

    def _compare(self, pairs: Mapping[str, tuple[Setting, Estimate]]) -> None:
        best = max(pairs, key=lambda name: pairs[name][1].score)
        top = pairs[best][1]
        base = self.best_of(self.space.runtimes[0])
        for name, (_, estimate) in pairs.items():
            if base is not None:
                self.ratios[name] = estimate.score / base[1].score
            if (
                estimate.score < SLOWER * top.score
                and estimate.sure >= 0.5
                and not (self.on_gpu and self.rises())
            ):
                self.slower[name] = (
                    f"{format_number(estimate.rate)} inputs/s a worker, {best} does {format_number(top.rate)}"
                )

    def scaling(self) -> dict[int, float]:
        """Inputs a second of a node by the number of workers, threads being alike where that was measured."""
        alike: dict[int, float] = {}
        workers = self.at_work()
        for setting in self.curve.settings():
            if self._comparable(setting):
                found = self.curve.by_workers(setting).items()
                rates = {count: each.rate * count for count, each in found if each.sure >= 0.5}
                if (workers in rates, len(rates)) > (workers in alike, len(alike)):
                    alike = rates
        if not self.on_gpu:  # Workers with other threads say nothing about these.
            return alike
        tried = {each.workers: rate for each, rate in self.arranger.rates.items() if rate}
        now = self.rate()
        return tried | ({workers: now} if now else {})

    def law(self) -> scalability.Usl | None:
        """What workers of one node do together."""
        return scalability.fit(self.scaling().items())

    # What is permitted.

    def _comparable(self, setting: Setting) -> bool:
        if setting.threads != self.arranger.current.threads:
            return False
        if setting.batch != self._whole(setting.runtime, setting.batch):
            return False
        return self.space.batch in (None, setting.batch)

    def largest(self, runtime: str) -> int:
        """The largest batch, for the workers as they are."""
        return self.memory.allowed(runtime, self.workers(), self.space.largest_batch)

    def setting(self, runtime: str, batch: int) -> Setting:
        return Setting(runtime, self.space.batch or batch, self.arranger.current.threads)

    def fitted(self, setting: Setting, workers: int) -> Setting:
        """Within what is given and what memory allows."""
        if self.space.batch is not None:
            return setting._replace(batch=self.space.batch)
        largest = self.memory.allowed(setting.runtime, workers, self.space.largest_batch)
        batch = self._grained(max(1, min(setting.batch, largest)))
        return setting._replace(batch=self._whole(setting.runtime, batch, workers))

    def _grained(self, batch: int) -> int:
        """At a GPU not more than this, and nothing wasted."""
        return batch // GRAIN * GRAIN if self.on_gpu and self.fixed_rows == 1 and batch > GRAIN else batch

    def _whole(self, runtime: str, batch: int, workers: int | None = None) -> int:
        """The batch rounded to a multiple of the model's fixed one, where memory allows it: padding costs as much."""
        whole = -(-batch // self.fixed_rows) * self.fixed_rows
        if whole == batch or whole > self.memory.bound(runtime, self.space.largest_batch):
            return batch
        return whole if self.memory.holds(runtime, whole, workers or self.workers()) else batch

    def workers(self) -> int:
        """How many are at work on a node, if so many are alive; fewer where memory does not suffice."""
        wanted = self.arranger.in_effect.workers
        if self.space.workers is not None:
            # What is only expected to be too much is tried all the same: somebody wishes it.
            return min(wanted, self.memory.most or wanted)
        return self.fitting(wanted)

    def fitting(self, most: int) -> int:
        """How many workers have memory for a batch. At a GPU for one that keeps it busy, where that leaves several."""
        runtime, given = self.chosen.runtime, self.space.batch
        fitting = self.memory.fitting(runtime, given or 1, most)
        if not self.on_gpu or given is not None or not self.memory.is_known:
            return fitting
        least = min(LEAST_AT_A_GPU, self.space.largest_batch)
        return min(fitting, max(2 * self.space.machine.gpu, self.memory.fitting(runtime, least, most)))

    # What was heard.

    def hear(self, heard: Heard, *, workers: int, clean: bool) -> None:
        """Record the measurements of one of `workers` workers. Unless `clean`, its rates do not count."""
        for name, difference in heard.differences.items():
            self.differences[name] = max(difference, self.differences.get(name, 0.0))
        self.unusable.update(heard.unusable)
        if heard.fixed_rows > 1 and self.space.batch is None:
            self.fixed_rows = heard.fixed_rows
            self.chosen = self.chosen._replace(batch=self._whole(self.chosen.runtime, self.chosen.batch))
        for setting in heard.out_of_memory:
            self.memory.ran_out(setting, workers)
        for measured in heard.measured:
            if min(measured.setting.batch, measured.setting.threads, measured.workers) >= 1:
                self.memory.hear(measured)
                if clean:
                    self.curve.add(self._at_the_given_batch(measured))
        self._shrink()
        self._miss()

    def _at_the_given_batch(self, measured: Measured) -> Measured:
        """Where a batch is given and items have fewer inputs, that is as close to it as it gets."""
        setting = measured.setting
        if self.space.batch is None or setting.batch > self.space.batch:
            return measured
        return measured._replace(setting=setting._replace(batch=self.space.batch))

    def crowded(self, workers: int) -> None:
        """Memory does not suffice for this number of workers."""
        self.memory.crowded(workers)
        self._shrink()

    def _shrink(self) -> None:
        """Where memory does not suffice for the workers, there are fewer, which share the cores."""
        current = self.arranger.current
        fitting = self.fitting(current.workers)
        if self.space.workers is None and self.memory.is_known and fitting < current.workers:
            threads = self.space.threads or max(1, self.space.machine.cpu // fitting)
            self.arranger.current = Arrangement(fitting, threads)
            self.arranger.round += 1
            self.chosen = self.chosen._replace(threads=threads)

    def _miss(self) -> None:
        """When workers are gone that were there at the final choice, the others may use their cores: choose again."""
        found = self.curve.exactly(self.chosen, self.at_work())
        missing = 0 < self.present < min(self.settled_with, self.arranger.current.workers)
        if self.settled and missing and found is not None and found.sure >= SURE:
            self.settled, self.settled_with = False, self.present

    def read(self, known: Mapping[str, Any]) -> None:
        """Start where an earlier run ended, as far as what is given permits.

        What a runtime cannot do, and by how much it differs, is found out anew: it may have been updated since.
        """
        self.memory.read(known["memory"])
        self.fixed_rows = int(known.get("fixed_rows", 1)) if self.space.batch is None else 1
        self.curve.read(list(known["points"]))
        self.load_s = {str(name): float(value) for name, value in known["load_s"].items()}
        anew = known["unusable"]
        self.slower = {str(name): str(why) for name, why in known["slower"].items() if name not in anew}
        self.ratios = {str(name): float(ratio) for name, ratio in known["ratios"].items() if name not in anew}
        chosen = known["chosen"]
        setting = Setting(str(chosen["runtime"]), int(chosen["batch"]), int(chosen["threads"]))
        arrangement = Arrangement(int(chosen["workers"]), setting.threads)
        rate = chosen["rate"]
        if setting.runtime not in self.usable() or rate is None:
            return
        if permitted(self.space, arrangement):
            self.arranger.current = arrangement
        self.chosen = self.setting(setting.runtime, max(1, min(setting.batch, self.space.largest_batch)))
        if self.chosen == setting and self.arranger.current == arrangement:
            self.known_rate = float(rate) / max(1, int(chosen["at_work"]))
            self.settled = bool(known["settled"])
            self.settled_with = int(known.get("settled_with", self.space.machine.most_workers))

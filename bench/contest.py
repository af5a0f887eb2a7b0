"""The contest of one model: Shoal against the hand-written loop and other frameworks, and what becomes figures."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import by_shoal
import hand_search
import rivals
from figures import Figure
from ground import Broken, Ground

AT_LEAST = {"b": {"large": 1.5, "small": 4.0}, "c": {"large": 1.15, "small": 2.5}}


class Contest:
    """One model, all contenders, one after the other. What was measured once is not measured again."""

    def __init__(self, ground: Ground, arguments: argparse.Namespace) -> None:
        self.ground = ground
        self.details: dict[str, Any] = {}
        self._arguments = arguments
        self._whole: hand_search.Whole | None = None
        self._auto: by_shoal.Ran | Broken | None = None
        self._repeat = arguments.repeat
        self._pinned: dict[by_shoal.Point, by_shoal.Ran] = {}
        self._group: rivals.Ran | None = None

    def by_hand(self) -> hand_search.Whole:
        """The best hand-written loop, on the whole set."""
        if self._whole is None:
            hand = self._arguments.hand
            rates = hand_search.given(self.ground, hand) if hand else hand_search.search(self.ground)
            if not rates:
                raise Broken("no setting of the hand-written loop works")
            setting, rate = next(iter(rates.items()))
            self.details["by_hand"] = [point._asdict() | {"rate": found} for point, found in rates.items()]
            self._whole = hand_search.whole(self.ground, setting, rate, self._arguments.images)
        return self._whole

    def auto(self) -> by_shoal.Ran:
        """Shoal with `tune: auto` on the same files, checked against the loop; repetitions of both alternate."""
        if self._auto is None:
            whole = self.by_hand()
            try:
                autos, loops = [], [whole]
                for number in range(self._repeat):
                    if number > 0:
                        loops.append(hand_search.once(self.ground, whole.setting, whole.files, whole.images))
                    autos.append(by_shoal.run(self.ground, whole.files, whole.images))
                    self.ground.say(by_shoal.check(autos[-1], whole.output))
                self._whole, ran = _median(loops), _median(autos)
                self._auto = ran
            except Broken as broken:  # The others go without; it is not tried again.
                self._auto = broken
                raise
            chosen = ran.point._asdict() if ran.point else None
            self.details["auto"] = {"seconds": ran.seconds, "chosen": chosen}
        if isinstance(self._auto, Broken):
            raise self._auto
        return self._auto

    def pinned(self, point: by_shoal.Point) -> by_shoal.Ran:
        """Shoal with everything pinned, on the same files."""
        if point not in self._pinned:
            whole = self.by_hand()
            self._pinned[point] = _median(
                [by_shoal.run(self.ground, whole.files, whole.images, point) for _ in range(self._repeat)]
            )
        return self._pinned[point]

    def group(self) -> rivals.Ran:
        if self._group is None:
            self._group = rivals.as_the_group(self.ground)
        return self._group

    def _whole_beside_auto(self) -> hand_search.Whole:
        """The loop, with the repetitions that alternate with Shoal's; the loop alone where Shoal's run broke."""
        with suppress(Broken):
            self.auto()
        return self.by_hand()

    # The figures.

    def against_hand(self) -> Iterator[Figure]:
        whole = self._whole_beside_auto()
        told = f"{whole.rate:.1f}/s ({whole.setting.words()}; {whole.images} images in {whole.seconds:.1f} s)"
        yield self.figure("a", "the best hand-written loop, images a second", whole.rate, how=told)
        auto = self.auto()
        how = f"{auto.words()} against {told}"
        what = "Shoal, whole run with tuning, against the best hand-written loop"
        yield self.figure("a", what, auto.rate / whole.rate, at_least=0.92, how=how)
        what = "Shoal after tuning, against the best hand-written loop"
        yield self.figure("a", what, auto.settled_rate / whole.rate, at_least=0.97, how=how)

    def against_group(self) -> Iterator[Figure]:
        if self._lacks("b", "Ray Data"):
            return
        yield from self._against("b", "Ray Data as the group ran it", self.group())

    def against_ray_data(self) -> Iterator[Figure]:
        if self._lacks("c", "Ray Data"):
            return
        best, tried = rivals.best_ray_data(self.ground, self.group())
        self.details["ray_data"] = [rivals.document(ran) for ran in tried]
        yield from self._against("c", "the best setting of Ray Data", best)

    def regret(self) -> Iterator[Figure]:
        auto = self.auto()
        if auto.point is None:
            raise Broken("the run does not say what it chose")
        pinned = self.pinned(auto.point)
        lost = auto.seconds - pinned.seconds
        yield self.figure(
            "d",
            "seconds lost by tuning, against a run pinned to what it chose, share of the run",
            100 * lost / auto.seconds,
            unit=" %",
            at_most=5.0,
            how=f"{auto.seconds:.1f} s against {pinned.seconds:.1f} s ({auto.point.words()})",
        )

    def against_others(self) -> Iterator[Figure]:
        best, tried = rivals.best_other(self.ground)
        self.details["others"] = [rivals.document(ran) for ran in tried]
        if best is not None:
            yield from self._against("e", f"{best.what}, the faster of Daft and PySpark", best)

    def against_grid(self) -> Iterator[Figure]:
        auto = self.auto()
        if auto.point is None:
            raise Broken("the run does not say what it chose")
        best, tried = by_shoal.best_of_grid(self.ground, self.by_hand().rate)
        self.details["grid"] = [point._asdict() | {"rate": rate} for point, rate in tried]
        chosen, other = self.pinned(auto.point), self.pinned(best)
        how = f"{auto.point.words()}: {chosen.words()}; {best.words()}: {other.words()}"
        what = f"the point that was chosen, against the best of {len(tried)} points"
        yield self.figure("f", what, other.seconds / chosen.seconds, at_least=0.95, how=how)
        lost = 100 * (auto.seconds - other.seconds) / auto.seconds
        what = "seconds lost by tuning, against a run pinned to the best point, share of the run"
        yield self.figure("d", what, lost, unit=" %", at_most=5.0, how=how)

    def _against(self, key: str, what: str, rival: rivals.Ran) -> Iterator[Figure]:
        yield self.figure(key, f"{what}, images a second", rival.rate, how=rival.words())
        auto = self.auto()
        least = AT_LEAST.get(key, {}).get(self.ground.name)
        how = f"{auto.words()} against {rival.words()}"
        yield self.figure(
            key, f"Shoal, whole run, against {what}", auto.rate / rival.rate, at_least=least, how=how
        )

    def _lacks(self, key: str, what: str) -> bool:
        absent = rivals.missing(what)
        if absent:
            self.ground.say(f"({key}) is left out: {', '.join(absent)} not installed; pip install '.[bench]'")
        return bool(absent)

    def figure(self, key: str, what: str, value: float, **more: Any) -> Figure:
        return Figure(key, f"{self.ground.name}: {what}", value, **more)


Timed = TypeVar("Timed", hand_search.Whole, by_shoal.Ran)


def _median(runs: list[Timed]) -> Timed:
    """The run that took neither the longest nor the shortest."""
    return sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]


BENCHMARKS: dict[str, Callable[[Contest], Iterator[Figure]]] = {
    "a": Contest.against_hand,
    "b": Contest.against_group,
    "c": Contest.against_ray_data,
    "d": Contest.regret,
    "e": Contest.against_others,
    "f": Contest.against_grid,
}


def measure(contest: Contest, keys: list[str]) -> Iterator[Figure | Broken]:
    """Figures as they come. What breaks ends its own benchmark, not the others."""
    for key in keys:
        try:
            yield from BENCHMARKS[key](contest)
        except Broken as broken:
            contest.ground.say(f"({key}) broke: {broken}")
            yield broken

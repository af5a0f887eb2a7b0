"""The tuner of inference as an ask-and-tell value: how each item is gone about, from what was measured on earlier ones.

All of it happens on items that have to be done anyway; what it costs is the difference to the best way, and loading.
It knows no clock: what it is told has the seconds in it. What it found out is in `knowledge`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from shoal.model import Decision
from shoal.model.advice import Advice, Heard, Setting, Space, Step
from shoal.planner.tuner import batches, candidates, explanation, gains
from shoal.planner.tuner.arrangements import Trial
from shoal.planner.tuner.curve import KEPT
from shoal.planner.tuner.gains import Remaining
from shoal.planner.tuner.knowledge import SURE

FIRST_ROWS = 4
FIRST_BATCH = 4
"""Batch with which a runtime is first tried on a CPU."""
UNSETTLED_S, RISING_S = 2.0, 0.7
"""Seconds of an item before the choice is final, as early measurements are worth more; and on a GPU while larger
batches are still much better."""
ENOUGH_MEASURED, ENOUGH_DOUBT = 2.5, 1.5
"""Measurements that decide about an arrangement, and the deviations from the best beyond which fewer do."""
MOST_ATTEMPTS = 3
WORTH_A_LOOK = 5
"""Least length of the rest of a run, in trials of another batch."""
REFINE_EVERY, DOUBTFUL_EVERY = 20, 3
"""Items between two trials of a neighbouring batch after the final choice; and while one may be better."""
DRIFT, DRIFT_KNOWN = 0.75, 0.6
"""Rates below this share of the known one, or above its inverse, mean that the machine has changed."""
RECENT = 5
SUSPICIOUS = 2
"""Workers lost with a batch larger than any before, until the batch is blamed."""


class Asked(NamedTuple):
    """What a worker has in hand."""

    advice: Advice
    round: int
    clean: bool
    """Whether its measurements are of the arrangement that it was handed out under."""
    role: str = "work"
    """`work`, `explore` for a batch, `try` for a runtime, `arrange` for an arrangement."""
    tries: Setting | None = None


class Tuner:
    """One for each kind of node. Deterministic: the same calls give the same answers.

    `known` is what `document` gave in an earlier run of the same model on the same kind of node.
    """

    def __init__(self, space: Space, known: Mapping[str, Any] | None = None) -> None:
        self._space = space
        self._known = explanation.read(space, known)
        self._arranger = self._known.arranger
        self._attempts: dict[str, int] = {}
        self._loaded: dict[int, set[str]] = {}
        self._lost: set[int] = set()
        self._suspects: dict[tuple[str, int], int] = {}
        self._asked: dict[int, Asked] = {}
        self._active: int | None = None
        """On the node that was asked about last."""
        self._alive: dict[str, int] = {}
        """By host, as far as that was told."""
        self._blank = 0
        """Items of which nothing could be measured, while nothing is known: they were too short."""
        self._remaining = Remaining()
        self._since_refined = 0
        self._refined_up = False
        self._reference: float | None = None

    # What the run asks.

    def active(self, alive: int, host: str = "") -> int:
        """How many of the workers that are alive on a node should be given items now."""
        wanted = self._known.workers()
        self._alive[host] = alive
        self._known.came(alive)
        self._active = max(1, min(alive, wanted))
        return min(alive, wanted)

    def ask(self, worker: int, rows: int, left: int | None, active: int | None = None) -> Advice:
        """How to go about the next item of this worker, which has `rows` inputs; of the whole run, with these, `left`
        are in nobody's hands; None while that is not known.

        `active` workers of its node are given items; None means that `active` was asked for its node last.
        """
        self._asked.pop(worker, None)
        self._lost.discard(worker)
        if active is not None:
            self._active = max(1, active)
        self._remaining.hand_out(rows, left)
        asked = self._next(worker, max(1, rows))
        self._asked[worker] = asked
        return asked.advice

    def plain(self, worker: int) -> Advice:
        """For an item that is gone through with care: nothing is tried on it, and nothing follows from its end."""
        self._asked.pop(worker, None)
        self._lost.discard(worker)
        return self._handed(Step(self._known.chosen)).advice

    def tell(self, worker: int, heard: Heard) -> None:
        """Record the end of this worker's item; also of one without advice."""
        asked = self._asked.pop(worker, None)
        # One that is dead has nothing loaded any more, and should not be waited for.
        loaded = set() if worker in self._lost else self._loaded.setdefault(worker, set())
        for name, seconds in heard.load_s.items():
            if name not in loaded:  # Loading it once more, for other threads, may be quicker.
                self._known.load_s[name] = max(0.0, seconds)
        loaded.update(heard.load_s, (measured.setting.runtime for measured in heard.measured))
        meant = asked.advice.meant if asked else 1
        self._known.hear(heard, workers=meant, clean=asked is None or asked.clean)
        if self._known.choose():
            self._reference = None
        self._blank += self._known.rate_of_worker() is None and not heard.measured
        if asked is not None and asked.role == "arrange" and self._arranger.trial is not None:
            if self._arranger.trial.tell(worker):
                self._arranger.round += 1
            self._judge_arrangement()
        self._watch()

    def lost(self, worker: int, *, suspicious: bool = True, crowded: bool = False) -> None:
        """It died: what it was trying is free again.

        `suspicious` where it may have died of what it did; not where its node went, or somebody ended it. `crowded`
        where it went because there is no memory for it beside the others.
        """
        asked = self._asked.pop(worker, None)
        self._loaded.pop(worker, None)
        self._lost.add(worker)
        if self._arranger.trial is not None:
            self._arranger.trial.lost(worker)
        if asked and crowded:
            self._known.crowded(asked.advice.meant)
        for step in asked.advice.steps if asked and suspicious else ():
            runtime, batch = step.setting.runtime, step.setting.batch
            if asked and batch > max(1, self._known.memory.seen(runtime)):
                self._suspects[runtime, batch] = self._suspects.get((runtime, batch), 0) + 1
                if self._suspects[runtime, batch] >= SUSPICIOUS:
                    self._known.memory.suspect(step.setting)

    def rows_for(self, seconds: float) -> int:
        """Number of inputs with which an item takes about `seconds` on one worker."""
        rate = self._known.rate_of_worker()
        if rate is None:
            first = max(FIRST_ROWS, 2 * self._known.chosen.batch) << min(self._blank, 10)
            return max(1, min(first, self._space.largest_item))
        batch = self._known.chosen.batch
        target = rate * seconds
        if self._arranger.trial is not None or self._trying():
            target = min(target, rate * UNSETTLED_S)
        elif not self._known.settled:
            short_s = RISING_S if self._known.on_gpu and self._known.rises() else UNSETTLED_S
            following = 3 * max(self._known.unmeasured(self._known.chosen.runtime), default=0)
            target = max(min(target, rate * short_s), min(following, 2 * target))
        rows = max(4, math.ceil(target / batch - 0.01)) * batch
        return max(1, min(self._space.largest_item, rows))

    def rate_of_worker(self) -> float | None:
        """Inputs a second of one worker at the chosen point."""
        return self._known.rate_of_worker()

    def rate(self) -> float | None:
        """Inputs a second that one node is expected to do at the chosen point."""
        return self._known.rate()

    def settled(self) -> bool:
        """Whether nothing is being found out any more, beyond a look at a neighbour now and then."""
        return self._known.settled

    def chosen(self) -> tuple[Setting, int]:
        """The best setting as far as is known, and how many workers a node should have at it."""
        return explanation.chosen(self._known)

    def decisions(self) -> tuple[Decision, ...]:
        """What was chosen, and why, with the figures."""
        return explanation.decisions(self._known)

    def document(self) -> dict[str, Any]:
        """All that was found out, as JSON values: for the report, and for the next run."""
        return explanation.document(self._known)

    # What is next for a worker.

    def _next(self, worker: int, rows: int) -> Asked:
        rate = self._rate()
        if rate is None:
            return self._handed(Step(self._known.chosen))
        left_s = self._remaining.seconds(rate)
        if self._remaining.is_late(rows, self._active or 1):
            return self._last(worker, left_s)
        if self._known.settled and self._known.on_gpu and self._remaining.is_to_look_again():
            self._known.settled = False
        trial = self._arranger.trial
        if trial is None and self._begin_arrangement(rows, left_s):
            trial = self._arranger.trial
        if trial is not None:
            trial.asked += 1
            if trial.is_hopeless(len(self._loaded)):
                self._arranger.conclude(None, adopt=False)
                trial = None
            elif trial.takes(worker, self._loaded):
                return self._arranged(trial)
        best = self._best_for(worker, left_s)
        if trial is None:
            loaded = {best.runtime, *self._loaded.get(worker, ())}
            runtime = self._worth_trying(loaded, rows, left_s)
            if runtime is not None:
                return self._tried(runtime, best, rows)
            setting = self._worth_measuring(loaded, rows, left_s)
            if setting is not None and self._is_worth_a_look(setting, left_s):
                return self._explored(setting, best, rows)
            measured = self._known.estimate(self._known.chosen) is not None
            if setting is None and measured and not any(each.role != "work" for each in self._asked.values()):
                if not self._known.settled:
                    self._remaining.settle()
                self._known.settle()
        return self._handed(Step(best))

    def _last(self, worker: int, left_s: float) -> Asked:
        """Nothing is found out any more: all go on as is best."""
        if self._arranger.trial is not None:
            self._arranger.conclude(None, adopt=False)
        return self._handed(Step(self._best_for(worker, left_s)))._replace(clean=False)

    def _handed(self, *steps: Step, role: str = "work", tries: Setting | None = None) -> Asked:
        workers = self._known.workers()
        fitted = tuple(Step(self._known.fitted(step.setting, workers), step.rows) for step in steps)
        now = self._arranger.round
        trial = self._arranger.trial  # Workers that get used to more threads are in the way of the others.
        clean = all(each.round == now for each in self._asked.values()) and (trial is None or trial.running)
        sharing = -(-workers // max(1, self._space.machine.gpu))
        advice = Advice(fitted, min(workers, self._active or workers), workers, sharing)
        return Asked(advice, now, clean, role, tries)

    def _tried(self, runtime: str, best: Setting, rows: int) -> Asked:
        """A runtime's first inputs. What it is not likely to do better goes back to the best one."""
        self._attempts[runtime] = self._attempts.get(runtime, 0) + 1
        self._known.not_tried.pop(runtime, None)
        batch = best.batch
        if not self._known.on_gpu and batch < FIRST_BATCH <= min(rows // 3, self._known.largest(runtime)):
            batch = FIRST_BATCH
        setting = self._known.setting(runtime, batch)
        needed = batches.rows_needed(setting.batch, self._known.rate_of_worker())
        if candidates.is_promising(self._known, runtime) or rows < 2 * needed:
            return self._handed(Step(setting), role="try", tries=setting)
        return self._handed(Step(setting, needed), Step(best), role="try", tries=setting)

    def _explored(self, setting: Setting, best: Setting, rows: int) -> Asked:
        needed = batches.rows_needed(setting.batch, self._known.rate_of_worker())
        if rows < needed + 3 * best.batch:
            return self._handed(Step(setting), role="explore", tries=setting)
        return self._handed(Step(setting, needed), Step(best), role="explore", tries=setting)

    def _arranged(self, trial: Trial) -> Asked:
        asked = self._handed(Step(trial.setting), role="arrange", tries=trial.setting)
        return asked._replace(clean=asked.clean and trial.ready())

    def _rate(self) -> float | None:
        """What all workers do together, as things are; None while nothing is known."""
        rate = self._known.rate_of_worker()
        return None if rate is None else rate * max(len(self._asked) + 1, self._active or 1)

    # Runtimes.

    def _best_for(self, worker: int, left_s: float) -> Setting:
        """The best setting for this worker, unless loading it takes longer than it gains."""
        loaded, chosen = self._loaded.get(worker, set()), self._known.chosen
        best = self._known.estimate(chosen)
        usable = [name for name in sorted(loaded) if name not in self._known.unusable]
        here = [found for name in usable if (found := self._known.best_of(name)) is not None]
        if best is None or chosen.runtime in loaded or not here:
            return chosen
        setting, estimate = max(here, key=lambda pair: pair[1].score)
        if any(candidates.is_promising(self._known, name) for name in self._trying()):
            left_s = min(left_s, gains.LOAD_S)  # What is loaded now will be of use for so long only.
        gained_s = left_s * (1 - estimate.rate / best.rate)
        return chosen if gained_s > self._known.load_s.get(chosen.runtime, gains.LOAD_S) else setting

    def _worth_trying(self, loaded: Collection[str], rows: int, left_s: float) -> str | None:
        """A runtime that a worker that has loaded these should try now."""
        return candidates.runtime(
            self._known,
            [name for name in self._space.runtimes if self._attempts.get(name, 0) < MOST_ATTEMPTS],
            trying=self._trying(),
            loaded=loaded,
            rows=rows,
            left_s=left_s,
            workers=len(self._asked) + 1,
        )

    def _trying(self) -> list[str]:
        """The runtimes that are being tried."""
        return [each.tries.runtime for each in self._asked.values() if each.role == "try" and each.tries]

    # Batches.

    def _worth_measuring(self, loaded: Collection[str], rows: int, left_s: float) -> Setting | None:
        """A setting of these runtimes that may be better than the best one, and is not known well enough."""
        if self._known.settled:
            return self._neighbour(rows, left_s)
        names = [name for name in self._known.usable() if name in loaded]
        return candidates.best_hope(self._known, names, rows, self._pending, candidates.MOST_MEASURED)

    def _is_worth_a_look(self, setting: Setting, left_s: float) -> bool:
        rate = self._known.rate_of_worker() or math.inf
        return left_s >= WORTH_A_LOOK * batches.rows_needed(setting.batch, rate) / rate

    def _neighbour(self, rows: int, left_s: float) -> Setting | None:
        """Now and then, when all is settled: one that may be better after all, or else half or twice the batch."""
        self._since_refined += 1
        known, chosen = self._known, self._known.chosen
        best = known.estimate(chosen)
        if best is None or self._since_refined < DOUBTFUL_EVERY or self._space.batch is not None:
            return None
        setting = candidates.best_hope(known, [chosen.runtime], rows, self._pending, KEPT)
        if setting is None and self._since_refined >= REFINE_EVERY:
            self._refined_up = not self._refined_up
            batch = chosen.batch * 2 if self._refined_up else max(1, chosen.batch // 2)
            setting = chosen._replace(batch=min(batch, known.largest(chosen.runtime)))
        setting = known.fitted(setting, known.workers()) if setting is not None else None
        if setting is None or setting == chosen:
            return None
        needed = batches.rows_needed(setting.batch, best.rate)
        if rows < 3 * setting.batch or left_s < 10 * needed / best.rate:
            return None
        self._since_refined = 0
        return setting

    def _pending(self, setting: Setting) -> int:
        return sum(each.tries == setting for each in self._asked.values())

    # Arrangements.

    def _begin_arrangement(self, rows: int, left_s: float) -> bool:
        """Whether a trial of another arrangement begins now: when it is known what the workers should do."""
        known = self._known
        now = known.estimate(known.chosen)
        if known.settled or now is None or now.sure < SURE or (known.on_gpu and known.rises(rows)):
            return False
        alive = max(self._alive.values(), default=0)
        first = sorted(self._loaded)[: self._arranger.current.workers]
        if alive < len(first) or any(known.chosen.runtime not in self._loaded[each] for each in first):
            return False
        if self._trying() or self._worth_trying((), rows, left_s) is not None:
            return False
        surely_s = self._remaining.surely_s(self._rate() or now.rate)
        found = candidates.arrangement(known, alive, rows / now.rate, left_s, surely_s)
        if found is None:
            return False
        self._arranger.begin(*found, instead=known.chosen)
        self._asked = {each: asked._replace(clean=False) for each, asked in self._asked.items()}
        return True

    def _judge_arrangement(self) -> None:
        """End the trial once it is measured: the better one stays; with equal threads, fewer do if they do as much."""
        trial, current = self._arranger.trial, self._arranger.current
        assert trial is not None
        found = self._known.curve.exactly(trial.setting, trial.arrangement.workers)
        before = self._known.estimate(trial.instead)
        if found is None or before is None or not trial.running:
            return
        rate, now = found.rate * trial.arrangement.workers, before.rate * self._known.at_work()
        doubt = ENOUGH_DOUBT * self._known.curve.noise() / math.sqrt(max(0.25, found.sure))
        if found.sure < ENOUGH_MEASURED and abs(rate / now - 1) < doubt:
            return
        fewer = trial.arrangement.threads == current.threads and trial.arrangement.workers < current.workers
        adopt = rate > now * (0.99 if fewer else 1.01)
        self._arranger.rates[current._replace(workers=self._known.at_work())] = now
        self._arranger.conclude(rate, adopt=adopt)
        if adopt:
            self._known.chosen, self._reference = trial.setting, None

    def _watch(self) -> None:
        """When the rate of the chosen point is no longer what it was, most of what is known is void."""
        known = self._known
        rate = known.curve.recent(known.chosen, known.at_work(), RECENT)
        if not known.settled or rate is None:
            return
        earlier = self._reference is None and known.known_rate is not None
        reference = known.known_rate if earlier else self._reference
        bound = DRIFT_KNOWN if earlier else DRIFT
        if reference is None or bound < rate / reference < 1 / bound:
            self._reference = rate if self._reference is None else self._reference
            return
        known.curve.forget(RECENT, known.chosen)
        known.slower.clear()
        self._arranger.rates.clear()
        known.settled, known.known_rate, self._reference = False, None, None

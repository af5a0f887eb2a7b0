"""The course of an item from its first input to its last: step by step as advised, each step measured on the inputs it
did; or, where attempts ended at it, one input at a time. And the signs of life of any attempt."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from shoal.engine.workers.runner import Broken, Cancelled, Work, memory_bytes, now
from shoal.model.advice import AS_GIVEN, Advice, Heard, Measured, Setting
from shoal.units import format_seconds
from shoal.work.infer.worker.batch_prediction import Predicting, Task
from shoal.work.infer.worker.intake import Intake, Readers
from shoal.work.outputs import NOWHERE, Crumbs, Ends

ENOUGH = 2
"""Attempts that ended at the same input, before it is blamed: a single one may have ended of something else."""
SHARE = 0.1
"""Heartbeat interval, as a share of the input's time limit."""
LOADING_S = 600.0
"""How long loading a model may take, however short the time for inputs is: some are converted for minutes."""


class Meter:
    """Adds up the batches of one setting that count."""

    def __init__(self) -> None:
        self.rows = 0
        self.seconds = 0.0
        self.predict_s = 0.0
        self.memory = 0
        self.ready = 0
        """Inputs that were prepared meanwhile, perhaps for later."""
        self.kept_reading = True
        """Whether other threads were busy preparing them all the time."""

    def lasting_rows(self) -> int:
        """How many inputs can be done in as much time for long: those that lay ready are used up once.

        At most half of them are thought to have been: threads get things ready in lumps.
        """
        return min(self.rows, max(self.ready, -(-self.rows // 2))) if self.kept_reading else self.rows


class Course:
    """Goes through items for one worker."""

    def __init__(self, predicting: Predicting, readers: Readers) -> None:
        self._predicting = predicting
        self._readers = readers

    def go(self, intake: Intake, advice: Advice, task: Task, after: Iterator[bool]) -> Heard:
        """Do what is left of the intake. `after` is advanced once a batch, to read ahead in the next item.

        It says whether others are busy reading.
        """
        meters: dict[Setting, Meter] = {}
        predicting = self._predicting
        predicting.holding.expect(
            max(predicting.largest(step.setting, task.sharing) for step in advice.steps)
        )
        for setting, rows in _steps(advice, len(intake)):
            self._step(setting, rows, intake, task, meters, after)
        meters = _telling(meters, advice)
        measured = tuple(
            Measured(
                setting,
                advice.workers,
                meter.lasting_rows(),
                meter.seconds,
                meter.predict_s,
                meter.memory,
                predicting.holding.device_bytes(),
            )
            for setting, meter in meters.items()
            if meter.rows
        )
        heard = Heard(
            measured,
            task.load_s,
            task.differences,
            dict(predicting.holding.unusable),
            tuple(task.out_of_memory),
            predicting.fixed_rows,
        )
        predicting.holding.let_go()
        return heard

    def _step(
        self,
        setting: Setting,
        rows: int,
        intake: Intake,
        task: Task,
        meters: dict[Setting, Meter],
        after: Iterator[bool],
    ) -> None:
        predicting, holding = self._predicting, self._predicting.holding
        left = rows
        while left > 0 and len(intake):
            batch = min(left, predicting.largest(setting, task.sharing))
            began, predicted = now(), predicting.watch.seconds.get("predicting", 0.0)
            ready = predicting.watch.ready
            loading = sum(task.load_s.values())
            executor = self._readers.executor(setting.threads)
            if executor is not None:
                intake.reach_ahead(executor, self._readers.depth(batch))
            taken = intake.take(batch)
            left -= len(taken)
            before = len(task.collected.errors)
            runtime = predicting.run(setting, taken, task)
            reading = next(after, False)
            loaded = sum(task.load_s.values()) > loading
            all_bad = len(task.collected.errors) - before == len(taken)
            if runtime is None or all_bad:
                continue
            if holding.counts(runtime, setting.threads, len(taken)) and not loaded:
                used = Setting(runtime, len(taken), setting.threads)
                meter = meters.setdefault(used, Meter())
                meter.rows += len(taken)
                meter.ready += predicting.watch.ready - ready
                meter.kept_reading = meter.kept_reading and reading
                meter.seconds += now() - began
                meter.predict_s += predicting.watch.seconds.get("predicting", 0.0) - predicted
                meter.memory = max(meter.memory, memory_bytes())


def _telling(meters: dict[Setting, Meter], advice: Advice) -> dict[Setting, Meter]:
    """Without the short batches at the ends of steps, which say nothing of full ones; unless there is nothing else."""
    full = {
        setting: meter
        for setting, meter in meters.items()
        if setting in {each.setting for each in advice.steps}
    }
    return full or meters


def _steps(advice: Advice, count: int) -> Iterator[tuple[Setting, int]]:
    """The settings and how many inputs each gets; the last one gets what is left."""
    for setting, rows in advice.steps[:-1]:
        part = min(rows or count, count)
        count -= part
        if part:
            yield setting, part
    if count:
        yield advice.steps[-1].setting, count


def go_carefully(
    intake: Intake,
    predicting: Predicting,
    setting: Setting,
    task: Task,
    crumbs: Crumbs,
    work: Work,
    pulse: Pulse,
) -> None:
    """All inputs but those that are to blame. `setting` is how the model is to be run, with a batch of one.

    Each input has the time that an item has otherwise: an attempt whose time is up has spent it at the one where it is.
    """
    suspects = crumbs.suspects(work.seq)
    # Where attempts are known to end at one, they may at others, too, and attempts are few.
    enough = 1 if any(ends.attempts >= ENOUGH for ends in suspects.values()) else ENOUGH
    trail = _Trail(crumbs, work, intake)
    if setting.runtime == AS_GIVEN:
        predicting.load(setting, task)  # Who dies of that dies of no input.
    has_loaded = setting.runtime == AS_GIVEN
    pulse.beat()
    try:
        for position in range(len(intake)):
            ends = suspects.get(position, Ends())
            if ends.attempts >= enough:
                intake.skip()
                task.collected.fail(position, _reason(ends, pulse.timeout_s))
                continue
            trail.at(position)
            taken = intake.take(1)
            if not has_loaded and taken[0].error is None:
                trail.at(NOWHERE)
                predicting.load(setting, task, taken)
                has_loaded = True
                pulse.beat()
                trail.at(position)
            predicting.run(setting, taken, task)
            pulse.beat()
        trail.leave()
    except Broken:
        raise  # It dies where it is, and the next attempt shall see that.
    except BaseException:
        trail.end()
        raise
    trail.end()


class _Trail:
    """Where this attempt is, for the next one to know."""

    def __init__(self, crumbs: Crumbs, work: Work, intake: Intake) -> None:
        self._position = NOWHERE
        self._crumbs = crumbs
        self._work = work
        self._intake = intake

    def at(self, position: int) -> None:
        self.leave()  # Until that is written, which may take long by itself.
        self._crumbs.at(self._work.seq, self._work.attempt, position)
        self._position = position

    def leave(self) -> None:
        self._position = NOWHERE

    def end(self) -> None:
        """Its process lives: the input where it is can only be blamed for the time it took, once it had been read."""
        is_late = self._work.cancelled is not None and self._work.cancelled[0] == "failed"
        position = self._position if is_late and not self._intake.is_reading else NOWHERE
        self._crumbs.at(self._work.seq, self._work.attempt, position, timed_out=is_late)


def _reason(ends: Ends, timeout_s: float | None) -> str:
    times = "once" if ends.attempts == 1 else f"{ends.attempts} times"
    if ends.timed_out == ends.attempts and timeout_s is not None:
        return f"timed out {times}: it takes longer than limits.timeout, {format_seconds(timeout_s)}"
    died = f"{ends.attempts} worker{'' if ends.attempts == 1 else 's'} died of it"
    return died if timeout_s is None else f"{died}, or had to be killed as it timed out"


class Pulse:
    """Of one attempt. Beats where something was done, not by itself: what hangs is not to seem alive."""

    def __init__(self, work: Work, timeout_s: float | None) -> None:
        self.timeout_s = timeout_s
        self._work = work
        self._told = now()

    def beat(self) -> None:
        """Something was done. Raises `Cancelled` when the attempt should have ended, and user code caught that."""
        if self._work.cancelled is not None:
            raise Cancelled
        if self.timeout_s is not None and now() - self._told >= SHARE * self.timeout_s:
            self._told = now()
            self._work.report({}, None)

    @contextmanager
    def loading(self) -> Iterator[None]:
        """While a model is loaded, in one call: beats by a timer, up to a limit."""
        if self.timeout_s is None:
            yield
            return
        over = threading.Event()
        beating = threading.Thread(target=self._beat_until, args=(over, SHARE * self.timeout_s), daemon=True)
        beating.start()
        try:
            yield
        finally:
            over.set()
            beating.join()

    def _beat_until(self, over: threading.Event, every_s: float) -> None:
        until = now() + LOADING_S
        while not over.wait(every_s) and now() < until and self._work.cancelled is None:
            try:
                self._work.report({}, None)
            except Cancelled:  # For the thread that loads, which hears of it by itself.
                return

"""One item from its first input to its last, step by step as advised, each step measured on the inputs it did."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.engine.workers.runner import memory_bytes, now
from shoal.model.advice import Advice, Heard, Measured, Setting
from shoal.work.infer.worker.batch_prediction import Predicting, Task
from shoal.work.infer.worker.intake import Intake, Readers


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

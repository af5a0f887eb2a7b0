"""A batch through the model, whatever happens: too little memory, a runtime that fails, an input it cannot take.

Settings come from outside; how batches are cut and measured is not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.engine.workers.runner import Failed
from shoal.engine.workers.stopwatch import Stopwatch
from shoal.model.tuning import Setting
from shoal.work.infer.base import Finish, OutOfMemory, Prepare
from shoal.work.infer.models import check_fits, difference
from shoal.work.infer.worker.collecting import Collected
from shoal.work.infer.worker.holding import AS_GIVEN, Holding
from shoal.work.infer.worker.intake import LONGEST_REASON, Taken


class Predicting:
    """Keeps what was learned about the model between batches."""

    def __init__(
        self,
        holding: Holding,
        prepare: Prepare,
        finish: Finish,
        watch: Stopwatch,
        *,
        takes_arrays: bool,
        precision: str,
    ) -> None:
        self.holding = holding
        self.watch = watch
        self._prepare = prepare
        self._finish = finish
        self._precision = precision
        self._takes_arrays = takes_arrays
        """Not a class of the user's, which takes what it takes."""
        self._proven = False
        """Whether the model has taken anything yet: before, its failure is not the fault of an input."""
        self._caps: dict[str, int] = {}
        """The largest batch for which memory suffices, by runtime, where it did not."""
        self.to_compare: set[str] = set()
        self.differences: dict[str, float] = {}
        self.out_of_memory: list[Setting] = []

    def largest(self, setting: Setting) -> int:
        """The batch that this setting may really have."""
        return min(setting.batch, self._caps.get(setting.runtime, setting.batch))

    def forget(self) -> None:
        """A new item begins: what is told about the last one has been told."""
        self.differences = {}
        self.out_of_memory = []
        self.holding.load_s = {}

    def run(self, setting: Setting, taken: Sequence[Taken], collected: Collected) -> str | None:
        """All of them, in order; which runtime did it. Raises `Failed` when the model cannot be used at all."""
        good = [entry for entry in taken if entry.error is None]
        for entry in taken:
            if entry.error is not None:
                collected.fail(entry.position, entry.error)
        return self._attempt(setting, good, collected) if good else None

    def _attempt(self, setting: Setting, good: Sequence[Taken], collected: Collected) -> str:
        cap = self.largest(setting)
        if len(good) > cap:
            for start in range(0, len(good), cap):
                runtime = self._attempt(setting, good[start : start + cap], collected)
            return runtime
        try:
            runtime, outputs = self._predict(setting, good)
        except OutOfMemory as error:
            self._shrink(setting, len(good), error)
            return self._attempt(setting, good, collected)
        except (Failed, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - libraries and users' classes raise anything
            return self._blame(setting, good, error, collected)
        self._proven = True
        columns, bad = self._finish(outputs, len(good))
        collected.add([entry.position for entry in good], columns, bad)
        return runtime

    def _predict(self, setting: Setting, good: Sequence[Taken]) -> tuple[str, Any]:
        with self.watch.measuring("preprocessing"):
            batch = self._prepare.batch([entry.value for entry in good])
        runtime, predictor = self.holding.get(setting, batch)
        if self._takes_arrays and not self._proven:
            misfit = check_fits(predictor.inputs(), batch)
            if misfit is not None:
                raise Failed(misfit)
        with self.watch.measuring("predicting"):
            outputs = predictor.predict(batch)
        return self._compared(runtime, setting, batch, outputs)

    def _compared(self, runtime: str, setting: Setting, batch: Any, outputs: Any) -> tuple[str, Any]:
        """What the model gives as it was given, where the runtime has to show first that it agrees and does not."""
        if runtime not in self.to_compare or runtime == AS_GIVEN:
            return runtime, outputs
        self.to_compare.discard(runtime)
        _, given = self.holding.get(setting._replace(runtime=AS_GIVEN), batch)
        reference = given.predict(batch)
        self.differences[runtime], why = difference(reference, outputs, self._precision)
        if why is None:
            return runtime, outputs
        self.holding.refuse(runtime, why)
        return AS_GIVEN, reference

    def _shrink(self, setting: Setting, count: int, error: Exception) -> None:
        self.out_of_memory.append(setting._replace(batch=count))
        if count <= 1:
            raise Failed(f"there is not enough memory for a single input: {error}") from None
        self._caps[setting.runtime] = max(1, count // 2)

    def _blame(self, setting: Setting, good: Sequence[Taken], error: Exception, collected: Collected) -> str:
        """A batch failed: because of the runtime, of one of its inputs, or of the model."""
        if setting.runtime != AS_GIVEN:
            self.holding.refuse(setting.runtime, in_a_line(error))
            return self._attempt(setting._replace(runtime=AS_GIVEN), good, collected)
        if len(good) == 1:
            if not self._proven:
                raise Failed(f"the model failed on its first input: {in_a_line(error)}") from error
            collected.fail(good[0].position, f"the model failed: {in_a_line(error)}")
            return AS_GIVEN
        failures = 0
        for entry in good:
            try:
                _, outputs = self._predict(setting, [entry])
            except OutOfMemory as lack:
                raise Failed(f"there is not enough memory for a single input: {lack}") from None
            except Exception as reason:
                failures += 1
                if failures == len(good) and not self._proven:
                    raise Failed(f"the model failed on every input: {in_a_line(reason)}") from reason
                collected.fail(entry.position, f"the model failed: {in_a_line(reason)}")
                continue
            self._proven = True
            columns, bad = self._finish(outputs, 1)
            collected.add([entry.position], columns, bad)
        return AS_GIVEN


def in_a_line(error: BaseException) -> str:
    """What went wrong, short enough for a table."""
    text = " ".join(str(error).split())
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__)[:LONGEST_REASON]

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

MOST_UNPROVEN = 8
"""A model that fails on so many inputs, and has taken none before, is to blame itself."""


class Misfit(Failed):
    """The model declares that it takes something else."""


class Predicting:
    """Keeps what was learned about the model between batches."""

    def __init__(
        self, holding: Holding, prepare: Prepare, finish: Finish, watch: Stopwatch, *, takes_arrays: bool
    ) -> None:
        self.holding = holding
        self.watch = watch
        self._prepare = prepare
        self._finish = finish
        self._takes_arrays = takes_arrays
        """Not a class of the user's, which takes what it takes."""
        self._proven = False
        """Whether the model has taken anything yet: before, its failure may not be the fault of an input."""
        self._failures = 0
        """Inputs that it failed on before."""
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

    def run(self, setting: Setting, taken: Sequence[Taken], collected: Collected) -> str:
        """All of them, in order; which runtime did it. Raises `Failed` when the model cannot be used at all."""
        good = [entry for entry in taken if entry.error is None]
        for entry in taken:
            if entry.error is not None:
                collected.fail(entry.position, entry.error)
        runtime, _ = self.holding.get(setting)
        if good:
            self._attempt(setting._replace(runtime=runtime), good, collected)
        return runtime

    def _attempt(self, setting: Setting, good: Sequence[Taken], collected: Collected) -> None:
        cap = self.largest(setting)
        if len(good) > cap:
            for start in range(0, len(good), cap):
                self._attempt(setting, good[start : start + cap], collected)
            return
        failure: Exception | None = None
        try:
            columns, bad = self._finish(self._predict(setting, good), len(good))
        except Misfit:
            raise
        except Exception as error:  # noqa: BLE001 - libraries and users' classes raise anything
            failure = error.with_traceback(None)  # Its frames hold what was half computed.
        if isinstance(failure, OutOfMemory | MemoryError):
            self._shrink(setting, good, failure, collected)
        elif failure is not None:
            self._blame(setting, good, failure, collected)
        else:
            self._proven = True
            collected.add([entry.position for entry in good], columns, bad)

    def _predict(self, setting: Setting, good: Sequence[Taken]) -> Any:
        runtime, predictor = self.holding.get(setting)
        with self.watch.measuring("preprocessing"):
            batch = self._prepare.batch([entry.value for entry in good])
        if self._takes_arrays and not self._proven:
            misfit = check_fits(predictor.inputs(), batch)
            if misfit is not None:
                raise Misfit(misfit)
        with self.watch.measuring("predicting"):
            outputs = predictor.predict(batch)
        return self._compared(runtime, setting, batch, outputs)

    def _compared(self, runtime: str, setting: Setting, batch: Any, outputs: Any) -> Any:
        """What the model gives as it was given, where the runtime has to show first that it agrees and does not."""
        if runtime not in self.to_compare or runtime == AS_GIVEN:
            return outputs
        _, given = self.holding.get(setting._replace(runtime=AS_GIVEN))
        reference = given.predict(batch)
        self.to_compare.discard(runtime)
        self.differences[runtime], why = difference(reference, outputs)
        if why is None:
            return outputs
        self.holding.refuse(runtime, why)
        return reference

    def _shrink(
        self, setting: Setting, good: Sequence[Taken], error: Exception, collected: Collected
    ) -> None:
        """Memory ran out: again with half the batch. A single input that is too much for it is an error of its own."""
        count, said = len(good), in_a_line(error)
        self.out_of_memory.append(setting._replace(batch=count))
        if count > 1:
            self._caps[setting.runtime] = count // 2
            self._attempt(setting, good, collected)
            return
        self._caps.pop(setting.runtime, None)  # It is the input, and others may go together again.
        reason = f"there is not enough memory for it: {said}"
        sentence = f"There is not enough memory for a single input: {said}."
        self._suspect(good[0], reason, sentence, collected)

    def _blame(self, setting: Setting, good: Sequence[Taken], error: Exception, collected: Collected) -> None:
        """A batch failed: because of the runtime, of one of its inputs, or of the model."""
        if setting.runtime != AS_GIVEN:
            self.holding.refuse(setting.runtime, in_a_line(error))
            self._attempt(setting._replace(runtime=AS_GIVEN), good, collected)
        elif len(good) > 1:
            for entry in good:
                self._attempt(setting, [entry], collected)
        else:
            said = in_a_line(error)
            sentence = said if isinstance(error, Failed) else f"The model failed on its first inputs: {said}"
            self._suspect(good[0], f"the model failed: {said}", sentence, collected)

    def _suspect(self, entry: Taken, reason: str, sentence: str, collected: Collected) -> None:
        """A single input did not go through. When no other has so far, it may be the model: `sentence` says so."""
        self._failures += 1
        if not self._proven and self._failures >= MOST_UNPROVEN:
            raise Failed(sentence)
        collected.fail(entry.position, reason[:LONGEST_REASON])


def in_a_line(error: BaseException) -> str:
    """What went wrong, short enough for a table."""
    text = " ".join(str(error).split())
    if isinstance(error, Failed | OutOfMemory) and text:
        return text[:LONGEST_REASON]  # They are sentences.
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__)[:LONGEST_REASON]

"""A batch through the model, whatever happens: too little memory, a runtime that fails, an input it cannot take.

Settings come from outside; how batches are cut and measured is not here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

from shoal.engine.workers.runner import Broken, Failed, NoRoom, Stopwatch, now
from shoal.model.advice import AS_GIVEN, LEAST_AT_A_GPU, Setting
from shoal.work.infer.worker.intake import LONGEST_REASON, Collected, Taken
from shoal.work.infer.worker.model_cache import Holding
from shoal.work.models import check_fits, difference
from shoal.work.models.libraries import is_lost, lost
from shoal.work.protocols import Finish, OutOfMemory, Predictor, Prepare

MOST_UNPROVEN = 8
"""A model that fails on so many inputs, and has taken none before, is to blame itself."""


class Cap(NamedTuple):
    """The largest batch for which memory suffices, where it did not."""

    largest: int
    asked: int
    """What the tuner wanted then."""
    sharing: int
    """How many other workers were at the same GPU; 0 where it was nobody else's fault."""


class Misfit(Failed):
    """The model declares that it takes something else."""


class Task:
    """One attempt at an item: what it has to reckon with, and what came of it so far."""

    def __init__(
        self,
        *,
        others: int = 0,
        sharing: int = 0,
        to_compare: Iterable[str] = (),
        while_loading: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.others = others
        """Workers beside this one that can go on without it, if memory does not suffice for all."""
        self.sharing = sharing
        """Those of them that are at the same GPU."""
        self.to_compare = set(to_compare)
        """Runtimes that have yet to show that they agree with the model as given."""
        self._while_loading = while_loading
        self.collected = Collected()
        self.load_s: dict[str, float] = {}
        """Seconds of loading, by runtime."""
        self.differences: dict[str, float] = {}
        self.out_of_memory: list[Setting] = []
        self._told: set[tuple[str, int]] = set()
        """Runtimes, and batches that were asked for and too large."""
        self.sentence: str | None = None
        """What to say of the model if it was its fault."""

    @contextmanager
    def loading(self, runtime: str) -> Iterator[None]:
        """Around the loading of a model: heartbeats, and how long it took."""
        began = now()
        with self._while_loading():
            yield
        self.load_s[runtime] = self.load_s.get(runtime, 0.0) + now() - began

    def ran_out(self, setting: Setting, count: int, *, once: bool) -> None:
        """Memory did not suffice for so many; `once`: only the first time that this setting was asked for."""
        if not once or (setting.runtime, setting.batch) not in self._told:
            self.out_of_memory.append(setting._replace(batch=count))
            self._told.add((setting.runtime, setting.batch))

    def acquit(self, runtime: str) -> None:
        """Memory ran out because of an input, which says nothing about batches of this runtime."""
        self.out_of_memory = [each for each in self.out_of_memory if each.runtime != runtime]

    def fail(self, entry: Taken, reason: str, sentence: str) -> None:
        """An input did not go through, which is its error unless `sentence` is true of the model."""
        self.sentence = sentence
        self.collected.fail(entry.position, reason[:LONGEST_REASON])


class Predicting:
    """Puts batches through the model, and keeps what is learned about it from item to item."""

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
        """Whether the model has taken anything yet: before, its failure may not be the fault of an input."""
        self._well: Taken | None = None
        """One of those that it took last."""
        self._failures = 0
        """Inputs that it failed on."""
        self._caps: dict[str, Cap] = {}
        """By runtime."""
        self._again = False
        """Whether a batch for which memory did not suffice is tried once more."""
        self.fixed_rows = 0
        """How many inputs the model takes at once, where its file says so."""

    def largest(self, setting: Setting, sharing: int) -> int:
        """The batch that this setting may really have."""
        cap = self._caps.get(setting.runtime)
        if cap is None or (cap.sharing and (sharing < cap.sharing or setting.batch < cap.asked)):
            return setting.batch  # Others take less now, and there may be room for it.
        return min(setting.batch, cap.largest)

    def load(self, setting: Setting, task: Task, taken: Sequence[Taken] = ()) -> None:
        """Now, and not with the first batch. `taken` are an example of one: other runtimes than as-given need it."""
        try:
            example = self._prepare.batch([entry.value for entry in taken]) if taken else None
        except Exception:  # noqa: BLE001 - it is told when these are predicted, as it is theirs
            return
        self._loaded(setting, example, task)

    def run(self, setting: Setting, taken: Sequence[Taken], task: Task) -> str | None:
        """All of them, in order; which runtime did it. Raises `Failed` when the model cannot be used at all."""
        good = [entry for entry in taken if entry.error is None]
        for entry in taken:
            if entry.error is not None:
                task.collected.fail(entry.position, entry.error)
        return self._attempt(setting, good, task) if good else None

    def _attempt(self, setting: Setting, good: Sequence[Taken], task: Task) -> str:
        cap = self.largest(setting, task.sharing)
        if len(good) > cap:
            pieces = [good[start : start + cap] for start in range(0, len(good), cap)]
            return [self._attempt(setting, piece, task) for piece in pieces][-1]
        failure: Exception | None = None
        try:
            runtime, outputs = self._predict(setting, good, task)
            columns, bad = self._finish(outputs, len(good))
        except (Misfit, NoRoom, Broken):
            raise
        except Exception as error:  # noqa: BLE001 - libraries and users' classes raise anything
            if is_lost(error):  # Seen as its outputs were fetched.
                raise lost(error) from None
            failure = error.with_traceback(None)  # Its frames hold what was half computed.
        if isinstance(failure, OutOfMemory | MemoryError):
            return self._shrink(setting, good, failure, task)
        if failure is not None:
            return self._blame(setting, good, failure, task)
        self._proven = True
        self._well = good[0]
        task.collected.add([entry.position for entry in good], columns, bad)
        return runtime

    def _predict(self, setting: Setting, good: Sequence[Taken], task: Task) -> tuple[str, Any]:
        with self.watch.measuring("preprocessing"):
            batch = self._prepare.batch([entry.value for entry in good])
        runtime, predictor = self._loaded(setting, batch, task)
        if self._takes_arrays and not self._proven:
            misfit = check_fits(predictor.inputs(), _as_array(batch))
            if misfit is not None:
                raise Misfit(misfit)
        with self.watch.measuring("predicting"):
            outputs = predictor.predict(batch)
        return self._compared(runtime, setting, batch, outputs, task)

    def _loaded(self, setting: Setting, example: Any, task: Task) -> tuple[str, Predictor]:
        try:
            runtime, predictor = self.holding.get(setting, lambda: _as_array(example), task.loading)
        except Failed as error:  # It is no model, and will be none for another input.
            raise Misfit(str(error)) from None
        except OutOfMemory as error:
            raise (NoRoom(str(error)) if task.others else Misfit(str(error))) from None
        if runtime == AS_GIVEN:
            self.fixed_rows = _fixed_rows(predictor)
        return runtime, predictor

    def _compared(
        self, runtime: str, setting: Setting, batch: Any, outputs: Any, task: Task
    ) -> tuple[str, Any]:
        """What the model gives as it was given, where the runtime has to show first that it agrees and does not."""
        if runtime not in task.to_compare or runtime == AS_GIVEN:
            return runtime, outputs
        _, given = self._loaded(setting._replace(runtime=AS_GIVEN), batch, task)
        reference = given.predict(batch)
        task.to_compare.discard(runtime)
        task.differences[runtime], why = difference(reference, outputs, self._precision)
        if why is None:
            return runtime, outputs
        self.holding.refuse(runtime, why)
        return AS_GIVEN, reference

    def _shrink(self, setting: Setting, good: Sequence[Taken], error: Exception, task: Task) -> str:
        """Memory ran out: again with half the batch. A single input that is too much for it is an error of its own,
        unless others that went well before would be, too: then the GPU is full of other workers."""
        count, said = len(good), in_a_line(error)
        sharing = task.sharing if self.holding.on_gpu() else 0
        if count > 1 and sharing > 1 and setting.batch <= LEAST_AT_A_GPU and not self._again:
            return self._once_more(setting, good, said, task)
        task.ran_out(setting, count, once=bool(sharing))
        if count > 1:
            self._caps[setting.runtime] = Cap(count // 2, setting.batch, sharing)
            return self._attempt(setting, good, task)
        if self.holding.keep_only(setting):  # Another model was in its way.
            return self._attempt(setting, good, task)
        if setting.runtime != AS_GIVEN:
            return self._blame(setting, good, error, task)
        if self.holding.on_gpu() and (self._well is None or not self._still_does(setting, task)):
            if task.others:
                raise NoRoom(_full(task, said))
            raise Misfit(f"There is not enough memory on the GPU: {said}")
        self._caps.pop(setting.runtime, None)  # It is the input, and others may go together again.
        if self._proven:
            task.acquit(setting.runtime)
        reason = f"there is not enough memory for it: {said}"
        sentence = f"There is not enough memory for a single input: {said}."
        self._suspect(good[0], reason, sentence, task)
        return setting.runtime

    def _once_more(self, setting: Setting, good: Sequence[Taken], said: str, task: Task) -> str:
        """A small batch, and a GPU that is full of others: one worker less is better than even smaller ones.

        Unless it was so for a moment only, or an input is to blame.
        """
        if not self.holding.keep_only(setting) and not self._still_does(setting, task, len(good)):
            raise NoRoom(_full(task, said))
        self._again = True
        try:
            return self._attempt(setting, good, task)
        finally:
            self._again = False

    def _still_does(self, setting: Setting, task: Task, count: int = 1) -> bool:
        """Whether an input that went well before does so now, so many times; yes where none has yet."""
        if self._well is None:
            return True
        try:
            self._predict(setting, [self._well] * count, task)
        except (OutOfMemory, MemoryError):
            return False
        return True

    def _blame(self, setting: Setting, good: Sequence[Taken], error: Exception, task: Task) -> str:
        """A batch failed: because of the runtime, of one of its inputs, or of the model."""
        if setting.runtime != AS_GIVEN:
            errors = len(task.collected.errors)
            runtime = self._attempt(setting._replace(runtime=AS_GIVEN), good, task)
            if len(task.collected.errors) == errors:  # Otherwise an input may be to blame.
                self.holding.refuse(setting.runtime, in_a_line(error))
            return runtime
        if len(good) > 1:
            return [self._attempt(setting, [entry], task) for entry in good][-1]
        said = in_a_line(error)
        sentence = said if isinstance(error, Failed) else f"The model failed on its first inputs: {said}"
        self._suspect(good[0], f"the model failed: {said}", sentence, task)
        return AS_GIVEN

    def _suspect(self, entry: Taken, reason: str, sentence: str, task: Task) -> None:
        """A single input did not go through. When no other has so far, it may be the model: `sentence` says so."""
        self._failures += 1
        task.fail(entry, reason, sentence)
        if self._failures >= MOST_UNPROVEN:
            self.settle(task)

    def settle(self, task: Task) -> None:
        """After an item: raises `Failed` where the model failed, and has never taken anything."""
        if task.sentence is not None and not self._proven:
            raise Failed(task.sentence)


def _full(task: Task, said: str) -> str:
    return f"There is not enough memory for the model beside {task.others} other workers: {said}"


def _fixed_rows(predictor: Predictor) -> int:
    """0 where it takes any number."""
    shapes = [each.shape for each in predictor.inputs()[:1]]
    return (shapes[0][0] or 0) if shapes and shapes[0] else 0


def _as_array(batch: Any) -> Any:
    """What stands for an array (see `images.pixels`), computed."""
    return batch.array() if hasattr(batch, "array") else batch


def in_a_line(error: BaseException) -> str:
    """What went wrong, short enough for a table."""
    text = " ".join(str(error).split())
    if isinstance(error, Failed | OutOfMemory) and text:
        return text[:LONGEST_REASON]  # They are sentences.
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__)[:LONGEST_REASON]

"""The models that a worker holds: loaded when a setting first asks for them, compared where that is wanted, let go."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

from shoal.engine.workers.runner import Failed, memory_bytes
from shoal.model.advice import AS_GIVEN, Setting
from shoal.work.protocols import Models, OutOfMemory, Predictor, Unusable

NEW, RESIZED = 2, 1
"""Batches that are not measured after a model was loaded, and after the size of batches changed."""


MOST_HELD = 3
"""Models that a worker holds at the same time, while it is found out which one is best."""
MUCH_LARGER = 2
"""Times as large as batches will be: memory that was taken for such a batch is given back."""
ROOMY_BYTES = 2 << 30
"""A worker that has more than this in memory holds one only."""

Key = tuple[str, int]
"""A runtime, and the number of threads it was loaded for."""
Loading = Callable[[str], AbstractContextManager[None]]
"""Context around the loading of the model for a runtime: whoever asks for it measures that, and shows signs of life."""


class Holding:
    """Loaded models by runtime and threads, those used last."""

    def __init__(self, models: Models, *, pinned: bool = False) -> None:
        self._models = models
        self._pinned = pinned
        """Whether somebody chose the runtime: then nothing else will do."""
        self._loaded: dict[Key, Predictor] = {}
        """The one used last comes last."""
        self._warm: dict[tuple[Key, int], int] = {}
        """How many batches of a size a model still has to see before its times count."""
        self._largest = 0
        """The largest batch since memory was last given back."""
        self.unusable: dict[str, str] = {}
        """Runtimes that failed here, and why. They are not tried again."""

    def get(self, setting: Setting, example: Callable[[], Any], loading: Loading) -> tuple[str, Predictor]:
        """The model for this setting; where its runtime is of no use, as it was given. Conversions need an example."""
        if setting.runtime not in self.unusable:
            try:
                return setting.runtime, self._load(setting, example, loading)
            except (Unusable, OutOfMemory) as error:
                if setting.runtime == AS_GIVEN or (self._pinned and isinstance(error, OutOfMemory)):
                    raise
                self.refuse(setting.runtime, str(error))
        return AS_GIVEN, self._load(setting._replace(runtime=AS_GIVEN), example, loading)

    def refuse(self, runtime: str, why: str) -> None:
        """Exclude a runtime that failed here."""
        if self._pinned:
            raise Failed(f"{runtime}, which tune.runtime asks for, cannot be used: {why}") from None
        self.unusable[runtime] = why
        for key in [key for key in self._loaded if key[0] == runtime]:
            self._drop(key)

    def keep_only(self, setting: Setting) -> bool:
        """Let go of all but this one; whether there were others."""
        others = [key for key in self._loaded if key != (setting.runtime, setting.threads)]
        for key in others:
            self._drop(key)
        return bool(others)

    def expect(self, batch: int) -> None:
        """Batches will be no larger: what the GPU keeps for much larger ones is given to the others."""
        if self._largest > MUCH_LARGER * batch:
            for predictor in self._loaded.values():
                predictor.release()
            self._largest = batch

    def on_gpu(self) -> bool:
        return any(predictor.device == "cuda" for predictor in self._loaded.values())

    def let_go(self) -> None:
        """Between items: of what was not used lately, as far as memory asks for it."""
        most = 1 if memory_bytes() > ROOMY_BYTES or self.on_gpu() or self.device_bytes() else MOST_HELD
        while len(self._loaded) > most:
            self._drop(next(iter(self._loaded)))

    def counts(self, runtime: str, threads: int, batch: int) -> bool:
        """Whether the time of a batch of this size, which was just predicted, says how long others will take."""
        model = (runtime, threads)
        self._largest = max(self._largest, batch)
        is_new = not any(key == model for key, _ in self._warm)
        left = self._warm.get((model, batch), NEW if is_new else RESIZED)
        self._warm[model, batch] = max(0, left - 1)
        return left == 0

    def device_bytes(self) -> int:
        return max((predictor.device_bytes() for predictor in self._loaded.values()), default=0)

    def _load(self, setting: Setting, example: Callable[[], Any], loading: Loading) -> Predictor:
        key = (setting.runtime, setting.threads)
        found = self._loaded.pop(key, None)
        if found is None:
            with loading(setting.runtime):
                found = self._made(setting, example())
        self._loaded[key] = found
        return found

    def _made(self, setting: Setting, example: Any) -> Predictor:
        """Where memory does not suffice, again without the others that are held."""
        if self._loaded:
            with suppress(OutOfMemory):
                return self._models.load(setting, example)
            self.keep_only(setting)
        return self._models.load(setting, example)

    def _drop(self, key: Key) -> None:
        self._loaded.pop(key).close()
        self._warm = {seen: left for seen, left in self._warm.items() if seen[0] != key}

"""The models that a worker holds: loaded when a setting first asks for them, compared where that is wanted, let go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.engine.workers.stopwatch import now
from shoal.model.tuning import Setting
from shoal.work.infer.base import Models, Predictor, Unusable

AS_GIVEN = "as-given"
NEW, RESIZED = 2, 1
"""Batches that are not measured after a model was loaded, and after the size of batches changed."""


class Holding:
    """Loaded models by runtime, all with the same number of threads."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._loaded: dict[str, Predictor] = {}
        self._threads = 0
        self._warm: dict[tuple[str, int], int] = {}
        """How many batches of a size a runtime still has to see before its times count."""
        self.load_s: dict[str, float] = {}
        """Seconds of loading since the last item."""
        self.unusable: dict[str, str] = {}
        """Runtimes that failed here, and why. They are not tried again."""

    def get(self, setting: Setting, example: Callable[[], Any]) -> tuple[str, Predictor]:
        """The model for this setting; where its runtime is of no use, as it was given. Conversions need an example."""
        if setting.threads != self._threads:
            self.close()
            self._threads = setting.threads
        if setting.runtime not in self.unusable:
            try:
                return setting.runtime, self._load(setting, example)
            except Unusable as error:
                if setting.runtime == AS_GIVEN:
                    raise
                self.unusable[setting.runtime] = str(error)
        return AS_GIVEN, self._load(setting._replace(runtime=AS_GIVEN), example)

    def refuse(self, runtime: str, why: str) -> None:
        """This one does not do: it is not used again."""
        self.unusable[runtime] = why
        self._drop(runtime)

    def keep_only(self, runtime: str) -> None:
        """Let go of all others; where this one is of no use, of all but the model as given."""
        runtime = AS_GIVEN if runtime in self.unusable else runtime
        for other in [name for name in self._loaded if name != runtime]:
            self._drop(other)

    def counts(self, runtime: str, batch: int) -> bool:
        """Whether the time of a batch of this size, which was just predicted, says how long others will take."""
        key = (runtime, batch)
        left = self._warm.get(key, NEW if not any(name == runtime for name, _ in self._warm) else RESIZED)
        self._warm[key] = max(0, left - 1)
        return left == 0

    def device_bytes(self) -> int:
        return max((predictor.device_bytes() for predictor in self._loaded.values()), default=0)

    def close(self) -> None:
        for runtime in list(self._loaded):
            self._drop(runtime)

    def _load(self, setting: Setting, example: Callable[[], Any]) -> Predictor:
        found = self._loaded.get(setting.runtime)
        if found is None:
            began = now()
            found = self._models.load(setting, example())
            self._loaded[setting.runtime] = found
            self.load_s[setting.runtime] = self.load_s.get(setting.runtime, 0.0) + now() - began
        return found

    def _drop(self, runtime: str) -> None:
        found: Any = self._loaded.pop(runtime, None)
        if found is not None:
            found.close()
        self._warm = {key: left for key, left in self._warm.items() if key[0] != runtime}

"""A model that is a Python class or function of the user's: made once, then called with batches. Checks no shapes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shoal.engine.workers.runner import Failed
from shoal.work import functions
from shoal.work.models import torch_runtime
from shoal.work.models.libraries import memory_told, too_large
from shoal.work.protocols import Tensor, Unusable

if TYPE_CHECKING:
    from shoal.model.advice import Setting


class FunctionModels:
    """See `Models`. There is one way to run it."""

    def __init__(self, reference: str, *, device: str, gpu: bool) -> None:
        self._reference = reference
        self._asked = device
        self._gpu = gpu

    def runtimes(self) -> tuple[str, ...]:
        return ("as-given",)

    def suitable(self) -> tuple[str, ...]:
        return self.runtimes()

    def missing(self) -> tuple[str, ...]:
        return ()

    def load(self, setting: Setting, example: Any = None) -> FunctionPredictor:
        if setting.runtime != "as-given":
            raise Unusable("a model that is a function can only be run as given")
        if self._asked == "cuda" and not self._gpu:
            raise Failed(
                "model.device is cuda, and this worker has no GPU: set resources: {gpu: 1} on a node that has one."
            )
        device = "cuda" if self._gpu and self._asked != "cpu" else "cpu"
        return FunctionPredictor(self._reference, device, setting.threads)


class FunctionPredictor:
    """See `Predictor`. What the user's code raises goes through, but for memory that did not suffice."""

    def __init__(self, reference: str, device: str, threads: int) -> None:
        self.device = device
        found = functions.load(reference)
        wishes: dict[str, Any] = {"device": device, "threads": threads}
        taken: set[str] = set()
        if inspect.isclass(found):
            taken = _taken(found, reference) & set(wishes)
            with memory_told(self.release, too_large(reference), self.check):
                made = found(**{name: wishes[name] for name in taken})
            if not callable(made):
                raise Failed(
                    f"{reference} has no __call__: it is called with batches. Add one that takes a batch."
                )
            self._call: Callable[[Any], Any] | None = made
        else:
            self._call = found
        # A class that is told how many threads to use sees to it by itself.
        self._threads = None if "threads" in taken else threads

    def inputs(self) -> tuple[Tensor, ...]:
        return ()

    def predict(self, batch: Any) -> Any:
        assert self._call is not None, "closed"
        torch = sys.modules.get("torch")
        if torch is not None and self._threads is not None and torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)
        with memory_told(self.release, check=self.check):
            return self._call(batch)

    def device_bytes(self) -> int:
        torch = sys.modules.get("torch")
        return 0 if torch is None else torch_runtime.held_bytes(torch)

    def release(self) -> None:
        torch = sys.modules.get("torch")
        if torch is not None:
            torch_runtime.give_back(torch)

    def check(self) -> None:
        torch = sys.modules.get("torch")
        if torch is not None:
            torch_runtime.check_cuda(torch)

    def close(self) -> None:
        self._call = None
        self.release()


def _taken(made: type, reference: str) -> set[str]:
    """The arguments that its __init__ knows by name. Those without a default have to be ours."""
    try:
        parameters = inspect.signature(made).parameters.values()
    except ValueError:  # Classes of C have none.
        return set()
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    others = [one.name for one in named if one.default is one.empty and one.name not in ("device", "threads")]
    if others:
        raise Failed(
            f"{reference} cannot be made: its __init__ wants {', '.join(others)}, and is called without arguments"
            " (but device and threads, if it has them). Give them defaults."
        )
    return {one.name for one in named}

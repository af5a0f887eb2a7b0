"""Models that are classes or functions of the user's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.engine.workers.runner import Failed
from shoal.model.advice import Setting
from shoal.spec.shared_sections import ModelFile
from shoal.work.models import models
from shoal.work.protocols import OutOfMemory, Unusable

CODE = """
class Plain:
    def __init__(self):
        self.factor = 2
    def __call__(self, batch):
        return batch * self.factor

class Told:
    def __init__(self, *, device, threads=7):
        self.told = (device, threads)
    def __call__(self, batch):
        return self.told

class Open:
    def __init__(self, **options):
        self.options = options
    def __call__(self, batch):
        return self.options

class Wanting:
    def __init__(self, weights):
        pass
    def __call__(self, batch):
        return batch

class Mute:
    pass

class Bare:
    def __call__(self, batch):
        return batch

def double(batch):
    return batch * 2

def forgetful(batch):
    raise MemoryError

def on_a_gpu(batch):
    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")

def wrong(batch):
    raise ValueError("out of memory, I say, but it is not so")
"""
Load = Callable[..., Any]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Load:
    module = f"mine_{abs(hash(request.node.name))}"
    (tmp_path / f"{module}.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))

    def load(
        name: str, threads: int = 1, *, gpu: bool = False, runtime: str = "as-given", **options: Any
    ) -> Any:
        model = ModelFile(function=f"{module}:{name}", **options)
        return models(model, str(tmp_path), str(tmp_path), gpu=gpu).load(Setting(runtime, 8, threads))

    return load


@pytest.mark.parametrize("name", ["Plain", "double"])
def test_a_class_and_a_function_are_called_with_a_batch(load: Load, name: str) -> None:
    predictor = load(name)
    assert predictor.predict(np.array([1, 2])).tolist() == [2, 4]
    assert predictor.inputs() == ()
    assert predictor.device_bytes() == 0
    predictor.close()
    predictor.close()


def test_a_class_is_told_device_and_threads_if_it_asks(load: Load) -> None:
    assert load("Told", threads=3).predict(None) == ("cpu", 3)
    assert load("Told", gpu=True).predict(None) == ("cuda", 1)
    assert load("Told", gpu=True, device="cpu").predict(None) == ("cpu", 1)
    assert load("Open").predict(None) == {}


def test_a_class_without_an_init_of_its_own_is_made(load: Load) -> None:
    assert load("Bare").predict(3) == 3


def test_a_class_that_wants_other_arguments_says_which(load: Load) -> None:
    with pytest.raises(Failed, match="its __init__ wants weights"):
        load("Wanting")


def test_a_class_without_call_is_refused(load: Load) -> None:
    with pytest.raises(Failed, match="has no __call__"):
        load("Mute")


@pytest.mark.parametrize("name", ["forgetful", "on_a_gpu"])
def test_memory_that_does_not_suffice_is_told_as_such(load: Load, name: str) -> None:
    with pytest.raises(OutOfMemory):
        load(name).predict(None)


def test_what_the_code_raises_goes_through(load: Load) -> None:
    with pytest.raises(ValueError, match="I say"):
        load("wrong").predict(None)


def test_there_is_one_way_and_no_gpu_where_there_is_none(load: Load) -> None:
    with pytest.raises(Unusable):
        load("double", runtime="openvino")
    with pytest.raises(Failed, match="no GPU"):
        load("double", device="cuda")

"""TorchScript files, in every way that is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.engine.workers.runner import Failed
from shoal.model.advice import Setting
from shoal.spec.shared_sections import ModelFile
from shoal.work.models import difference, models
from shoal.work.protocols import OutOfMemory, Tensor, Unusable

# Making such files is deprecated, using them is what this is about; that Shoal is quiet is tested in processes.
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")]
torch = pytest.importorskip("torch")
RUNTIMES = ["as-given", "frozen", "onnxruntime", "openvino"]
Save = Callable[..., Path]


def batch(rows: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).random((rows, *shape), dtype=np.float32)


IMAGES = batch(5, 3, 16, 16)


class Network(torch.nn.Module):  # type: ignore[misc]
    """A small classifier with what large ones have: convolutions, norms, a residual, dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.second = torch.nn.Conv2d(8, 8, 3, padding=1)
        self.dropout = torch.nn.Dropout(0.5)
        self.last = torch.nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = x + torch.relu(self.second(x))
        return self.last(self.dropout(x.mean(dim=[2, 3])))


class Flat(torch.nn.Module):  # type: ignore[misc]
    """Wants 16 x 16 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.nn.Linear(768, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(x.flatten(1))


class Packed(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"sum": x.sum(dim=1), "double": x * 2}


class Two(torch.nn.Module):  # type: ignore[misc]
    def forward(self, image: torch.Tensor, mask: torch.Tensor, flag: bool = False) -> torch.Tensor:
        return image * mask


class Optional(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        return x * scale


class Huge(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros([x.size(0), 1 << 44])


class Pooled(torch.nn.Module):  # type: ignore[misc]
    """Can be fused for sizes that can be divided by 7 only, and becomes ONNX for none with open sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 4, 1)
        self.pool = torch.nn.AdaptiveAvgPool2d((7, 7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(self.first(x)).flatten(1)


class One(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(1, 4)


class Viewed(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.size(0), -1)


class Tokens(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.embedding(x).sum(dim=1)


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def save(module: Any, *, trace: Any = None, name: str = "model.pt") -> Path:
        made = torch.jit.script(module) if trace is None else torch.jit.trace(module, trace)
        path = tmp_path / name
        torch.jit.save(made, str(path))
        return path

    return save


@pytest.fixture
def network(save: Save) -> Path:
    torch.manual_seed(0)
    return save(Network())


def load(
    path: Path, runtime: str = "as-given", *, example: Any = None, threads: int = 1, **options: Any
) -> Any:
    model = ModelFile(torchscript=path.name, **options)
    ways = models(model, str(path.parent), str(path.parent / "cache"), gpu=False)
    if runtime not in ways.runtimes():
        pytest.skip(f"{runtime} is not installed")
    return ways.load(Setting(runtime, 8, threads), example)


def expected(path: Path) -> Any:
    module = torch.jit.load(str(path)).eval()
    with torch.no_grad():
        return module(torch.from_numpy(IMAGES)).numpy()


@pytest.mark.always
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_every_way_agrees_at_every_batch_size(network: Path, runtime: str) -> None:
    predictor = load(network, runtime, example=IMAGES)
    reference = expected(network)
    for rows in (5, 1, 3, 5, 2, 1):
        found = predictor.predict(IMAGES[:rows])
        assert difference(reference[:rows], found)[1] is None
        assert found.flags.owndata
        assert found.dtype == np.float32


@pytest.mark.always
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_traced_model_does_the_same(save: Save, runtime: str) -> None:
    torch.manual_seed(0)
    path = save(Network().eval(), trace=torch.rand(1, 3, 16, 16))
    predictor = load(path, runtime, example=IMAGES[:1])
    assert difference(expected(path), predictor.predict(IMAGES))[1] is None


def test_a_module_saved_in_training_is_run_for_inference(network: Path) -> None:
    predictor = load(network)
    np.testing.assert_array_equal(predictor.predict(IMAGES), predictor.predict(IMAGES))
    np.testing.assert_allclose(predictor.predict(IMAGES)[:2], predictor.predict(IMAGES[:2]), rtol=1e-4)


@pytest.mark.parametrize("runtime", ["as-given", "frozen"])
def test_a_module_that_was_frozen_before_is_taken(tmp_path: Path, runtime: str) -> None:
    path = tmp_path / "frozen.pt"
    torch.jit.save(torch.jit.freeze(torch.jit.script(Network().eval())), str(path))
    assert load(path, runtime).predict(IMAGES).shape == (5, 2)


def test_a_module_that_was_frozen_in_half_precision_gets_what_it_takes(tmp_path: Path) -> None:
    made = torch.jit.freeze(torch.jit.script(Network().half().eval()))
    torch.jit.save(made, str(tmp_path / "model.pt"))
    found = load(tmp_path / "model.pt", precision="float16").predict(IMAGES)
    assert (found.shape, found.dtype) == ((5, 2), np.float32)


def test_what_cannot_be_fused_is_frozen_alone(save: Save) -> None:
    path = save(Pooled())
    assert difference(expected(path), load(path, "frozen", example=IMAGES).predict(IMAGES))[1] is None


def test_what_becomes_onnx_for_one_size_alone_does(save: Save, capfd: pytest.CaptureFixture[str]) -> None:
    predictor = load(save(Pooled()), "onnxruntime", example=batch(1, 3, 14, 14))
    assert predictor.inputs()[0].shape == (None, 3, 14, 14)
    assert predictor.predict(batch(3, 3, 14, 14)).shape == (3, 196)
    with pytest.raises(Unusable, match="takes 3x14x14"):
        predictor.predict(batch(3, 3, 21, 21))
    assert capfd.readouterr() == ("", "")


def test_what_does_not_become_onnx_says_why(save: Save) -> None:
    with pytest.raises(
        Unusable, match=r"torch cannot convert it to ONNX: Unsupported: .*adaptive_avg_pool2d"
    ):
        load(save(Pooled()), "onnxruntime", example=IMAGES)


def test_inputs_have_names_and_the_kind_of_the_weights(network: Path, save: Save) -> None:
    assert load(network).inputs() == (Tensor("x", None, "float32"),)
    assert load(save(Optional())).inputs() == (Tensor("x", None, "float32"),)
    assert load(save(Flat().double())).inputs() == (Tensor("x", None, "float64"),)


def test_floats_are_cast_and_whole_numbers_are_not(save: Save) -> None:
    assert load(save(Flat().double())).predict(IMAGES).dtype == np.float64
    assert load(save(Tokens())).predict(np.array([[1, 2], [3, 4]])).shape == (2, 4)
    with pytest.raises(Failed, match=r"failed on 2 rows of 2 \(float32\): Expected tensor for argument"):
        load(save(Tokens())).predict(batch(2, 2))


@pytest.mark.parametrize("runtime", ["as-given", "frozen"])
def test_a_dict_of_outputs_is_a_tuple_in_order(save: Save, runtime: str) -> None:
    found = load(save(Packed()), runtime).predict(batch(3, 4))
    assert isinstance(found, tuple)
    assert [part.shape for part in found] == [(3,), (3, 4)]


@pytest.mark.always
@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
@pytest.mark.parametrize("runtime", ["as-given", "frozen", "openvino"])
def test_half_precision_gives_wide_numbers_that_agree(network: Path, runtime: str, precision: str) -> None:
    found = load(network, runtime, example=IMAGES, precision=precision).predict(IMAGES)
    assert found.dtype == np.float32
    assert difference(expected(network), found, precision)[1] is None


def test_openvino_computes_in_full_precision_unless_asked(network: Path) -> None:
    found = load(network, "openvino", example=IMAGES).predict(IMAGES)
    assert difference(expected(network), found)[0] < 1e-5


def test_another_number_of_channels_says_what_to_set(network: Path) -> None:
    with pytest.raises(
        Failed, match=r"expected input\[2, 1, 16, 16\] to have 3 channels.*image.mode: RGB\.$"
    ):
        load(network).predict(batch(2, 1, 16, 16))


def test_another_size_says_what_to_set(save: Save) -> None:
    with pytest.raises(Failed, match=r"2 rows of 3x8x8 .*Set preprocess.image.size to the size"):
        load(save(Flat())).predict(batch(2, 3, 8, 8))


@pytest.mark.parametrize("runtime", ["frozen", "onnxruntime", "openvino"])
def test_what_a_converted_model_cannot_take_is_no_verdict_on_the_model(save: Save, runtime: str) -> None:
    predictor = load(save(Flat()), runtime, example=IMAGES)
    with pytest.raises(Unusable):
        predictor.predict(batch(2, 3, 8, 8))


def test_a_model_for_one_row_says_that_the_batch_may_be_the_reason(save: Save) -> None:
    predictor = load(save(One()))
    assert predictor.predict(batch(1, 4)).shape == (1, 4)
    with pytest.raises(Failed, match=r"tune: \{batch: N\}"):
        predictor.predict(batch(2, 4))


def test_several_inputs_are_refused_by_name(save: Save) -> None:
    with pytest.raises(Failed, match=r"takes 2 inputs \(image, mask\)"):
        load(save(Two())).predict(batch(2, 4))


def test_memory_that_does_not_suffice_is_told_as_such(save: Save) -> None:
    predictor = load(save(Huge()))
    with pytest.raises(OutOfMemory, match="can't allocate memory"):
        predictor.predict(batch(3, 4))


def test_a_pickled_module_is_refused_without_being_loaded(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.save(Network(), str(path))
    with pytest.raises(Failed, match=r"torch\.save writes, which would run code.*torch\.jit\.save"):
        load(path)


def test_threads_are_those_of_the_setting_whoever_was_loaded_last(network: Path) -> None:
    one, two = load(network, threads=1), load(network, threads=2)
    one.predict(IMAGES)
    assert torch.get_num_threads() == 1
    two.predict(IMAGES)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_a_conversion_is_kept_and_made_again_when_damaged(network: Path, runtime: str) -> None:
    reference = load(network, runtime, example=IMAGES).predict(IMAGES)
    cache = network.parent / "cache"
    (kept,) = (path for path in cache.iterdir() if path.is_dir())
    before = kept.stat().st_ino
    load(network, runtime, example=IMAGES[:2])
    assert kept.stat().st_ino == before
    for file in kept.iterdir():
        os.truncate(file, 10)
    np.testing.assert_array_equal(load(network, runtime, example=IMAGES).predict(IMAGES), reference)


def test_a_kept_conversion_needs_no_torch(network: Path) -> None:
    load(network, "onnxruntime", example=IMAGES)
    script = """
import sys
import numpy as np
from shoal.model.advice import Setting
from shoal.spec.infer import ModelFile
from shoal.work.models import models
ways = models(ModelFile(torchscript="model.pt"), sys.argv[1], sys.argv[1] + "/cache", gpu=False)
example = np.zeros((1, 3, 16, 16), np.float32)
print(ways.load(Setting("onnxruntime", 1, 1), example).predict(example).shape, "torch" in sys.modules)
"""
    command = [sys.executable, "-W", "error", "-c", script, str(network.parent)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (found.stdout.strip(), found.stderr) == ("(1, 2) False", "")


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_a_conversion_needs_an_example_and_says_so(network: Path, runtime: str) -> None:
    with pytest.raises(Unusable, match="takes an example of a batch"):
        load(network, runtime)


def test_openvino_tells_nobody_and_loads_quietly(network: Path) -> None:
    script = """
import sys
import numpy as np
from shoal.model.advice import Setting
from shoal.spec.infer import ModelFile
from shoal.work.models import models
ways = models(ModelFile(torchscript="model.pt"), sys.argv[1], sys.argv[1] + "/cache", gpu=False)
for runtime in ways.runtimes():
    example = np.zeros((1, 3, 16, 16), np.float32)
    ways.load(Setting(runtime, 1, 1), example).predict(example)
print([name for name in sys.modules if name.startswith("openvino_telemetry") and sys.modules[name]])
"""
    command = [sys.executable, "-W", "error", "-c", script, str(network.parent)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (found.stdout.strip(), found.stderr) == ("[]", "")


def test_a_gpu_that_torch_cannot_use_says_how_to_do_without(
    network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that sees a GPU and has no driver."""

    if torch.cuda.is_available():
        pytest.skip("here it can")
    from shoal.work.models import libraries

    monkeypatch.setitem(libraries._CUDA_LIBRARIES, "torch", (("__init__.py",),))
    ways = models(ModelFile(torchscript=network.name), str(network.parent), "", gpu=True)
    with pytest.raises(Failed, match=r"CUDA.*set model.device: cpu"):
        ways.load(Setting("as-given", 8, 1))


def test_a_gpu_that_others_have_filled_is_named_where_the_model_does_not_fit(
    network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(torch.jit, "load", full)
    with pytest.raises(OutOfMemory, match=r"GPU has no room.*CUDA out of memory.*nvidia-smi"):
        load(network)


def test_a_traced_model_that_names_its_device_says_what_to_do(network: Path) -> None:
    said = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    assert "model.device: cpu" in load(network).advice(said, IMAGES)


def test_a_model_that_takes_no_other_layout_gets_a_copy(save: Save) -> None:
    """As pictures come to a GPU: their channels last in memory."""
    from shoal.work.models.torch_runtime import TorchPredictor, declared

    module = torch.jit.load(str(save(Viewed())))
    found = TorchPredictor(module, declared(module), runtime="as-given", device="cpu", threads=1)
    pictures = torch.rand(2, 8, 8, 3).permute(0, 3, 1, 2)
    for _ in range(2):
        assert torch.equal(found._called(pictures), pictures.reshape(2, -1))


def test_memory_that_does_not_suffice_for_freezing_says_nothing_about_the_runtime(
    save: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shoal.work.models import torch_runtime

    def full(*_: Any, **__: Any) -> None:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(torch_runtime, "freeze", full)
    made = models(ModelFile(torchscript=str(save(Network()))), ".", str(tmp_path), gpu=False)
    with pytest.raises(OutOfMemory, match="CUDA out of memory"):
        made.load(Setting("frozen", 4, 1), IMAGES)

"""ONNX files in ONNX Runtime: what they give, and what is said when they do not fit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from shoal.engine.workers.runner import Failed
from shoal.model.advice import Setting
from shoal.spec.shared_sections import ModelFile
from shoal.work.models import models
from shoal.work.protocols import OutOfMemory, Tensor, Unusable

Save = Callable[..., Path]


def load(path: Path, setting: Setting, **options: Any) -> Any:
    model = ModelFile(onnx=path.name, **options)
    return models(model, str(path.parent), str(path.parent / "cache"), gpu=False).load(setting)


def batch(rows: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).random((rows, *shape), dtype=np.float32)


def test_a_file_gives_what_its_nodes_compute(save_linear: Save, as_given: Setting) -> None:
    predictor = load(save_linear(), as_given)
    given = batch(5, 3, 8, 8)
    found = predictor.predict(given)
    np.testing.assert_allclose(found, 2 * given.mean(axis=(2, 3)), rtol=1e-5)
    assert found.flags.owndata
    assert predictor.device == "cpu"
    assert predictor.device_bytes() == 0


def test_the_declared_inputs_are_told(save_linear: Save, as_given: Setting) -> None:
    assert load(save_linear(), as_given).inputs() == (Tensor("x", (None, 3, 8, 8), "float32"),)


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_a_batch_is_cut_up_for_a_model_that_takes_two_rows(
    save_linear: Save, as_given: Setting, rows: int
) -> None:
    predictor = load(save_linear((2, 3, 8, 8)), as_given)
    given = batch(rows, 3, 8, 8)
    np.testing.assert_allclose(predictor.predict(given), 2 * given.mean(axis=(2, 3)), rtol=1e-5)


def test_a_fixed_batch_without_a_row_for_each_is_refused(save_onnx: Save, as_given: Setting) -> None:
    node = helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)
    path = save_onnx([node], [("x", "FLOAT", [1, 4])], [("y", "FLOAT", [])])
    with pytest.raises(Failed, match=r"exactly 1 inputs at a time.*function"):
        load(path, as_given).predict(batch(2, 4))


def test_several_outputs_come_in_order_with_their_names(save_onnx: Save, as_given: Setting) -> None:
    nodes = [helper.make_node("Neg", ["x"], ["boxes"]), helper.make_node("Abs", ["x"], ["sizes"])]
    outputs = [("boxes", "FLOAT", ["n", 4]), ("sizes", "FLOAT", ["n", 4])]
    found = load(save_onnx(nodes, [("x", "FLOAT", ["n", 4])], outputs), as_given).predict(batch(3, 4) - 0.5)
    assert isinstance(found, tuple)
    assert found.names == ("boxes", "sizes")
    np.testing.assert_array_equal(np.abs(found[0]), found[1])


@pytest.mark.parametrize(
    ("kind", "given"), [("FLOAT16", "float32"), ("DOUBLE", "float32"), ("FLOAT", "float64")]
)
def test_floats_are_cast_to_what_the_model_takes(
    save_linear: Save, as_given: Setting, kind: str, given: str
) -> None:
    found = load(save_linear(kind=kind), as_given).predict(batch(2, 3, 8, 8).astype(given))
    assert found.dtype == (np.float64 if kind == "DOUBLE" else np.float32)
    np.testing.assert_allclose(found, 2 * batch(2, 3, 8, 8).mean(axis=(2, 3)), rtol=1e-2)


def test_integers_are_cast_when_they_fit_and_refused_when_not(save_onnx: Save, as_given: Setting) -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    predictor = load(save_onnx([node], [("x", "INT32", ["n", 2])], [("y", "INT32", ["n", 2])]), as_given)
    assert predictor.predict(np.array([[1, 2]])).tolist() == [[1, 2]]
    with pytest.raises(Failed, match="from 1 to 1099511627776, which int32 cannot hold"):
        predictor.predict(np.array([[1, 1 << 40]]))


def test_a_batch_of_another_size_says_what_to_set(save_linear: Save, as_given: Setting) -> None:
    sentence = "takes 3x8x8, preprocessing gives 3x16x16: set preprocess.image.size: 8."
    with pytest.raises(Failed, match=sentence):
        load(save_linear(), as_given).predict(batch(2, 3, 16, 16))


def test_a_model_with_two_inputs_names_them(save_onnx: Save, as_given: Setting) -> None:
    node = helper.make_node("Add", ["image", "mask"], ["y"])
    inputs = [("image", "FLOAT", ["n", 2]), ("mask", "FLOAT", ["n", 2])]
    predictor = load(save_onnx([node], inputs, [("y", "FLOAT", ["n", 2])]), as_given)
    with pytest.raises(Failed, match=r"takes 2 inputs \(image, mask\)"):
        predictor.predict(batch(1, 2))


def test_a_model_that_fails_inside_says_so_in_one_sentence(save_onnx: Save, as_given: Setting) -> None:
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    weights = {"shape": np.array([2, 7], dtype=np.int64)}
    path = save_onnx([node], [("x", "FLOAT", ["n", 4])], [("y", "FLOAT", None)], weights)
    with pytest.raises(
        Failed, match=r"^The model failed on 3 rows of 4 \(float32\): .*tune: \{batch: N\}\.$"
    ):
        load(path, as_given).predict(batch(3, 4))


def test_memory_that_does_not_suffice_is_told_as_such(save_onnx: Save, as_given: Setting) -> None:
    node = helper.make_node("Expand", ["x", "shape"], ["y"])
    weights = {"shape": np.array([1, 1 << 44], dtype=np.int64)}
    path = save_onnx([node], [("x", "FLOAT", ["n", 1])], [("y", "FLOAT", None)], weights)
    predictor = load(path, as_given)
    with pytest.raises(OutOfMemory):
        predictor.predict(batch(3, 1))


def test_a_file_with_external_data_needs_the_file_beside_it(save_onnx: Save, as_given: Setting) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    options = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
    weights = {"w": np.ones((64, 64), dtype=np.float32)}
    path = save_onnx([node], [("x", "FLOAT", ["n", 64])], [("y", "FLOAT", ["n", 64])], weights, **options)
    assert load(path, as_given).predict(batch(2, 64)).shape == (2, 64)
    (path.parent / "weights.bin").unlink()
    with pytest.raises(Failed, match=r"keeps its weights in a file beside it.*weights\.bin.*same folder"):
        load(path, as_given)


def test_a_damaged_file_is_refused_in_one_line(save_linear: Save, as_given: Setting) -> None:
    path = save_linear()
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(Failed, match="cannot be loaded by ONNX Runtime") as caught:
        load(path, as_given)
    assert "\n" not in str(caught.value)


def test_half_precision_has_to_be_in_the_file(save_linear: Save, as_given: Setting) -> None:
    assert load(save_linear(kind="FLOAT16"), as_given, precision="float16").predict(batch(1, 3, 8, 8)).any()
    with pytest.raises(Failed, match="Export it in float16"):
        load(save_linear(), as_given, precision="float16")


def test_a_gpu_that_is_not_there_cannot_be_asked_for(save_linear: Save, as_given: Setting) -> None:
    with pytest.raises(Failed, match=r"this worker has no GPU: set resources: \{gpu: 1\}"):
        load(save_linear(), as_given, device="cuda")


@pytest.mark.filterwarnings("ignore:Specified provider 'CUDAExecutionProvider':UserWarning")
def test_a_gpu_that_onnx_runtime_does_without_is_not_said_to_be_used(
    save_linear: Save, as_given: Setting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where cuDNN is missing: it seems to be a build for GPUs, and takes processors without a word."""

    from shoal.work.models import libraries

    monkeypatch.setitem(libraries._CUDA_LIBRARIES, "onnxruntime", (("capi", "__init__.py"),))
    path = save_linear()

    def loaded(device: str) -> Any:
        return models(ModelFile(onnx=path.name, device=device), str(path.parent), "", gpu=True).load(as_given)

    assert loaded("auto").device == "cpu"
    assert "Processors are used instead" in caplog.text
    with pytest.raises(Failed, match=r"cannot use it.*onnxruntime-gpu\[cuda,cudnn\]"):
        loaded("cuda")


def test_a_gpu_that_is_full_does_not_send_onnx_runtime_to_processors(
    save_linear: Save, as_given: Setting
) -> None:
    """It would try again without the GPU, and stay there."""
    assert not load(save_linear(), as_given)._session._enable_fallback


def test_pixels_that_were_meant_for_a_gpu_are_computed(save_linear: Save, as_given: Setting) -> None:
    from shoal.work.images.preparation import Pixels

    values = np.full((2, 8, 8, 3), 51, np.uint8)
    whole = np.full((2, 3, 8, 8), 0.2, np.float32)
    pixels = Pixels(values, np.float32(255), [np.float32(0)] * 3, [np.float32(1)] * 3, lambda: whole)
    np.testing.assert_allclose(load(save_linear(), as_given).predict(pixels), np.full((2, 3), 0.4), rtol=1e-5)


def test_threads_are_those_of_the_setting(save_linear: Save) -> None:
    options = load(save_linear(), Setting("as-given", 8, 2))._session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (2, 1)


def test_a_way_for_torchscript_alone_is_unusable(save_linear: Save) -> None:
    with pytest.raises(Unusable, match="frozen"):
        load(save_linear(), Setting("frozen", 8, 1))


def test_closing_twice_does_no_harm(save_linear: Save, as_given: Setting) -> None:
    predictor = load(save_linear(), as_given)
    predictor.close()
    predictor.close()


def test_runtimes_are_found_without_importing_them() -> None:
    script = """
import sys
from shoal.spec.infer import ModelFile
from shoal.work.models import models
assert models(ModelFile(onnx="m.onnx"), ".", ".", gpu=False).runtimes()[0] == "as-given"
assert models(ModelFile(torchscript="m.pt"), ".", ".", gpu=False).runtimes()[:2] == ("as-given", "frozen")
print(sorted({"numpy", "torch", "onnxruntime", "openvino"} & set(sys.modules)))
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"

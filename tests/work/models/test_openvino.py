"""ONNX files in OpenVINO: the same as in ONNX Runtime, or unusable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from shoal.model.advice import Setting
from shoal.spec.shared_sections import ModelFile
from shoal.work.models import difference, models
from shoal.work.protocols import Unusable

pytestmark = pytest.mark.torch  # OpenVINO comes with the same extras.
pytest.importorskip("openvino")
Save = Callable[..., Path]


def both(path: Path, example: Any) -> tuple[Any, Any]:
    ways = models(ModelFile(onnx=path.name), str(path.parent), str(path.parent / "cache"), gpu=False)
    assert ways.runtimes() == ("as-given", "openvino")
    first, second = (ways.load(Setting(runtime, 8, 1), example) for runtime in ways.runtimes())
    return first, second


def batch(rows: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).random((rows, *shape), dtype=np.float32)


@pytest.mark.always
@pytest.mark.parametrize("rows", ["n", 2], ids=["any number of rows", "two rows"])
def test_it_gives_the_same_as_onnx_runtime(save_linear: Save, rows: int | str) -> None:
    first, second = both(save_linear((rows, 3, 8, 8)), batch(5, 3, 8, 8))
    for count in (5, 2, 1, 4):
        found = second.predict(batch(count, 3, 8, 8))
        assert difference(first.predict(batch(count, 3, 8, 8)), found)[1] is None
        assert found.flags.owndata
    assert second.device == "cpu"


def test_outputs_have_the_same_names_and_order(save_onnx: Save) -> None:
    nodes = [helper.make_node("Neg", ["x"], ["boxes"]), helper.make_node("Cast", ["x"], ["numbers"], to=7)]
    outputs = [("boxes", "FLOAT", ["n", 4]), ("numbers", "INT64", ["n", 4])]
    first, second = both(save_onnx(nodes, [("x", "FLOAT", ["n", 4])], outputs), batch(1, 4))
    given = batch(3, 4) * 9
    assert first.predict(given).names == second.predict(given).names == ("boxes", "numbers")
    assert difference(first.predict(given), second.predict(given))[1] is None


def test_sizes_other_than_those_of_the_example_are_unusable(save_linear: Save) -> None:
    _, second = both(save_linear(("n", 3, "h", "w")), batch(1, 3, 8, 8))
    assert second.inputs()[0].shape == (None, 3, 8, 8)
    with pytest.raises(Unusable, match="takes 3x8x8, preprocessing gives 3x16x16"):
        second.predict(batch(2, 3, 16, 16))


def test_a_file_that_it_cannot_load_is_unusable(save_linear: Save) -> None:
    path = save_linear()
    path.write_bytes(path.read_bytes()[:-20])
    ways = models(ModelFile(onnx=path.name), str(path.parent), str(path.parent), gpu=False)
    with pytest.raises(Unusable, match="OpenVINO cannot load it"):
        ways.load(Setting("openvino", 8, 1))

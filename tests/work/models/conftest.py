"""Small ONNX files, made by hand: no torch is needed for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.model.advice import Setting


@pytest.fixture
def save_onnx(tmp_path: Path) -> Callable[..., Path]:
    """Writes a file of these nodes; inputs and outputs are (name, type, shape)."""
    import onnx

    def save(
        nodes: Sequence[Any],
        inputs: Sequence[tuple[str, str, Sequence[Any]]],
        outputs: Sequence[tuple[str, str, Sequence[Any] | None]],
        weights: dict[str, Any] | None = None,
        name: str = "model.onnx",
        **options: Any,
    ) -> Path:
        def declared(each: tuple[str, str, Sequence[Any] | None]) -> Any:
            return onnx.helper.make_tensor_value_info(each[0], getattr(onnx.TensorProto, each[1]), each[2])

        graph = onnx.helper.make_graph(
            list(nodes),
            "test",
            [declared(each) for each in inputs],
            [declared(each) for each in outputs],
            [onnx.numpy_helper.from_array(np.asarray(value), key) for key, value in (weights or {}).items()],
        )
        opset = [onnx.helper.make_opsetid("", 17)]
        model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)
        path = tmp_path / name
        onnx.save(model, str(path), **options)
        return path

    return save


@pytest.fixture
def save_linear(save_onnx: Callable[..., Path]) -> Callable[..., Path]:
    """y = mean over pixels of x, times 2: shape (rows, channels)."""
    from onnx import helper

    def save(shape: Sequence[Any] = ("rows", 3, 8, 8), kind: str = "FLOAT", **options: Any) -> Path:
        nodes = [
            helper.make_node("ReduceMean", ["x"], ["m"], axes=[2, 3], keepdims=0),
            helper.make_node("Add", ["m", "m"], ["y"]),
        ]
        return save_onnx(nodes, [("x", kind, shape)], [("y", kind, [shape[0], shape[1]])], **options)

    return save


@pytest.fixture
def as_given() -> Setting:
    return Setting("as-given", 8, 1)

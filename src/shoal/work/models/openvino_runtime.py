"""OpenVINO on a CPU: converting TorchScript, loading, running. It is kept from telling its makers about its use."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from shoal.work.models.batch_fit import ArrayPredictor, cast
from shoal.work.protocols import Tensor

if TYPE_CHECKING:
    from shoal.work.protocols import Array

MODEL = "model.xml"
_PRECISIONS = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


def openvino() -> Any:
    """The library. Importing it sends a message to its makers, unless the package that does so cannot be found."""
    if "openvino" not in sys.modules:
        sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import openvino as library

    return library


def convert(module: Any, example: Any, folder: str) -> None:
    """Write a TorchScript module as OpenVINO's own files. Weights keep their width."""
    library = openvino()
    model = library.convert_model(module, example_input=example)
    library.save_model(model, os.path.join(folder, MODEL), compress_to_fp16=False)


class OpenVinoPredictor(ArrayPredictor):
    """See `Predictor`. `path` is an ONNX file or one of OpenVINO's own; an example fixes all sizes but the rows."""

    def __init__(self, path: str, *, threads: int, precision: str, example: Array | None) -> None:
        core = openvino().Core()
        model = core.read_model(path)
        if example is not None and len(model.inputs) == 1:
            # With sizes left open, it computes on what does not fit, and gives nonsense instead of an error.
            model.reshape([_rows(model), *example.shape[1:]])
        compiled = core.compile_model(model, "CPU", _properties(threads, precision))
        self._request: Any = compiled.create_infer_request()
        names = [_name(output, f"output_{number}") for number, output in enumerate(compiled.outputs)]
        super().__init__("openvino", [_tensor(found) for found in compiled.inputs], names)

    def run(self, batch: Array) -> tuple[Array, ...]:
        import numpy as np

        (tensor,) = self._tensors
        found = self._request.infer([cast(batch, tensor.dtype)], share_inputs=True)
        outputs = tuple(np.asarray(output) for output in found.to_tuple())
        wide = (output.astype(np.float32) if output.dtype == np.float16 else output for output in outputs)
        return tuple(output if output.flags.owndata else output.copy() for output in wide)

    def close(self) -> None:
        self._request = None


def _rows(model: Any) -> int:
    """How many rows it takes at a time; -1 for any number."""
    shape = model.input().get_partial_shape()
    return int(shape[0].get_length()) if shape.rank.is_static and shape[0].is_static else -1


def _properties(threads: int, precision: str) -> dict[str, Any]:
    return {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": threads,
        # Left to itself it computes in bfloat16 where the processor can.
        "INFERENCE_PRECISION_HINT": _PRECISIONS[precision],
        # Each worker would pin its threads to the same cores.
        "ENABLE_CPU_PINNING": False,
    }


def _tensor(found: Any) -> Tensor:
    shape = found.get_partial_shape()
    sizes = None
    if shape.rank.is_static:
        sizes = tuple(size.get_length() if size.is_static else None for size in shape)
    return Tensor(_name(found, "input"), sizes, str(found.get_element_type().to_dtype()))


def _name(found: Any, otherwise: str) -> str:
    return str(found.get_any_name()) if found.get_names() else otherwise

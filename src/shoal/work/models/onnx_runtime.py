"""ONNX Runtime: a file, loaded and run on a CPU or a GPU. Libraries of custom operators are never loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.work.models.arrays import ArrayPredictor
from shoal.work.models.batch_fit import cast
from shoal.work.protocols import Tensor

if TYPE_CHECKING:
    from shoal.work.protocols import Array

_SILENT = 4
"""Only what ends the process is logged: errors are raised as well."""
_CUDA = "CUDAExecutionProvider"
_NUMPY_NAMES = {"float": "float32", "double": "float64", "string": "str"}


class OnnxRuntimePredictor(ArrayPredictor):
    """See `Predictor`. Raises what ONNX Runtime raises when the file cannot be loaded."""

    def __init__(self, path: str, *, runtime: str, device: str, threads: int) -> None:
        self._session: Any = _session(path, device, threads)
        # Where a library that CUDA needs is not found, it goes on without a GPU, and without a word.
        self.device = "cuda" if _CUDA in self._session.get_providers() else "cpu"
        tensors = [_tensor(found) for found in self._session.get_inputs()]
        super().__init__(runtime, tensors, [found.name for found in self._session.get_outputs()])

    def run(self, batch: Array) -> tuple[Array, ...]:
        import numpy as np

        (tensor,) = self._tensors
        found = self._session.run(None, {tensor.name: cast(batch, tensor.dtype)})
        for name, output in zip(self._names, found, strict=True):
            if not isinstance(output, np.ndarray):
                raise TypeError(
                    f"its output {name!r} is no array, but a list of {type(output[0]).__name__}"
                    " (of a classifier of scikit-learn? convert it with zipmap=False)"
                )
        return tuple(_own(output) for output in found)

    def close(self) -> None:
        self._session = None


def _session(path: str, device: str, threads: int) -> Any:
    import onnxruntime

    onnxruntime.set_default_logger_severity(_SILENT)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _SILENT
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Its threads wait by spinning. Between batches the cores are for those who read and decode.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if device == "cuda" and hasattr(onnxruntime, "preload_dlls"):
        onnxruntime.preload_dlls()  # Those that pip installs are in no folder where they would be looked for.
    providers = [_CUDA, "CPUExecutionProvider"] if device == "cuda" else ["CPUExecutionProvider"]
    # Otherwise it would take processors for good where a GPU has too little memory just now.
    return onnxruntime.InferenceSession(path, options, providers=providers, enable_fallback=0)


def _tensor(found: Any) -> Tensor:
    """What ONNX Runtime says of an input. Dimensions of any size have names, or none, or are not positive."""
    kind = found.type.removeprefix("tensor(").removesuffix(")")
    shape = tuple(size if isinstance(size, int) and size > 0 else None for size in found.shape or ())
    return Tensor(found.name, shape or None, _NUMPY_NAMES.get(kind, kind))


def _own(output: Array) -> Array:
    import numpy as np

    wide = output.astype(np.float32) if output.dtype == np.float16 else output
    return wide if wide.flags.owndata else wide.copy()

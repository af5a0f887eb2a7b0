"""An ONNX file and the ways to run it: ONNX Runtime, which is as given, and OpenVINO. Converts nothing."""

from __future__ import annotations

import logging
import os
import re
from typing import TYPE_CHECKING, Any

from shoal.engine.workers.runner import Failed
from shoal.work.models.batch_fit import ArrayPredictor, cast
from shoal.work.models.file_signatures import check_file
from shoal.work.models.libraries import (
    device_of,
    is_installed,
    is_out_of_memory,
    missing_for,
    need,
    need_for,
    one_line,
    others_told,
    too_large,
    unusable,
)
from shoal.work.protocols import OutOfMemory, Predictor, Tensor, Unusable

if TYPE_CHECKING:
    from shoal.model.advice import Setting
    from shoal.spec.shared_sections import ModelFile
    from shoal.work.protocols import Array


logger = logging.getLogger(__name__)
_EXTERNAL = re.compile(r"external", re.IGNORECASE)
_SILENT = 4
"""Only what ends the process is logged: errors are raised as well."""
_CUDA = "CUDAExecutionProvider"
_NUMPY_NAMES = {"float": "float32", "double": "float64", "string": "str"}


class OnnxModels:
    """See `Models`."""

    def __init__(self, model: ModelFile, folder: str, *, gpu: bool) -> None:
        self._path = os.path.join(folder, str(model.onnx))
        self._model = model
        self._gpu = gpu

    def runtimes(self) -> tuple[str, ...]:
        return self.suitable() if is_installed("openvino") else ("as-given",)

    def suitable(self) -> tuple[str, ...]:
        return ("as-given", "openvino") if self._on_cpu() else ("as-given",)

    def missing(self) -> tuple[str, ...]:
        return tuple(missing_for(["openvino"]).values()) if self._on_cpu() else ()

    def _on_cpu(self) -> bool:
        return self._model.device == "cpu" or not self._gpu

    def load(self, setting: Setting, example: Any = None) -> Predictor:
        check_file(self._path, "onnx")
        if setting.runtime in ("as-given", "onnxruntime"):
            return self._as_given(setting)
        if setting.runtime == "openvino":
            return self._openvino(setting, example)
        raise Unusable(f"{setting.runtime} is no way to run an ONNX file")

    def _as_given(self, setting: Setting) -> Predictor:
        need("onnxruntime", "onnx", "An ONNX file")
        device = device_of(self._model.device, "onnxruntime", gpu=self._gpu)

        with others_told(self._told):
            found = OnnxRuntimePredictor(
                self._path, runtime="as-given", device=device, threads=setting.threads
            )
        if found.device != device:
            self._without_gpu()
        self._check_inputs(found)
        return found

    def _without_gpu(self) -> None:
        told = (
            "ONNX Runtime found a GPU, and cannot use it: libraries of CUDA or cuDNN are missing, or too old."
        )
        if self._model.device == "cuda":
            raise Failed(f"{told} Install onnxruntime-gpu[cuda,cudnn], or set model.device: auto.")
        logger.warning("%s Processors are used instead.", told)

    def _check_inputs(self, found: Predictor) -> None:
        precision = self._model.precision
        kinds = {tensor.dtype for tensor in found.inputs()}
        if precision != "float32" and precision not in kinds:
            raise Failed(
                f"model.precision is {precision}, and ONNX Runtime computes a file as it was exported:"
                f" {self._path} takes {', '.join(sorted(kinds))}. Export it in {precision}, or leave precision out."
            )
        for tensor in found.inputs():
            if "(" in tensor.dtype:
                raise Failed(
                    f"The model's input {tensor.name!r} is a {tensor.dtype}, not an array:"
                    " use model: {function: ...}."
                )

    def _openvino(self, setting: Setting, example: Any) -> Predictor:
        need_for("openvino")
        from shoal.work.models.openvino_runtime import OpenVinoPredictor

        with others_told(lambda error: unusable(error, "OpenVINO cannot load it")):
            return OpenVinoPredictor(
                self._path, threads=setting.threads, precision=self._model.precision, example=example
            )

    def _told(self, error: Exception) -> Exception:
        if is_out_of_memory(error):
            return OutOfMemory(too_large(self._path, error))
        said = one_line(error)
        if _EXTERNAL.search(str(error)):
            return Failed(
                f"model.onnx: {self._path} keeps its weights in a file beside it, which cannot be read: {said}"
                " Put that file into the same folder."
            )
        return Failed(f"model.onnx: {self._path} cannot be loaded by ONNX Runtime: {said}")


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

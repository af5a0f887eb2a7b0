"""An ONNX file and the ways to run it: ONNX Runtime, which is as given, and OpenVINO. Converts nothing."""

from __future__ import annotations

import logging
import os
import re
from typing import TYPE_CHECKING, Any

from shoal.engine.workers.runner import Failed
from shoal.work.models.file_signatures import check_file
from shoal.work.models.installed import device_of, is_installed, missing_for, need, need_for
from shoal.work.models.library_errors import is_out_of_memory, one_line, others_told, too_large, unusable
from shoal.work.protocols import OutOfMemory, Predictor, Unusable

if TYPE_CHECKING:
    from shoal.model.advice import Setting
    from shoal.spec.shared_sections import ModelFile

logger = logging.getLogger(__name__)
_EXTERNAL = re.compile(r"external", re.IGNORECASE)


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
        from shoal.work.models.onnx_runtime import OnnxRuntimePredictor

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

"""A TorchScript file and the ways to run it: torch as given and frozen, and converted for ONNX Runtime and OpenVINO."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from shoal.engine.workers.runner import Failed
from shoal.work.models.conversions import digest_of, forget, kept, key_of
from shoal.work.models.file_signatures import check_file
from shoal.work.models.libraries import (
    device_of,
    is_out_of_memory,
    knows_cuda,
    missing_for,
    need,
    need_for,
    one_line,
    others_told,
    too_large,
    unusable,
)
from shoal.work.protocols import OutOfMemory, Predictor, Unusable

if TYPE_CHECKING:
    from shoal.model.advice import Setting
    from shoal.spec.shared_sections import ModelFile

_ONNX = "model.onnx"


class TorchScriptModels:
    """See `Models`."""

    def __init__(self, model: ModelFile, folder: str, cache: str, *, gpu: bool) -> None:
        self._path = os.path.join(folder, str(model.torchscript))
        self._model = model
        self._cache = cache
        self._gpu = gpu
        self._digest: tuple[tuple[int, int], str] | None = None

    def runtimes(self) -> tuple[str, ...]:
        missing = missing_for(self._others())
        return ("as-given", "frozen", *(name for name in self._others() if name not in missing))

    def suitable(self) -> tuple[str, ...]:
        on_gpu = self._gpu and self._model.device != "cpu"  # Then torch there is likely to know GPUs.
        return ("as-given", "frozen", *(() if on_gpu else self._others()))

    def missing(self) -> tuple[str, ...]:
        return tuple(missing_for(self._others()).values())

    def _others(self) -> tuple[str, ...]:
        """Libraries that could run it on this device and in this precision, be they installed or not."""
        if self._gpu and self._model.device != "cpu" and knows_cuda("torch"):
            return ()
        return ("onnxruntime", "openvino") if self._model.precision == "float32" else ("openvino",)

    def load(self, setting: Setting, example: Any = None) -> Predictor:
        check_file(self._path, "torchscript")
        if setting.runtime in ("as-given", "frozen"):
            return self._in_torch(setting, example)
        if setting.runtime not in self._others():
            raise Unusable(f"{setting.runtime} cannot do this device and precision")
        need_for(setting.runtime)
        if not hasattr(example, "dtype"):
            raise Unusable("it has to be converted, which takes an example of a batch")
        return self._converted(setting, example)

    def _in_torch(self, setting: Setting, example: Any) -> Predictor:
        need("torch", "torch", "A TorchScript file")
        device = device_of(self._model.device, "torch", gpu=self._gpu)
        from shoal.work.models.torch_runtime import TorchPredictor, declared, freeze, load_module

        with others_told(self._told):
            module = load_module(self._path, device, self._model.precision)
        tensors = declared(module, self._model.precision)

        def predictor(module: Any) -> Predictor:
            return TorchPredictor(
                module, tensors, runtime=setting.runtime, device=device, threads=setting.threads
            )

        if setting.runtime == "as-given":
            return predictor(module)
        with others_told(lambda error: unusable(error, "torch cannot freeze it")):
            found = predictor(freeze(module, fused=True))
            if example is None or _can(found, example):
                return found
            return predictor(freeze(module, fused=False))

    def _told(self, error: Exception) -> Exception:
        if is_out_of_memory(error):
            return OutOfMemory(too_large(self._path, error))
        said = one_line(error, first=True)
        hint = ""
        if "::" in said and "Unknown builtin op" in said:
            hint = " It needs a library of operators: use model: {function: ...}, a class that imports it."
        if "CUDA" in said or "NVIDIA driver" in said:
            hint = " To do without the GPU, set model.device: cpu."
        return Failed(f"model.torchscript: {self._path} cannot be loaded by torch: {said}{hint}")

    def _converted(self, setting: Setting, example: Any) -> Predictor:
        """From the cache, or converted now; once more where what was kept turns out to be damaged."""
        key = self._key(setting.runtime, example)
        make = self._maker(setting.runtime, example)
        with others_told(lambda error: unusable(error, f"{setting.runtime} cannot run it")):
            folder = kept(self._cache, key, make)
            try:
                return self._open(folder, setting, example)
            except Exception as error:
                if is_out_of_memory(error):
                    raise
                forget(self._cache, key)  # Whatever it is, a new one is tried before it is told.
            return self._open(kept(self._cache, key, make), setting, example)

    def _open(self, folder: str, setting: Setting, example: Any) -> Predictor:
        if setting.runtime == "openvino":
            from shoal.work.models.openvino_runtime import MODEL, OpenVinoPredictor

            path = os.path.join(folder, MODEL)
            precision = self._model.precision
            return OpenVinoPredictor(path, threads=setting.threads, precision=precision, example=example)
        from shoal.work.models.onnx import OnnxRuntimePredictor

        path = os.path.join(folder, _ONNX)
        return OnnxRuntimePredictor(path, runtime="onnxruntime", device="cpu", threads=setting.threads)

    def _key(self, runtime: str, example: Any) -> str:
        """An example counts by what of it may be kept in a conversion: its sizes but the rows, its kind of values."""
        return key_of(self._content(), ("torch", runtime), runtime, example.shape[1:], example.dtype)

    def _content(self) -> str:
        """The digest of the file, which is read again only when it changed."""
        found = os.stat(self._path)
        mark = (found.st_size, found.st_mtime_ns)
        if self._digest is None or self._digest[0] != mark:
            self._digest = (mark, digest_of(self._path))
        return self._digest[1]

    def _maker(self, runtime: str, example: Any) -> Callable[[str], None]:
        def make(folder: str) -> None:
            need("torch", "torch", "A TorchScript file")
            from shoal.work.models.torch_runtime import load_module

            with others_told(self._told):
                module = load_module(self._path)
            if runtime == "openvino":
                from shoal.work.models.openvino_runtime import convert

                convert(module, _example(example), folder)
            else:
                _export(module, _example(example), os.path.join(folder, _ONNX))

        return make


@contextmanager
def _quiet(torch: Any) -> Iterator[None]:
    """Keeps torch from printing a whole graph when it cannot convert it, for which it has no switch that works."""
    printing = getattr(torch._C, "_jit_onnx_log", None)
    torch._C._jit_onnx_log = lambda *_: None
    try:
        yield
    finally:
        torch._C._jit_onnx_log = printing


def _can(predictor: Predictor, example: Any) -> bool:
    """Whether it takes this batch. Some operators of fused models do not take all sizes."""
    try:
        predictor.predict(example)
    except Unusable:
        return False
    except OutOfMemory:
        pass
    return True


def _example(batch: Any) -> Any:
    """Two rows, as one would be taken for a fixed number."""
    import numpy as np
    import torch

    rows = np.array(np.resize(batch[:2], (2, *batch.shape[1:])))
    tensor = torch.from_numpy(rows)
    return tensor.float() if tensor.is_floating_point() else tensor


def _export(module: Any, example: Any, path: str) -> None:
    """Write a TorchScript module as ONNX. Sizes stay open, or, where torch cannot do that, only the number of rows."""
    import torch

    every = {axis: f"size_{axis}" for axis in range(example.ndim) if axis != 1 or example.ndim != 4}
    for axes in (every, {0: "rows"}):
        try:
            with warnings.catch_warnings(), _quiet(torch), torch.inference_mode():
                warnings.simplefilter("ignore")
                torch.onnx.export(
                    module,
                    (example,),
                    path,
                    input_names=["input"],
                    dynamic_axes={"input": axes},
                    dynamo=False,
                )
        except Exception as error:  # noqa: BLE001 - the exporter raises all sorts of things
            said = one_line(error, first=True)
        else:
            return
    raise Unusable(f"torch cannot convert it to ONNX: {said}")

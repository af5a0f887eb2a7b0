"""The model of a workload, in the ways in which it can be run here. Members are loaded late, by what the file names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.work.models.batch_fit import check_fits
from shoal.work.models.differences import difference

if TYPE_CHECKING:
    from shoal.spec.shared_sections import ModelFile
    from shoal.work.protocols import Models

__all__ = ["check_fits", "difference", "models"]


def models(model: ModelFile, folder: str, cache: str, *, gpu: bool) -> Models:
    """The ways to run this model. Reads nothing yet: what is wrong with the file is said by `load`.

    Relative paths are in `folder`. Converted models are kept in `cache`, a folder of this machine that its workers
    share. `gpu` says whether this worker has a GPU.
    """
    if model.function is not None:
        from shoal.work.models.function import FunctionModels

        return FunctionModels(model.function, device=model.device, gpu=gpu)
    if model.onnx is not None:
        from shoal.work.models.onnx import OnnxModels

        return OnnxModels(model, folder, gpu=gpu)
    from shoal.work.models.torchscript import TorchScriptModels

    return TorchScriptModels(model, folder, cache, gpu=gpu)

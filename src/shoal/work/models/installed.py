"""Which libraries are installed, and whether they know GPUs, without importing them; and the device that follows."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.util import find_spec

from shoal.engine.workers.runner import Failed
from shoal.work.protocols import Unusable

_CUDA_LIBRARIES = {
    "torch": (("lib", "libtorch_cuda.so"), ("lib", "libtorch_hip.so")),
    "onnxruntime": (("capi", "libonnxruntime_providers_cuda.so"),),
}
WITH_CUDA = {"torch": "a build of torch with CUDA", "onnxruntime": "onnxruntime-gpu instead of onnxruntime"}
"""What to install where a GPU is to be used."""
TAKES = {"onnxruntime": ("onnxruntime", "onnx"), "openvino": ("openvino",)}
"""What it takes to have a model converted and run so: torch needs the package onnx to convert to it."""
_EXTRAS = {"onnxruntime": "onnx", "openvino": "openvino"}


def is_installed(library: str) -> bool:
    """Whether it could be imported. A package that is broken may be found all the same."""
    return find_spec(library) is not None


def missing_for(runtimes: Iterable[str]) -> dict[str, str]:
    """Of these ways to run a model, those for which a package is missing, each with a sentence of what to install."""
    told = {}
    for runtime in runtimes:
        absent = [library for library in TAKES[runtime] if not is_installed(library)]
        if absent:
            lacks = "is not installed" if runtime in absent else f"needs {' and '.join(absent)}, too"
            told[runtime] = f"{runtime} {lacks}: pip install 'shoal[{_EXTRAS[runtime]}]'"
    return told


def need_for(runtime: str) -> None:
    """Raises `Unusable`, with what to install, where a package is missing for this way to run a model."""
    lacking = missing_for([runtime]).get(runtime)
    if lacking is not None:
        raise Unusable(lacking)


def knows_cuda(library: str) -> bool:
    """Whether this build of `torch` or `onnxruntime` can use a GPU, if there is one."""
    found = find_spec(library)
    folders = (found.submodule_search_locations or ()) if found else ()
    return any(
        os.path.exists(os.path.join(folder, *parts))
        for folder in folders
        for parts in _CUDA_LIBRARIES[library]
    )


def device_of(asked: str, library: str, *, gpu: bool) -> str:
    """`cpu` or `cuda`: where `library` computes, when the file asks for `auto`, `cpu` or `cuda`."""
    if asked == "cpu":
        return "cpu"
    if gpu and knows_cuda(library):
        return "cuda"
    if asked == "auto":
        return "cpu"
    if not gpu:
        raise Failed(
            "model.device is cuda, and this worker has no GPU: set resources: {gpu: 1} on a node that has one,"
            " or model.device: auto."
        )
    raise Failed(
        f"model.device is cuda, and the {library} that is installed cannot use a GPU:"
        f" install {WITH_CUDA[library]}, or set model.device: auto."
    )


def need(library: str, extra: str, what: str) -> None:
    """Says what to install when `library`, without which `what` cannot be run as given, is missing."""
    if not is_installed(library):
        raise Failed(
            f"{what} needs {library}, which is not installed: pip install 'shoal[{extra}]', or add {library}"
            " to requirements."
        )

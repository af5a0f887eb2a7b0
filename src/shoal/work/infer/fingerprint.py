"""What an inference is known by: equal where the best way to run it is likely to be the same."""

from __future__ import annotations

import os
from functools import cache
from hashlib import blake2b

from shoal.model.item import digest
from shoal.spec import Infer
from shoal.work import functions

LIBRARIES = ("torch", "onnxruntime", "onnxruntime-gpu", "openvino")
WHOLE_BYTES = 256 << 20
"""Larger models are known by their size and the time they were written at."""


def fingerprint(spec: Infer) -> str:
    model, before = spec.model, spec.preprocess
    parts = (
        spec.kind,
        _of_model(spec),
        _of_function(before.function, spec.folder) if before is not None and before.function else None,
        model.device,
        model.precision,
        spec.input.kind,
        spec.input.column,
        spec.preprocess,
        spec.tune.runtime,
        # What was found out within what somebody pinned says nothing about the rest.
        spec.tune.batch,
        spec.tune.workers,
        spec.tune.threads,
        spec.resources.cpu,
        spec.resources.gpu,
        *map(_version, LIBRARIES),
    )
    return digest(repr(parts))


def made_of(spec: Infer) -> str:
    """What rows depend on that the workload file only names: the model, and functions around it."""
    around = (spec.preprocess and spec.preprocess.function, spec.postprocess.function)
    return digest(repr((_of_model(spec), *(each and _of_function(each, spec.folder) for each in around))))


def _of_model(spec: Infer) -> str:
    if spec.model.function is not None:
        return _of_function(spec.model.function, spec.folder)
    return _of_file(os.path.join(spec.folder, str(spec.model.onnx or spec.model.torchscript)))


def _version(library: str) -> str | None:
    """What was found out with one version may not hold for another."""
    from importlib import metadata

    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _of_function(reference: str, folder: str) -> str:
    """Its name, and what the file of its module says, where that is one of the workload's folder."""
    path = functions.module_path(reference.partition(":")[0], folder)
    return reference if path is None else f"{reference} {_of_file(path)}"


def _of_file(path: str) -> str:
    """The content of a file, wherever it lies."""
    try:
        size, modified_s = os.path.getsize(path), os.path.getmtime(path)
        return f"{size} {modified_s}" if size > WHOLE_BYTES else _content(path, size, modified_s)
    except OSError:
        return path


@cache
def _content(path: str, size: int, modified_s: float) -> str:
    """Read once, for as long as its size and time stay: plans and runs ask several times."""
    found = blake2b(digest_size=16)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()

"""What can be known to be wrong with an inference before anything is started: files, functions, places."""

from __future__ import annotations

import os
from collections.abc import Iterator

from shoal.errors import AccessDenied, FileError, NotFound, Problem, SpecError, nearest
from shoal.files import find, is_url, open_storage
from shoal.files.patterns import has_magic
from shoal.spec import Infer
from shoal.work import functions
from shoal.work.job import not_yet
from shoal.work.models import models
from shoal.work.models.libraries import TAKES
from shoal.work.outputs import check_output


def check(spec: Infer) -> list[Problem]:
    """Every problem that does not need a worker, or somebody else's machine, to be seen."""
    if not os.path.isdir(spec.folder):
        return [
            Problem(f"The workload's folder {spec.folder} is not there.", "Has it been moved or renamed?")
        ]
    return [
        *not_yet(spec),
        *_tilde(spec),
        *_functions(spec),
        *_model(spec),
        *_runtime(spec),
        *_input(spec),
        *_output(spec),
    ]


def _tilde(spec: Infer) -> Iterator[Problem]:
    """A shell would know what is meant. Here it would make a folder with that name, which is not nice to remove."""
    asked = {f"input.{spec.input.kind}": spec.input.target, "output": spec.output.path}
    for key, path in asked.items():
        if path.startswith("~") and not os.path.exists(os.path.join(spec.folder, path)):
            yield Problem(
                f"{key}: {path} starts with ~, which only a shell replaces.",
                "Write the whole path of the folder.",
            )


def modules(spec: Infer) -> dict[str, str]:
    """Modules that workers are certain to import, and for what."""
    found: dict[str, str] = {}
    if spec.model.kind == "onnx":
        found["onnxruntime"] = "model.onnx"
    if spec.model.kind == "torchscript":
        found["torch"] = "model.torchscript"
    if spec.input.kind == "images" or (spec.preprocess is not None and spec.preprocess.image is not None):
        found["PIL"] = "images"
    if spec.tune.runtime != "onnxruntime" or spec.model.kind != "onnx":
        found |= dict.fromkeys(TAKES.get(spec.tune.runtime, ()), "tune.runtime")
    if found:
        found["numpy"] = next(iter(found.values()))
    return found


def _functions(spec: Infer) -> Iterator[Problem]:
    asked = {"model.function": spec.model.function, "postprocess.function": spec.postprocess.function}
    if spec.preprocess is not None:
        asked["preprocess.function"] = spec.preprocess.function
    for key, reference in asked.items():
        if reference is not None:
            yield from functions.look_up(key, reference, spec.folder, installs=bool(spec.requirements))[0]


def _model(spec: Infer) -> Iterator[Problem]:
    given = spec.model.onnx or spec.model.torchscript
    if given is None:
        return
    path, key = os.path.join(spec.folder, given), f"model.{spec.model.kind}"
    if is_url(given):
        yield Problem(f"{key}: {given} is not on this machine.", "Copy the model beside the workload file.")
    elif os.path.isdir(path):
        yield Problem(f"{key}: {given} is a folder.", "Name the file of the model in it.")
    elif not os.path.exists(path):
        parent = os.path.dirname(path)
        beside = os.listdir(parent) if os.path.isdir(parent) else []
        ending = os.path.splitext(given)[1]
        same = [name for name in beside if os.path.splitext(name)[1] == ending]
        yield Problem(f"{key}: there is no file {given} in {spec.folder}.", nearest(given, same or beside))
    else:
        yield from _no_model(path, spec.model.kind)


def _no_model(path: str, kind: str) -> Iterator[Problem]:
    """What its first bytes say. Whether it can be loaded shows in a worker."""
    from shoal.engine.workers.runner import Failed
    from shoal.work.models.file_signatures import check_file

    try:
        check_file(path, kind)
    except Failed as reason:
        yield Problem(str(reason))


def _runtime(spec: Infer) -> Iterator[Problem]:
    """One that cannot run such a model, wherever it is. Whether it is installed is another question: see `modules`."""
    chosen, model = spec.tune.runtime, spec.model
    if chosen == "auto" or (chosen, model.kind) == ("onnxruntime", "onnx"):
        return
    ways = models(model, spec.folder, "", gpu=model.device == "cuda").suitable()
    if chosen not in ways:
        yield Problem(
            f"tune.runtime: {chosen} cannot run this model with device: {model.device}, precision: {model.precision}.",
            f"Choose from: {', '.join(ways)}.",
        )


def _input(spec: Infer) -> Iterator[Problem]:
    target, key = spec.input.target, f"input.{spec.input.kind}"
    try:
        open_storage(target, folder=spec.folder, endpoint=spec.input.endpoint)
    except SpecError as error:
        yield Problem(f"input: {error}", error.hint)
        return
    path = os.path.join(spec.folder, target)
    if is_url(target):
        return
    if has_magic(target) or os.path.exists(path):
        yield from _empty(spec, key)
        return
    parent = os.path.dirname(path.rstrip(os.sep))
    beside = os.listdir(parent) if os.path.isdir(parent) else []
    yield Problem(
        f"{key}: there is no file or folder {target} in {spec.folder}.", nearest(target.rstrip("/"), beside)
    )


def _empty(spec: Infer, key: str) -> Iterator[Problem]:
    """A folder or a pattern of this machine in which there is nothing. Looks no further than the first file."""
    try:
        _, found = find(spec.input.target, folder=spec.folder)
        next(iter(found), None)
    except (AccessDenied, NotFound) as error:
        yield Problem(f"{key}: {error}", error.hint)
    except FileError:
        return  # That it cannot be read is told when it is read, with the reason.


def _output(spec: Infer) -> Iterator[Problem]:
    try:
        yield from check_output(spec.output, spec.input, spec.folder)
    except SpecError as error:
        yield Problem(f"output: {error}", error.hint)

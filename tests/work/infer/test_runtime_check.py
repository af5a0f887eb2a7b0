"""A runtime that a file names, and that cannot run such a model, is found before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.errors import SpecError
from shoal.spec import Infer, loads
from shoal.work.infer.infer_checks import check, modules

TEXT = """
kind: infer
input: {images: in}
model: {onnx: model.onnx}
preprocess: {image: {size: 8}}
output: out
"""
TORCHSCRIPT = "model={torchscript: model.pt}"


def spec(folder: Path, *sets: str) -> Infer:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / "a.jpg").touch()
    for name in ("model.onnx", "model.pt"):
        (folder / name).touch()
    found = loads(TEXT, folder=folder, sets=sets)
    assert isinstance(found, Infer)
    return found


def messages(folder: Path, *sets: str) -> list[str]:
    return [problem.message for problem in check(spec(folder, *sets)) if "runtime" in problem.message]


@pytest.mark.parametrize("runtime", ["auto", "as-given", "onnxruntime", "openvino"])
def test_what_can_run_an_onnx_file_is_not_refused_for_what_it_is(tmp_path: Path, runtime: str) -> None:
    assert messages(tmp_path, f"runtime={runtime}") == []


@pytest.mark.parametrize(
    ("runtime", "needed"),
    [
        ("auto", []),
        ("as-given", []),
        ("frozen", []),
        ("onnxruntime", ["onnxruntime", "onnx"]),
        ("openvino", ["openvino"]),
    ],
)
def test_workers_are_certain_to_import_what_a_pinned_runtime_takes(
    tmp_path: Path, runtime: str, needed: list[str]
) -> None:
    found = modules(spec(tmp_path, TORCHSCRIPT, f"runtime={runtime}"))
    assert [name for name, key in found.items() if key == "tune.runtime"] == needed


def test_onnx_runtime_runs_an_onnx_file_without_the_package_onnx(tmp_path: Path) -> None:
    assert "onnx" not in modules(spec(tmp_path, "runtime=onnxruntime"))


@pytest.mark.parametrize(
    ("runtime", "model"),
    [
        ("onnxruntime", "{torchscript: model.pt, precision: float16}"),
        ("openvino", "{torchscript: model.pt, device: cuda}"),
        ("openvino", "{onnx: model.onnx, device: cuda}"),
    ],
)
def test_one_that_cannot_do_the_device_or_the_precision_is_refused(
    tmp_path: Path, runtime: str, model: str
) -> None:
    (message,) = messages(tmp_path, f"model={model}", f"runtime={runtime}")
    assert message.startswith(f"tune.runtime: {runtime} cannot run this model with device: ")


def test_one_that_cannot_run_such_a_file_is_an_error_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="frozen is a way to run TorchScript"):
        messages(tmp_path, "runtime=frozen")

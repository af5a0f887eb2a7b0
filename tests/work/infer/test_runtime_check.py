"""A runtime that a file names is looked for before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.errors import SpecError
from shoal.spec import loads
from shoal.work.infer.checking import check

TEXT = """
kind: infer
input: {images: in}
model: {onnx: model.onnx}
preprocess: {image: {size: 8}}
output: out
"""


def messages(folder: Path, runtime: str) -> list[str]:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / "a.jpg").touch()
    (folder / "model.onnx").touch()
    found = check(loads(TEXT, folder=folder, sets=[f"runtime={runtime}"]))
    return [problem.message for problem in found if "runtime" in problem.message]


@pytest.mark.parametrize("runtime", ["auto", "as-given", "onnxruntime"])
def test_what_always_runs_an_onnx_file_is_not_asked_for(tmp_path: Path, runtime: str) -> None:
    assert messages(tmp_path, runtime) == []


def test_one_that_is_not_installed_is_an_error_that_names_those_that_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.work.infer.models.onnx.is_installed", lambda library: False)
    assert messages(tmp_path, "openvino") == [
        "tune.runtime: openvino is not installed, or cannot run such a model."
    ]


def test_one_that_cannot_run_such_a_file_is_an_error_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="frozen is a way to run TorchScript"):
        messages(tmp_path, "frozen")

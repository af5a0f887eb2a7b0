"""Files that are not the model that a workload says they are: what is said about each."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from shoal.engine.workers.runner import Failed
from shoal.work.models.file_signatures import check_file, seems


def archive(path: Path, names: Sequence[str]) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(name, b"something")
    return path


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "it is empty"),
        (b"hello, I am a model\n", "it is text"),
        ("Grüße\n".encode() * 1000, "it is text"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
        (pickle.dumps({"weights": [1.0]}), "torch.save writes.*torch.jit.save"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), "HDF5.*tf2onnx"),
        ((10).to_bytes(8, "little") + b'{"a":1111}' + bytes(8), "safetensors"),
        (bytes(range(256)) * 10, "no model that can be read"),
        (b"PK\x03\x04" + bytes(50), "damaged archive"),
    ],
    ids=["empty", "text", "more text", "lfs", "pickle", "hdf5", "safetensors", "bytes", "cut off"],
)
@pytest.mark.parametrize("key", ["onnx", "torchscript"])
def test_a_file_that_is_no_model_is_named(tmp_path: Path, content: bytes, sentence: str, key: str) -> None:
    path = tmp_path / "model"
    path.write_bytes(content)
    with pytest.raises(Failed, match=f"^model.{key}: .*/model is not .*{sentence}"):
        check_file(str(path), key)


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["m/data.pkl", "m/version"], "torch.save writes"),
        (["m/archive_format", "m/models/model.json"], "torch.export.save writes"),
        (["photo.jpg"], "zip archive without a model"),
    ],
    ids=["pickled", "exported", "others"],
)
def test_an_archive_without_torchscript_is_named(tmp_path: Path, names: Sequence[str], sentence: str) -> None:
    with pytest.raises(Failed, match=sentence):
        check_file(str(archive(tmp_path / "model.pt", names)), "torchscript")


def test_torchscript_given_as_onnx_says_which_it_is(tmp_path: Path) -> None:
    path = archive(tmp_path / "model.pt", ["m/data.pkl", "m/constants.pkl", "m/code/__torch__.py"])
    assert seems(str(path)) == "torchscript"
    with pytest.raises(
        Failed, match=r"seems to be a TorchScript file, .* write model: \{torchscript: \.\.\.\}"
    ):
        check_file(str(path), "onnx")


def test_onnx_given_as_torchscript_says_which_it_is(save_linear: Callable[..., Path]) -> None:
    path = save_linear()
    check_file(str(path), "onnx")
    with pytest.raises(Failed, match=r"seems to be an ONNX file, .* write model: \{onnx: \.\.\.\}"):
        check_file(str(path), "torchscript")


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"there is no file .*/none.onnx"):
        check_file(str(tmp_path / "none.onnx"), "onnx")
    with pytest.raises(Failed, match="is a folder"):
        check_file(str(tmp_path), "onnx")

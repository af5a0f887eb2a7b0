"""What a file seems to be, from its first bytes: so that a wrong one is named, not only refused. Loads no model."""

from __future__ import annotations

import os
import zipfile

from shoal.engine.workers.runner import Failed

_HEAD_BYTES = 4096
_ONNX_TAGS = frozenset(b"\x08\x12\x1a\x22\x28\x32\x3a\x42\x72\xa2\xca")
"""The first byte of each field that an ONNX file can have at its top."""
_EXPORT = "Export it with torch.jit.save(torch.jit.script(model), PATH)"

_ADVICE = {
    "empty": "is empty: was it copied to the end?",
    "lfs": "is a pointer of Git LFS, not the file itself: run git lfs pull.",
    "pickle": f"is what torch.save writes, which would run code when it is loaded. {_EXPORT}.",
    "export": f"is what torch.export.save writes. {_EXPORT}, or to ONNX with torch.onnx.export.",
    "damaged": "is a damaged archive, or one that was cut off: was it copied to the end?",
    "zip": "is a zip archive without a model in it.",
    "safetensors": f"has weights alone (safetensors), no model. {_EXPORT}.",
    "hdf5": "is an HDF5 file, such as Keras writes: convert it to ONNX with tf2onnx.",
    "text": "is text, not a model.",
    "other": "is no model that can be read.",
}
_NAMES = {"onnx": "an ONNX file", "torchscript": "a TorchScript file"}


def seems(path: str) -> str:
    """`onnx`, `torchscript`, or what else it is: a key of the advice above. Raises `OSError`."""
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
    if not head:
        return "empty"
    if head.startswith(b"PK"):
        return _archive(path)
    if head.startswith(b"version https://git-lfs"):
        return "lfs"
    if head.startswith(b"\x89HDF"):
        return "hdf5"
    if head[:1] == b"\x80" and head[1:2] <= b"\x05":
        return "pickle"
    if head[8:10] == b'{"' and int.from_bytes(head[:8], "little") < os.path.getsize(path):
        return "safetensors"
    if _is_text(head):
        return "text"
    return "onnx" if _is_onnx(head) else "other"


def _archive(path: str) -> str:
    """TorchScript has its code and constants; torch.save leaves a pickle alone; both are zip archives."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.partition("/")[2] for name in archive.namelist()}
    except (zipfile.BadZipFile, OSError, ValueError):
        return "damaged"
    if "constants.pkl" in names and any(name.startswith("code/") for name in names):
        return "torchscript"
    if "archive_format" in names or any(name.endswith("model.json") for name in names):
        return "export"
    return "pickle" if "data.pkl" in names else "zip"


def _is_text(head: bytes) -> bool:
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:  # A character may be cut at the end.
            return False
        text = head[: error.start].decode("utf-8")
    return all(character.isprintable() or character in "\t\r\n" for character in text)


def _is_onnx(head: bytes) -> bool:
    """As protobuf writes it, a small version comes first; or it is in ONNX Runtime's own format."""
    if head[4:8] == b"ORTM":
        return True
    return len(head) > 2 and head[0] == 0x08 and 1 <= head[1] <= 32 and head[2] in _ONNX_TAGS


def check_file(path: str, key: str) -> None:
    """Raises `Failed` unless this may be what the file names as `key`: `onnx` or `torchscript`."""
    wanted = _NAMES[key]
    try:
        found = seems(path)
    except FileNotFoundError:
        raise Failed(f"model.{key}: there is no file {path}.") from None
    except IsADirectoryError:
        raise Failed(f"model.{key}: {path} is a folder, not {wanted}.") from None
    except OSError as error:
        raise Failed(f"model.{key}: {path} cannot be read: {error.strerror or error}.") from None
    if found in _NAMES and found != key:
        raise Failed(
            f"model.{key}: {path} seems to be {_NAMES[found]}, not {wanted}: write model: {{{found}: ...}}."
        )
    if found != key:
        raise Failed(f"model.{key}: {path} is not {wanted}: it {_ADVICE[found]}")

"""Ten signs of sign language, on real photographs: trains a network, and says which photographs it has not seen.

The photographs stay in their archive: what is written here are `signs.onnx`, `signs.pt` and a list, `signs.jsonl`.
Training needs PyTorch. `photograph`, which the workload names, does not.
"""

import argparse
import io
import json
import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray
from PIL import Image

HERE = Path(__file__).resolve().parent
ARCHIVE = Path("../../../shared/data/sign_digits/sign_digits.zip")  # from this folder, where it exists
SIGNS = tuple("0123456789")
SIDE = 64
SHARE_TO_LEARN_FROM = 0.8


def archive() -> Path:
    """Where the photographs are: as `SIGN_DIGITS` says, or beside the project."""
    return Path(os.environ.get("SIGN_DIGITS") or HERE / ARCHIVE)


@cache
def _opened() -> ZipFile:
    return ZipFile(archive())


def photograph(name: str) -> NDArray[np.float32]:
    """One photograph as the network takes it: for `preprocess: {function: signs:photograph}`."""
    with Image.open(io.BytesIO(_opened().read(name))) as opened:
        small = opened.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    return np.asarray(small, dtype=np.float32).transpose(2, 0, 1) / 127.5 - 1


def split() -> tuple[list[str], list[str]]:
    """The photographs to learn from, and those to check with.

    Who was photographed showed all ten signs, one after the other, and the camera counted. So the last numbers are
    people that the network has never seen, which is what it will meet; a random split would flatter it.
    """
    names = sorted((name for name in _opened().namelist() if name.upper().endswith(".JPG")), key=_counted)
    cut = int(len(names) * SHARE_TO_LEARN_FROM)
    while sign(names[cut]) != SIGNS[0]:  # Nobody is in both parts.
        cut += 1
    return names[:cut], names[cut:]


def _counted(name: str) -> tuple[int, str]:
    """By the camera's number: `3/IMG_1121.JPG` is 1121."""
    return int("".join(filter(str.isdecimal, Path(name).stem)) or 0), name


def sign(name: str) -> str:
    """What it shows: the name of its folder."""
    return name.split("/")[-2]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--epochs", type=int, default=20, help="how often it sees each (default: 20)")
    parser.add_argument("--folder", type=Path, default=HERE, help="where all goes (default: here)")
    options = parser.parse_args(arguments)
    if not archive().exists():
        parser.error(f"no photographs at {archive()}: say where sign_digits.zip is with SIGN_DIGITS=PATH")
    learned, unseen = split()
    train(learned, unseen, options.epochs, options.folder)
    rows = (json.dumps({"photo": name, "sign": sign(name)}) for name in unseen)
    (options.folder / "signs.jsonl").write_text("".join(f"{row}\n" for row in rows))
    print(f"signs.jsonl: {len(unseen)} photographs that it has not seen")
    return 0


def train(learned: Sequence[str], unseen: Sequence[str], epochs: int, folder: Path) -> None:
    import network
    import torch

    def tensors(names: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
        images = np.stack([photograph(name) for name in names])
        return torch.from_numpy(images), torch.tensor([SIGNS.index(sign(name)) for name in names])

    torch.manual_seed(1)
    images, classes = tensors(learned)
    model = network.build(channels=3, classes=len(SIGNS), width=16)
    network.train(model, images, classes, epochs=epochs)
    for path in network.export(model, images[:2], folder, "signs"):
        print(f"{path.name}: {path.stat().st_size:,} bytes")
    print(f"accuracy: {network.accuracy(model, *tensors(unseen)):.4f}")


if __name__ == "__main__":
    sys.exit(main())

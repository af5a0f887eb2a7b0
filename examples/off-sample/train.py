"""Trains the classifier of ion images, and writes it as `model.onnx` and `model.pt`. Needs PyTorch, and half a minute.

It learns from images that it makes itself, prepared as `off-sample.yaml` says; those of `make_images.py` are others.
"""

import argparse
import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from make_images import LABELS, SEED, Ion, ions
from network import accuracy, build, export, train
from PIL import Image
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from shoal import spec
from shoal.spec import ImagePreparation

HERE = Path(__file__).resolve().parent
WORKLOAD = HERE / "off-sample.yaml"
SEED_TO_LEARN_FROM = 1


def preparation() -> ImagePreparation:
    """What the workload says about images: it has to be what the network was trained with."""
    workload = spec.load(WORKLOAD, kind="infer")
    assert workload.preprocess is not None
    assert workload.preprocess.image is not None
    return workload.preprocess.image


def prepare(data: bytes, image: ImagePreparation) -> Tensor:
    """One image as the network takes it. The group's own way to resize: `grid_sample`, which is `resize: affine`."""
    with Image.open(io.BytesIO(data)) as opened:
        pixels = np.array(opened.convert(image.mode), dtype=np.float32)
    tensor = torch.from_numpy(pixels).reshape(1, *pixels.shape[:2], image.channels).permute(0, 3, 1, 2)
    target = [1, image.channels, image.height, image.width]
    grid = affine_grid(torch.eye(2, 3)[None], target, align_corners=True)
    resized = grid_sample(tensor / image.scale, grid, "bilinear", "reflection", align_corners=True)[0]
    mean, deviation = (torch.tensor(part).reshape(-1, 1, 1) for part in image.normalize)
    return (resized - mean) / deviation


def tensors(source: Iterable[Ion]) -> tuple[Tensor, Tensor]:
    """Images and the numbers of their classes."""
    image = preparation()
    pairs = [(prepare(one.data, image), LABELS.index(one.label)) for one in source]
    return torch.stack([pixels for pixels, _ in pairs]), torch.tensor([number for _, number in pairs])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--images", type=int, default=1500, help="to learn from (default: 1500)")
    parser.add_argument("--epochs", type=int, default=8, help="how often it sees each (default: 8)")
    parser.add_argument("--folder", type=Path, default=HERE, help="where the models go (default: here)")
    options = parser.parse_args(arguments)
    torch.manual_seed(1)
    images, classes = tensors(ions(SEED_TO_LEARN_FROM, options.images))
    print(f"{len(images)} images: mean {images.mean():.3f}, deviation {images.std():.3f} when prepared")
    network = build(channels=images.shape[1], classes=len(LABELS))
    train(network, images, classes, epochs=options.epochs)
    for path in export(network, images[:2], options.folder, "model"):
        print(f"{path.name}: {path.stat().st_size:,} bytes")
    print(f"accuracy: {accuracy(network, *tensors(ions(SEED, 500))):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The models of the benchmark of inference: ResNet-50-sized, and small; random weights, outputs that make sense.

Each is exported to TorchScript and to ONNX with any batch size. Nothing is trained: weights are scaled on some of the
pictures, so that classes differ between pictures and no output overflows.

python bench/infer_models.py FOLDER PICTURES [--model large|small|both]
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

MEAN = (0.485, 0.456, 0.406)
SPREAD = (0.229, 0.224, 0.225)
CALIBRATION_PICTURES = 64
LOGIT_SPREAD = 3.0


class Kind(NamedTuple):
    """What a model is to be like."""

    classes: int
    blocks: tuple[tuple[int, int, int], ...]
    """Width, number of blocks and stride of each stage."""


KINDS = {
    "large": Kind(
        1000, ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
    ),  # ResNet-50, 25.6 million weights.
    "small": Kind(10, ((32, 1, 2), (64, 1, 2), (128, 2, 2))),  # 0.24 million weights, plain convolutions.
}


def _convolution(into: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    layer = nn.Conv2d(into, out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(out))


class Bottleneck(nn.Module):
    """A residual block of a ResNet-50."""

    def __init__(self, into: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            _convolution(into, width, 1),
            nn.ReLU(inplace=True),
            _convolution(width, width, 3, stride),
            nn.ReLU(inplace=True),
            _convolution(width, out, 1),
        )
        same = into == out and stride == 1
        self.shortcut: nn.Module = nn.Identity() if same else _convolution(into, out, 1, stride)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(images) + self.shortcut(images))


class Classifier(nn.Module):
    """Features, their mean over the picture, and a linear layer."""

    def __init__(self, features: nn.Sequential, width: int, classes: int) -> None:
        super().__init__()
        self.features = features
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.pool(self.features(images)).flatten(1))


def _large(kind: Kind) -> Classifier:
    layers: list[nn.Module] = [_convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    into = 64
    for width, count, stride in kind.blocks:
        for number in range(count):
            layers.append(Bottleneck(into, width, stride if number == 0 else 1))
            into = 4 * width
    return Classifier(nn.Sequential(*layers), into, kind.classes)


def _small(kind: Kind) -> Classifier:
    layers: list[nn.Module] = [_convolution(3, 16, 3, 2), nn.ReLU(inplace=True)]
    into = 16
    for width, count, stride in kind.blocks:
        for number in range(count):
            layers += [_convolution(into, width, 3, stride if number == 0 else 1), nn.ReLU(inplace=True)]
            into = width
    return Classifier(nn.Sequential(*layers), into, kind.classes)


def make(name: str, pictures: torch.Tensor, seed: int = 0) -> Classifier:
    """A model with random weights, scaled on these pictures (normalised, float32, N x 3 x 224 x 224)."""
    torch.manual_seed(seed)
    kind = KINDS[name]
    model = _large(kind) if name == "large" else _small(kind)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # The plain mean of what it sees.
    with torch.no_grad():
        model.train()
        for part in pictures.split(16):
            model(part)
        model.eval()
        features = torch.cat([model.pool(model.features(part)).flatten(1) for part in pictures.split(16)])
        # Features of random networks hardly differ between pictures: what differs is made to count.
        model.head.weight /= features.std(0).clamp_min(1e-6)
        model.head.bias.zero_()
        scores = model.head(features)
        model.head.weight *= LOGIT_SPREAD / scores.std(0).mean()
        model.head.bias -= model.head(features).mean(0)
    return model


def export(model: nn.Module, folder: Path, name: str) -> None:
    """Write NAME.pt (TorchScript) and NAME.onnx. The exporter that needs no onnxscript does it."""
    example = torch.zeros(2, 3, 224, 224)
    axes = {"images": {0: "batch"}, "scores": {0: "batch"}}
    with warnings.catch_warnings():  # Of the future of both formats.
        warnings.simplefilter("ignore")
        with torch.no_grad():
            traced = torch.jit.trace(model, example)
            traced.save(folder / f"{name}.pt")
            torch.onnx.export(
                model,
                (example,),
                folder / f"{name}.onnx",
                input_names=["images"],
                output_names=["scores"],
                dynamic_axes=axes,
                dynamo=False,
            )


def load_pictures(paths: list[Path]) -> torch.Tensor:
    """Normalised as the benchmark does it."""
    import numpy as np
    from PIL import Image

    def one(path: Path) -> Any:
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB"), np.float32) / 255

    pixels = (np.stack([one(path) for path in paths]) - np.float32(MEAN)) / np.float32(SPREAD)
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2), np.float32))


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the models for bench/infer.py.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("pictures", type=Path, help="a folder of pictures to scale the weights on")
    parser.add_argument("--model", choices=[*KINDS, "both"], default="both")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    pictures = load_pictures(sorted(arguments.pictures.glob("*.jpg"))[:CALIBRATION_PICTURES])
    for name in KINDS if arguments.model == "both" else [arguments.model]:
        export(make(name, pictures), arguments.folder, name)
        print(arguments.folder / f"{name}.pt", arguments.folder / f"{name}.onnx")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Makes ion images as a mass spectrometer would, on a folder or a bucket, and `truth.csv` with what each one shows.

Deterministic by seed and number: the first thousand of two thousand images are the same thousand. Knows no model.
"""

import argparse
import csv
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shoal.errors import ShoalError
from shoal.files import is_url, open_storage

Floats = NDArray[np.float64]

HERE = Path(__file__).resolve().parent
TRUTH = HERE / "truth.csv"
LABELS = ("off", "on")
COUNT = 2000
SEED = 2  # training draws from another one (train.py): what is made here was never learned from
SIDES = (60, 300)  # pixels, both included
VIRIDIS = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))


class Ion(NamedTuple):
    """One image, as it is stored."""

    name: str
    label: str
    data: bytes


def ion(seed: int, number: int) -> Ion:
    """The image with this number; the same for the same arguments."""
    rng = np.random.default_rng([seed, number])
    label = LABELS[int(rng.integers(2))]
    height, width = (int(side) for side in rng.integers(SIDES[0], SIDES[1] + 1, size=2))
    tissue = _tissue(rng, height, width)
    intensity = (_on_sample if label == "on" else _off_sample)(rng, tissue)
    suffix, data = _encoded(rng, _as_measured(rng, intensity))
    return Ion(f"ion-{number:05d}.{suffix}", label, data)


def ions(seed: int, count: int) -> Iterator[Ion]:
    return (ion(seed, number) for number in range(count))


def _tissue(rng: np.random.Generator, height: int, width: int) -> Floats:
    """Where the section of tissue lies: 1 inside, 0 outside, with a soft edge. One piece, now and then two."""
    y, x = np.ogrid[0:height, 0:width]
    mask = np.zeros((height, width))
    angles = np.linspace(-np.pi, np.pi, 181)
    pieces = 1 if rng.random() < 0.8 else 2
    for piece in range(pieces):
        middle = rng.normal(0.5, 0.08, size=2)
        if pieces == 2:
            middle[1] = (piece + 0.5) / 2 + rng.normal(0, 0.03)
        radius = np.full_like(angles, rng.uniform(0.26, 0.48))
        for waves in range(1, 6):
            radius += rng.normal(0, 0.05 / waves) * np.cos(waves * angles + rng.uniform(0, 2 * np.pi))
        down, across = y / height - middle[0], (x / width - middle[1]) * pieces
        beyond = np.hypot(down, across) - np.interp(np.arctan2(down, across), angles, radius)
        mask = np.maximum(mask, _soft(-beyond / 0.012))
    return mask


def _soft(x: Floats) -> Floats:
    """A step from 0 to 1 that is not sharp."""
    return 1 / (1 + np.exp(-x))


def _texture(rng: np.random.Generator, shape: tuple[int, ...], grain: int) -> Floats:
    """A smooth field from 0 to 1 with about `grain` bumps on a side."""
    field = Image.fromarray(rng.random((grain, grain)).astype(np.float32))
    smooth = np.asarray(field.resize((shape[1], shape[0]), Image.Resampling.BICUBIC), dtype=np.float64)
    return np.clip(smooth, 0, 1)


def _patches(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """About half of the image, in a few large pieces."""
    return _soft((_texture(rng, shape, int(rng.integers(3, 6))) - 0.5) / 0.04)


def _on_sample(rng: np.random.Generator, tissue: Floats) -> Floats:
    """In the tissue: all over it, or in some region of it; with a faint background."""
    inside = 0.35 + 0.65 * _texture(rng, tissue.shape, int(rng.integers(3, 12)))
    if rng.random() < 0.4:  # An organ, a layer, a tumour: most of the tissue stays dark.
        inside *= _patches(rng, tissue.shape)
    return tissue * inside + rng.uniform(0, 0.22) * _texture(rng, tissue.shape, 4)


def _off_sample(rng: np.random.Generator, tissue: Floats) -> Floats:
    """From the matrix: around the tissue, at its rim, or anywhere without heeding it; the tissue shines through."""
    kind = rng.choice(["around", "rim", "anywhere"], p=[0.6, 0.2, 0.2])
    texture = _texture(rng, tissue.shape, int(rng.integers(3, 12)))
    leak = rng.uniform(0, 0.22)
    if kind == "around":
        outside = (1 - tissue) * (0.35 + 0.65 * texture)
        if rng.random() < 0.4:  # The matrix was sprayed on unevenly.
            outside *= _patches(rng, tissue.shape)
        return outside + leak * tissue
    if kind == "rim":
        return 4 * tissue * (1 - tissue) * (0.5 + 0.5 * texture) + (1 - tissue) * rng.uniform(0.1, 0.4) + leak
    slope = np.linspace(0, rng.uniform(0, 0.5), tissue.shape[1])[None, :]
    return 0.25 + 0.5 * texture + slope


def _as_measured(rng: np.random.Generator, intensity: Floats) -> NDArray[np.uint8]:
    """Few ions are counted; lines of the raster differ; a few pixels are far too hot, and the scale is cut for them."""
    counts = rng.uniform(2, 60)
    lines = rng.normal(1, rng.uniform(0, 0.12), size=(len(intensity), 1)).clip(0.3)
    measured = rng.poisson(np.clip(intensity * lines, 0, None) * counts) / counts
    hot = rng.random(measured.shape) < rng.uniform(0, 0.002)
    measured[hot] *= rng.uniform(2, 6)
    top = max(float(np.quantile(measured, 0.995)), 1e-6)
    return np.round(np.clip(measured / top, 0, 1) * 255).astype(np.uint8)


def _encoded(rng: np.random.Generator, grey: NDArray[np.uint8]) -> tuple[str, bytes]:
    """Grey or in the usual colours, as PNG or JPEG: what people export."""
    if rng.random() < 0.5:
        grey = _viridis()[grey]
    is_jpeg = rng.random() < 0.5
    stream = io.BytesIO()
    options = {"format": "JPEG", "quality": int(rng.integers(80, 96))} if is_jpeg else {"format": "PNG"}
    Image.fromarray(grey).save(stream, **options)
    return ("jpg" if is_jpeg else "png"), stream.getvalue()


def _viridis() -> NDArray[np.uint8]:
    """The colour of each grey."""
    at = np.linspace(0, 255, len(VIRIDIS))
    channels = [np.interp(np.arange(256), at, channel) for channel in zip(*VIRIDIS, strict=True)]
    return np.stack(channels, axis=1).round().astype(np.uint8)


def broken(data: bytes) -> bytes:
    """What is left of an image when its copying was cut off."""
    return data[: len(data) // 3]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=COUNT, help=f"how many images (default: {COUNT})")
    parser.add_argument("--seed", type=int, default=SEED, help=f"other images (default: {SEED})")
    parser.add_argument("--broken", type=int, default=0, help="how many of them are cut off (default: none)")
    parser.add_argument("--to", default=str(HERE / "images"), help="a folder, or s3:// (default: images)")
    parser.add_argument("--endpoint", help="the address of the S3 server")
    parser.add_argument("--truth", type=Path, default=TRUTH, help="where the labels go (default: truth.csv)")
    options = parser.parse_args(arguments)
    if options.count < 1 or not 0 <= options.broken <= options.count:
        parser.error("--count must be 1 or more, and --broken from 0 to --count")
    try:
        write(options.to, options.endpoint, options.truth, options.seed, options.count, options.broken)
    except ShoalError as error:
        parser.error(f"{error} {error.hint or ''}".strip())
    print(f"{options.count} images ({options.broken} broken) in {options.to}, labels in {options.truth}")
    return 0


def _writer(to: str, endpoint: str | None) -> Callable[[str, bytes], object]:
    if is_url(to):
        return open_storage(to, endpoint=endpoint).write
    folder = Path(to)
    folder.mkdir(parents=True, exist_ok=True)
    return lambda name, data: (folder / name).write_bytes(data)


def write(to: str, endpoint: str | None, truth: Path, seed: int, count: int, broken_ones: int) -> None:
    put = _writer(to, endpoint)
    with truth.open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(["name", "label"])
        for number, one in enumerate(ions(seed, count)):
            is_broken = number * broken_ones // count != (number + 1) * broken_ones // count
            put(one.name, broken(one.data) if is_broken else one.data)
            table.writerow([one.name, one.label])


if __name__ == "__main__":
    sys.exit(main())

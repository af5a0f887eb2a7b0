"""Pictures for the benchmark of inference: some that differ, from a seed, and any number of files by hard links.

python bench/infer_data.py FOLDER --files 10000 [--distinct 2000] [--seed 0]
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

SIDE = 224
QUALITY = 90
PER_FOLDER = 1000
DISTINCT = 2000


def picture(number: int, seed: int) -> bytes:
    """One JPEG: colours that change slowly, with some texture; the same for the same number and seed."""
    import io

    import numpy as np
    from PIL import Image

    random = np.random.default_rng((seed, number))
    layers = []
    for cells, strength in ((6, 90.0), (28, 26.0), (112, 13.0)):  # Slow, middle and fine structure.
        coarse = random.normal(0.0, strength, (cells, cells, 3)).astype(np.float32)
        planes = [Image.fromarray(coarse[:, :, channel]) for channel in range(3)]
        resized = [np.asarray(plane.resize((SIDE, SIDE), Image.Resampling.BICUBIC)) for plane in planes]
        layers.append(np.stack(resized, axis=-1))
    pixels = np.clip(sum(layers, np.float32(128.0)), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def make_distinct(folder: Path, count: int, seed: int = 0) -> list[Path]:
    """So many pictures that differ; those that are there already are kept."""
    within = folder / f"distinct-{seed}"
    within.mkdir(parents=True, exist_ok=True)
    paths = [within / f"{number:06d}.jpg" for number in range(count)]
    for number, path in enumerate(paths):
        if not path.exists():
            aside = path.with_suffix(".making")
            aside.write_bytes(picture(number, seed))
            aside.rename(path)
    return paths


def multiply(folder: Path, distinct: list[Path], count: int) -> Path:
    """A folder with exactly `count` pictures in folders of a thousand; again and again the distinct ones."""
    target = folder / f"files-{count}-of-{len(distinct)}"
    done = target.with_suffix(".complete")  # Beside it, so that nobody takes it for a picture.
    if done.exists():
        return target
    for start in range(0, count, PER_FOLDER):
        within = target / f"{start // PER_FOLDER:04d}"
        within.mkdir(parents=True, exist_ok=True)
        for number in range(start, min(start + PER_FOLDER, count)):
            link = within / f"{number:07d}.jpg"
            if not link.exists():
                os.link(distinct[number % len(distinct)], link)
    done.touch()
    return target


def list_pictures(folder: Path) -> list[str]:
    """All files of a folder that `multiply` made, in the order of their names."""
    paths = []
    for within in sorted(entry.path for entry in os.scandir(folder) if entry.is_dir()):
        paths += [entry.path for entry in os.scandir(within) if entry.name.endswith(".jpg")]
    return sorted(paths)


def main() -> int:
    parser = argparse.ArgumentParser(description="Make pictures for bench/infer.py.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, required=True, help="how many files there shall be")
    parser.add_argument("--distinct", type=int, default=DISTINCT, help="how many of them differ")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    distinct = make_distinct(arguments.folder, min(arguments.distinct, arguments.files), arguments.seed)
    print(multiply(arguments.folder, distinct, arguments.files))
    return 0


if __name__ == "__main__":
    sys.exit(main())

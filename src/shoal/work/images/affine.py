"""Resizing as torch's `grid_sample` does on the identity's `affine_grid`: bilinear, reflection, align_corners.

Without torch, to the last bits: a sample's place is computed in single precision as it is there, because an error of
one unit in a place of 500 pixels is seen in the fifth digit of the result.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def resized(pixels: Array, height: int, width: int) -> Array:
    """Height x width x channels as float32, in the units of the input."""
    rows, columns, channels = pixels.shape
    flat = pixels.reshape(rows, columns * channels)
    above, below, lower_share = _samples(rows, height)
    upper = _columns(flat.take(above, axis=0), columns, channels, width)
    lower = _columns(flat.take(below, axis=0), columns, channels, width)
    return _mixed(upper, lower, lower_share[:, None]).reshape(height, width, channels)


def _columns(flat: Array, columns: int, channels: int, width: int) -> Array:
    """Each row resampled. Channels count as columns: numpy takes single bytes much faster than three at once."""
    left, right, right_share = _samples(columns, width)
    channel = np.arange(channels)
    lefts, rights = ((side[:, None] * channels + channel).ravel() for side in (left, right))
    return _mixed(flat.take(lefts, axis=1), flat.take(rights, axis=1), np.repeat(right_share, channels))


def _mixed(first: Array, second: Array, share: Array) -> Array:
    result: Array = np.multiply(first, 1 - share, dtype=np.float32)
    result += np.multiply(second, share, dtype=np.float32)
    return result


@lru_cache(maxsize=1024)
def _samples(size: int, count: int) -> tuple[Array, Array, Array]:
    """For each of `count` samples along an axis of `size` pixels: its two neighbours, and the share of the second."""
    last = np.float32(size - 1)
    places = np.abs((_line(count) + np.float32(1)) * np.float32((size - 1) / 2))
    places = np.where(places > last, last - (places - last), places).clip(0, last)
    first = np.floor(places)
    share = (places - first).astype(np.float32)
    first_index = first.astype(np.intp)
    return first_index, np.minimum(first_index + 1, size - 1), share


def _line(count: int) -> Array:
    """From -1 to 1 as `torch.linspace` gives it: from both ends to the middle, each with one rounding."""
    if count == 1:
        return np.zeros(1, np.float32)
    step = float(np.float32(2) / np.float32(count - 1))
    index = np.arange(count)
    line = np.where(index < count // 2, step * index - 1, 1 - step * (count - 1 - index))
    return line.astype(np.float32)

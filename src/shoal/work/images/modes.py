"""Pixels in other modes as RGB or grey, as Pillow converts them, except those of 16 bits.

Pillow cuts 16-bit grey off at 255, which makes nearly everything white. Here its upper 8 bits count, as they do in
Pillow for 16-bit colour: 65535 becomes 255. Whole or floating numbers of 32 bits have no range to scale from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from shoal.work.images.reasons import one_line
from shoal.work.protocols import Unreadable


def converted(image: Image.Image, mode: str) -> Image.Image:
    """The image in mode `RGB` or `L`. Raises `Unreadable` where there is no way."""
    if image.mode == mode:
        return image
    if _is_16_bit(image):
        image = Image.fromarray(_upper_byte(np.asarray(image)))
    elif image.mode in ("I", "F"):
        kind = "whole" if image.mode == "I" else "floating-point"
        raise Unreadable(f"pixels are {kind} numbers of 32 bits: what is white, and what black, is not known")
    try:
        return image if image.mode == mode else image.convert(mode)
    except (ValueError, OSError) as error:
        raise Unreadable(
            f"cannot turn pixels in mode {image.mode} into {mode}: {one_line(str(error))}"
        ) from None


def _is_16_bit(image: Image.Image) -> bool:
    """Older versions of Pillow, and all of them for PPM, give 16 bits as 32."""
    return image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM"))


def _upper_byte(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    upper: np.ndarray[Any, Any] = np.clip(pixels, 0, 65_535) >> 8
    return upper.astype(np.uint8)

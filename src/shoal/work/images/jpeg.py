"""JPEGs through libjpeg-turbo (simplejpeg), where the pixels are those that Pillow gives, and their damage.

Pillow does not say when data are corrupt, as long as they end in the right way: it gives a half-grey picture.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.work.images.formats import damaged, too_many_pixels

try:
    import simplejpeg
except ImportError:  # then Pillow decodes all of them
    simplejpeg = None

if TYPE_CHECKING:
    import numpy as np

PLAIN = ("YCbCr", "RGB", "Gray")
"""What libjpeg turns into RGB. CMYK differs by one from Pillow, which does that itself."""
DAMAGE = ("premature end", "corrupt jpeg data", "inconsistent progression")
"""In warnings of libjpeg. Others are harmless (an unknown version), or errors that Pillow meets, too."""
SMALLEST_SCALED = 64
"""Below this side, a smaller scale saves nothing."""


class Header(NamedTuple):
    width: int
    height: int
    colours: str = ""


def header(raw: bytes) -> Header | None:
    """What the file says of itself; None where only Pillow may know."""
    if simplejpeg is None:
        return None
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(raw)
    except ValueError:
        return None
    return Header(width, height, colours)


def decode(raw: bytes, found: Header, colours: str, factor: int = 1) -> np.ndarray[Any, Any] | None:
    """Pixels as `RGB` or `GRAY`, height x width x channels; None where Pillow has to try. `Unreadable` when damaged.

    With a `factor` of 2, 4 or 8, by so much smaller.
    """
    smallest = {} if factor == 1 else _smallest(found, factor)
    try:
        pixels: np.ndarray[Any, Any] = simplejpeg.decode_jpeg(raw, colours, **smallest)
    except ValueError as error:
        _raise_damage(raw, str(error))
        return None
    return pixels


def check(raw: bytes, most_pixels: int) -> None:
    """`Unreadable` when damaged or too large. Costs half of decoding; says nothing where it cannot know."""
    found = header(raw)
    if found is None:
        return
    if found.width * found.height > most_pixels:
        raise too_many_pixels(found.width, found.height, most_pixels)
    decode(raw, found, "GRAY" if found.colours in PLAIN else "CMYK", 8)


def factor_for(found: Header, width: int, height: int) -> int:
    """By how much smaller it can be decoded and still has this width and height; as Pillow's `draft` chooses."""
    if min(found.width, found.height) < SMALLEST_SCALED:
        return 1
    scale = min(found.width // width, found.height // height)
    return next(factor for factor in (8, 4, 2, 1) if factor <= max(scale, 1))


def _smallest(found: Header, factor: int) -> dict[str, int]:
    height, width = -(-found.height // factor), -(-found.width // factor)
    return {"min_height": height, "min_width": width, "min_factor": factor}


def _raise_damage(raw: bytes, message: str) -> None:
    if not any(sign in message.lower() for sign in DAMAGE):
        return
    surplus = re.search(r"(\d+) extraneous bytes before marker 0xd9", message)
    if surplus and bytes(int(surplus[1])) + b"\xff\xd9" in raw:
        return  # Some cameras fill the end with zeros; the picture is whole.
    raise damaged("JPEG", message)

"""Opening an image with Pillow: only known formats, not too large, the first frame, whole, and without warnings.

What Pillow gives is kept: EXIF orientation is not applied, and transparency is dropped when colours are converted.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from PIL import Image, ImageFile
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.PpmImagePlugin import PpmImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from shoal.work.images import jpeg, png
from shoal.work.images.formats import format_of, gif_size, webp_size
from shoal.work.images.reasons import not_decoded, one_line, too_many_pixels
from shoal.work.protocols import Unreadable

READERS: dict[str, Any] = {
    "JPEG": JpegImageFile,
    "PNG": PngImageFile,
    "GIF": GifImageFile,
    "BMP": BmpImageFile,
    "TIFF": TiffImageFile,
    "WebP": WebPImageFile,
    "PPM": PpmImageFile,
}
"""Called by themselves, not through `Image.open`: it has a limit of its own, and tries one format after the other."""

_QUIET = ("ignore", None, Warning, re.compile(r"PIL\."), 0)
_TILE_WIDTH, _TILE_LENGTH = 322, 323


class Decoded(NamedTuple):
    """The first frame, in the mode of its own, and the width and height that the file has."""

    image: Image.Image
    size: tuple[int, int]


def open_image(raw: bytes, most_pixels: int) -> Image.Image:
    """The first frame, decoded, in the mode of its own. Raises `Unreadable`; nothing else."""
    name = format_of(raw)
    if name == "JPEG":
        jpeg.check(raw, most_pixels)
    return decode(raw, name, most_pixels).image


def decode(
    raw: bytes, name: str, most_pixels: int, resized: Callable[[int, int], tuple[int, int]] | None = None
) -> Decoded:
    """The same of a known format. With `resized`, which says what it becomes, a large JPEG may come out smaller."""
    silence()
    try:
        image = _header(raw, name, most_pixels)
        size = image.size
        if resized is not None and name == "JPEG":
            _scale(image, resized)
        image.load()
        if name == "PNG":
            _check_png(raw, image)
    except Unreadable:
        raise
    except MemoryError:
        raise Unreadable(f"memory does not suffice to decode it as {name}") from None
    except Exception as error:  # noqa: BLE001 - damaged files make Pillow raise almost anything
        raise not_decoded(name, error) from None
    return Decoded(image, size)


def _scale(image: ImageFile.ImageFile, resized: Callable[[int, int], tuple[int, int]]) -> None:
    width, height = image.size
    factor = jpeg.factor_for(jpeg.Header(width, height), *resized(width, height))
    if factor > 1:
        image.draft(None, (width // factor, height // factor))


def _header(raw: bytes, name: str, most_pixels: int) -> ImageFile.ImageFile:
    size = webp_size(raw) if name == "WebP" else gif_size(raw) if name == "GIF" else None
    if size is not None:
        check_size(size, most_pixels)
    allow(most_pixels)
    image: ImageFile.ImageFile = READERS[name](io.BytesIO(raw))
    check_size(image.size, most_pixels)
    if name == "TIFF":  # A tile is decoded as a whole, however small the image in it.
        tags = image.tag_v2
        check_size((tags.get(_TILE_WIDTH, 1), tags.get(_TILE_LENGTH, 1)), most_pixels, " in a tile")
    if name == "PNG":
        png.check_sums(raw)
    return image


def _check_png(raw: bytes, image: Image.Image) -> None:
    """Rows that are missing are zeros; only then it is worth to look."""
    width, height = image.size
    last_row = image.crop((0, height - 1, width, height)).tobytes()
    if png.is_interlaced(raw) or not any(last_row):
        png.check_rows(raw)


def check_size(size: tuple[int, int], most_pixels: int, when: str = "") -> None:
    """`Unreadable` for what is larger than allowed, or has no size at all."""
    width, height = size
    if width < 1 or height < 1:
        raise Unreadable(one_line(f"{width} x {height} pixels{when}: there is nothing in it"))
    if width * height > most_pixels:
        raise too_many_pixels(width, height, most_pixels, when)


def allow(most_pixels: int) -> None:
    """Pillow has a limit for the whole process; whoever asks for larger images means that one, too."""
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and limit < most_pixels:
        Image.MAX_IMAGE_PIXELS = most_pixels


def silence() -> None:
    """Keep Pillow from warning about what it finds in a file: the log is for people.

    A filter for the process instead of `catch_warnings`, which several threads may not use at once.
    """
    if _QUIET not in warnings.filters:
        warnings.filterwarnings("ignore", module=_QUIET[3].pattern)

"""Images through Pillow: only known formats, not too large, whole, in known modes; and damage it does not see."""

from __future__ import annotations

import io
import re
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageFile
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.PpmImagePlugin import PpmImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from shoal.work.images import jpeg
from shoal.work.images.formats import (
    damaged,
    format_of,
    gif_size,
    not_decoded,
    one_line,
    too_many_pixels,
    webp_size,
)
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
CRITICAL = (b"IHDR", b"PLTE", b"IDAT")
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
INTERLACED = (
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)
"""The seven passes: the first column and row of each, and its steps."""
BLOCK_BYTES = 1 << 16


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
        check_sums(raw)
    return image


def _check_png(raw: bytes, image: Image.Image) -> None:
    """Rows that are missing are zeros; only then it is worth to look."""
    width, height = image.size
    last_row = image.crop((0, height - 1, width, height)).tobytes()
    if is_interlaced(raw) or not any(last_row):
        check_rows(raw)


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


def check_sums(raw: bytes) -> None:
    """`Unreadable` when a chunk that makes the picture is not as it was written."""
    for kind, start, end in _chunks(raw):
        if zlib.crc32(memoryview(raw)[start - 4 : end]) != int.from_bytes(raw[end : end + 4], "big"):
            raise damaged("PNG", f"wrong checksum of a {kind.decode()} chunk")


def check_rows(raw: bytes) -> None:
    """`Unreadable` when the pixels end too early, in data that are whole otherwise. Decompresses all of them."""
    missing = _expected_bytes(raw)
    inflate = zlib.decompressobj()
    for kind, start, end in _chunks(raw):
        rest = raw[start:end] if kind == b"IDAT" else b""
        while missing > 0 and (piece := inflate.decompress(rest, BLOCK_BYTES)):
            missing -= len(piece)
            rest = inflate.unconsumed_tail
    if missing > 0:
        raise damaged("PNG", "rows are missing")


def is_interlaced(raw: bytes) -> bool:
    return len(raw) > 28 and raw[28] != 0


def _chunks(raw: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Kind, start and end of the data, of the whole chunks that make the first picture."""
    start = 8
    while start + 12 <= len(raw):
        end = start + 8 + int.from_bytes(raw[start : start + 4], "big")
        kind = bytes(raw[start + 4 : start + 8])
        if kind == b"IEND" or end + 4 > len(raw):
            return
        if kind in CRITICAL:
            yield kind, start + 8, end
        start = end + 4


def _expected_bytes(raw: bytes) -> int:
    width, height = int.from_bytes(raw[16:20], "big"), int.from_bytes(raw[20:24], "big")
    bits = raw[24] * CHANNELS.get(raw[25], 1)
    passes = INTERLACED if is_interlaced(raw) else ((0, 0, 1, 1),)
    total = 0
    for left, top, step_x, step_y in passes:
        columns, rows = -(-(width - left) // step_x), -(-(height - top) // step_y)
        if columns > 0 and rows > 0:
            total += rows * (1 + -(-columns * bits // 8))
    return total

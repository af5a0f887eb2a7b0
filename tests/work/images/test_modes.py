"""Colours: what becomes of grey, palettes, transparency, CMYK, 1 bit, 16 bits and 32 bits."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shoal.spec.shared_sections import ImagePreparation
from shoal.work.images import image_preparation
from shoal.work.protocols import Unreadable

HEIGHT, WIDTH = 9, 13
COLOURS = Image.fromarray(np.random.default_rng(7).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8))


def encoded(image: Image.Image, name: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, name, **options)
    return file.getvalue()


def one(raw: bytes, mode: str, size: tuple[int, int] = (HEIGHT, WIDTH)) -> np.ndarray[Any, Any]:
    return image_preparation(ImagePreparation(size=size, mode=mode)).one(raw)


def files() -> dict[str, bytes]:
    half_clear = COLOURS.convert("RGBA")
    half_clear.putalpha(Image.linear_gradient("L").resize((WIDTH, HEIGHT)))
    palette = COLOURS.quantize(8)
    others = [Image.new("P", (WIDTH, HEIGHT), colour) for colour in (1, 2)]
    return {
        "rgb": encoded(COLOURS, "PNG"),
        "grey": encoded(COLOURS.convert("L"), "PNG"),
        "one-bit": encoded(COLOURS.convert("1"), "PNG"),
        "one-bit-tiff": encoded(COLOURS.convert("1"), "TIFF", compression="group4"),
        "palette": encoded(palette, "PNG"),
        "palette-one-clear": encoded(palette, "PNG", transparency=3),
        "palette-some-clear": encoded(palette, "PNG", transparency=bytes(range(0, 240, 30))),
        "grey-alpha": encoded(half_clear.convert("LA"), "PNG"),
        "rgb-alpha": encoded(half_clear, "PNG"),
        "rgb-alpha-webp": encoded(half_clear, "WEBP", lossless=True),
        "rgb-clear-colour": encoded(COLOURS, "PNG", transparency=(1, 2, 3)),
        "cmyk-tiff": encoded(COLOURS.convert("CMYK"), "TIFF"),
        "cmyk-jpeg": encoded(COLOURS.convert("CMYK"), "JPEG"),
        "ycbcr-tiff": encoded(COLOURS.convert("YCbCr"), "TIFF"),
        "gif-clear": encoded(palette, "GIF", transparency=2),
        "gif-animated": encoded(palette, "GIF", save_all=True, append_images=others, loop=0),
        "tiff-pages": encoded(COLOURS, "TIFF", save_all=True, append_images=[COLOURS.rotate(180)]),
        "png-animated": encoded(COLOURS, "PNG", save_all=True, append_images=[COLOURS.rotate(180)]),
    }


@pytest.mark.parametrize("name", files())
@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
def test_colours_are_those_that_pillow_converts_to(name: str, mode: str) -> None:
    raw = files()[name]
    for size in ((HEIGHT, WIDTH), (5, 20)):
        expected = Image.open(io.BytesIO(raw)).convert(mode).resize(size[::-1], Image.Resampling.BILINEAR)
        ours = one(raw, mode, size)
        assert ours.shape == (*size, 3 if mode == "RGB" else 1)
        assert np.array_equal(ours.squeeze(), np.asarray(expected))


def test_transparency_is_dropped_not_laid_on_a_background() -> None:
    clear = Image.new("RGBA", (WIDTH, HEIGHT), (10, 20, 30, 0))
    assert one(encoded(clear, "PNG"), "RGB").reshape(-1, 3).tolist() == [[10, 20, 30]] * (WIDTH * HEIGHT)


VALUES = np.array([[0, 1, 255, 256, 257, 300, 4095, 32_767, 32_768, 65_279, 65_280, 65_535]], np.uint16)
UPPER = [0, 0, 0, 1, 1, 1, 15, 127, 128, 254, 255, 255]


def sixteen_bits() -> dict[str, bytes]:
    grey = Image.fromarray(VALUES)
    big_endian = VALUES.astype(">u2").tobytes()
    swapped = Image.frombytes("I;16B", (12, 1), big_endian)
    return {
        "png": encoded(grey, "PNG"),
        "tiff": encoded(grey, "TIFF"),
        "tiff-big-endian": encoded(swapped, "TIFF"),
        "pgm": b"P5 12 1 65535\n" + big_endian,
    }


@pytest.mark.parametrize("name", sixteen_bits())
def test_grey_of_sixteen_bits_is_scaled_not_cut_off(name: str) -> None:
    raw = sixteen_bits()[name]
    assert one(raw, "L", (1, 12)).ravel().tolist() == UPPER
    assert one(raw, "RGB", (1, 12))[0].tolist() == [[value] * 3 for value in UPPER]


def test_grey_of_sixteen_bits_is_as_colour_of_sixteen_bits() -> None:
    data = b"P6 12 1 65535\n" + np.repeat(VALUES.astype(">u2"), 3).tobytes()
    colours = one(data, "RGB", (1, 12))[0, :, 0].astype(int)
    assert np.abs(colours - UPPER).max() <= 1  # Pillow rounds in this format.


@pytest.mark.parametrize(("dtype", "kind"), [(np.int32, "whole"), (np.float32, "floating-point")])
def test_pixels_of_32_bits_are_refused_for_their_range_is_not_known(dtype: Any, kind: str) -> None:
    raw = encoded(Image.fromarray(np.zeros((HEIGHT, WIDTH), dtype)), "TIFF")
    with pytest.raises(Unreadable, match=f"pixels are {kind} numbers of 32 bits"):
        one(raw, "RGB")


def test_a_mode_that_pillow_cannot_convert_is_refused_and_named() -> None:
    lab = Image.frombytes("LAB", (WIDTH, HEIGHT), bytes(WIDTH * HEIGHT * 3))
    with pytest.raises(Unreadable, match="pixels in mode LAB into L"):
        one(encoded(lab, "TIFF"), "L")


def test_more_channels_than_any_mode_has_are_refused() -> None:
    tags = [(256, 4), (257, 4), (258, 8), (259, 1), (262, 2), (273, 8), (277, 7), (278, 4), (279, 112)]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    raw = b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(tags)) + entries + bytes(120)
    with pytest.raises(Unreadable, match="not readable as TIFF"):
        one(raw, "RGB")

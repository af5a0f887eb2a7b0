"""JPEGs through simplejpeg: the pixels that Pillow gives, at any sampling, and damage that Pillow keeps to itself."""

from __future__ import annotations

import io
import itertools
import struct
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shoal.spec.shared_sections import ImagePreparation
from shoal.work.images import image_preparation, jpeg, open_image
from shoal.work.protocols import Unreadable

KINDS = ("RGB", "L", "CMYK")
SIZES = ((1, 1), (7, 5), (16, 16), (17, 31), (64, 65), (2, 150), (97, 33))


def picture(width: int, height: int, mode: str = "RGB") -> Image.Image:
    """Noise over a slope: details for the decoder to get wrong."""
    noise = np.random.default_rng(width * 1000 + height).integers(0, 90, (height, width, 3))
    slope = np.linspace(0, 160, height * width * 3).reshape(height, width, 3)
    return Image.fromarray((noise + slope).astype(np.uint8)).convert(mode)


def encoded(image: Image.Image, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", **options)
    return file.getvalue()


def pillow(raw: bytes, mode: str) -> np.ndarray[Any, Any]:
    pixels = np.asarray(Image.open(io.BytesIO(raw)).convert(mode))
    return pixels if pixels.ndim == 3 else pixels[:, :, None]


def as_it_is(raw: bytes, mode: str, **asked: Any) -> np.ndarray[Any, Any]:
    width, height = Image.open(io.BytesIO(raw)).size
    spec = ImagePreparation(size=(height, width), mode=mode, resize="none", **asked)
    return image_preparation(spec).one(raw)


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_the_pixels_are_those_of_pillow(kind: str, subsampling: str, mode: str) -> None:
    for (width, height), progressive, quality in itertools.product(SIZES, (False, True), (10, 75, 100)):
        image = picture(width, height, kind)
        raw = encoded(image, subsampling=subsampling, progressive=progressive, quality=quality)
        ours = as_it_is(raw, mode)
        assert ours.dtype == np.uint8
        assert ours.flags.c_contiguous
        assert np.array_equal(ours, pillow(raw, mode)), (width, height, progressive, quality)


@pytest.mark.parametrize(
    "options",
    [
        {"restart_marker_blocks": 3},
        {"restart_marker_rows": 1},
        {"optimize": True},
        {"keep_rgb": True},
        {"exif": Image.Exif()},
        {"comment": b"what a picture"},
        {"icc_profile": b"\0" * 200},
    ],
    ids=lambda options: next(iter(options)),
)
def test_the_pixels_are_those_of_pillow_whatever_else_is_in_the_file(options: dict[str, Any]) -> None:
    raw = encoded(picture(61, 43), **options)
    for mode in ("RGB", "L"):
        assert np.array_equal(as_it_is(raw, mode), pillow(raw, mode))


def test_an_orientation_in_exif_is_not_applied_as_in_pillow() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    raw = encoded(picture(30, 20), exif=exif)
    assert as_it_is(raw, "RGB").shape == (20, 30, 3)


def test_plain_jpegs_do_not_go_through_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    from shoal.work.images import pillow as pillow_module

    monkeypatch.setattr(pillow_module, "READERS", {})
    raw = encoded(picture(32, 32))
    assert as_it_is(raw, "RGB").shape == (32, 32, 3)
    with pytest.raises(Unreadable):
        as_it_is(encoded(picture(32, 32, "CMYK")), "RGB")


@pytest.mark.parametrize("kind", KINDS)
def test_without_simplejpeg_pillow_gives_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = encoded(picture(300, 200, kind))
    asked = ({"decode": "exact", "size": (50, 40)}, {"decode": "scaled", "size": (50, 40)})
    preparations = [image_preparation(ImagePreparation(**each)) for each in asked]
    with_it = [each.one(raw) for each in preparations]
    monkeypatch.setattr(jpeg, "simplejpeg", None)
    for one, prepare in zip(with_it, preparations, strict=True):
        assert np.array_equal(one, prepare.one(raw))
    with pytest.raises(Unreadable, match="truncated"):
        preparations[0].one(raw[: len(raw) // 2])


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("kind", KINDS)
def test_scaled_decoding_is_that_of_pillows_draft(kind: str, subsampling: str) -> None:
    sizes = ((640, 480), (451, 225), (1000, 777), (100, 900))
    for (width, height), (wide, high), progressive in itertools.product(
        sizes, ((50, 60), (100, 100), (224, 224)), (False, True)
    ):
        raw = encoded(picture(width, height, kind), subsampling=subsampling, progressive=progressive)
        prepare = image_preparation(ImagePreparation(size=(high, wide), decode="scaled"))
        drafted: Any = Image.open(io.BytesIO(raw))
        drafted.draft(None, (wide, high))
        expected = drafted.convert("RGB").resize((wide, high), Image.Resampling.BILINEAR)
        assert np.array_equal(prepare.one(raw), np.asarray(expected)), (width, height, wide, high)


@pytest.mark.parametrize(
    ("width", "height", "factor"),
    [
        (224, 224, 1),
        (447, 448, 1),
        (448, 448, 2),
        (895, 2000, 2),
        (896, 896, 4),
        (1792, 1792, 8),
        (9000, 9000, 8),
    ],
)
def test_the_smallest_scale_is_taken_that_still_covers_the_size(width: int, height: int, factor: int) -> None:
    assert jpeg.factor_for(jpeg.Header(width, height), 224, 224) == factor


def test_scaled_decoding_is_not_slower_than_it_looks() -> None:
    """It really decodes fewer pixels: what comes out is not what a full decoding gives."""
    raw = encoded(picture(640, 640))
    exact, scaled = (
        image_preparation(ImagePreparation(size=(80, 80), decode=way)) for way in ("exact", "scaled")
    )
    assert not np.array_equal(exact.one(raw), scaled.one(raw))


def cut_and_closed(raw: bytes) -> bytes:
    """Half of the data, with a proper end: Pillow gives half of the picture, and grey."""
    return raw[: len(raw) // 2] + b"\xff\xd9"


@pytest.mark.parametrize("progressive", [False, True], ids=["baseline", "progressive"])
@pytest.mark.parametrize("kind", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_half_a_jpeg_with_an_end_is_damaged_not_half_grey(kind: str, mode: str, progressive: bool) -> None:
    raw = encoded(picture(200, 200, kind), progressive=progressive, subsampling="4:4:4")
    Image.open(io.BytesIO(cut_and_closed(raw))).load()  # Pillow sees nothing.
    prepare = image_preparation(ImagePreparation(size=(64, 64), mode=mode))
    with pytest.raises(Unreadable, match=r"damaged JPEG: .*premature end"):
        prepare.one(cut_and_closed(raw))
    with pytest.raises(Unreadable, match=r"damaged JPEG: .*premature end"):
        open_image(cut_and_closed(raw), 10**6)


def test_a_jpeg_whose_end_is_filled_with_zeros_is_whole() -> None:
    raw = encoded(picture(64, 64))
    padded = raw[:-2] + bytes(500) + b"\xff\xd9"
    assert np.array_equal(as_it_is(padded, "RGB"), pillow(raw, "RGB"))


def test_a_jpeg_with_something_behind_its_end_is_whole() -> None:
    raw = encoded(picture(64, 64))
    assert np.array_equal(as_it_is(raw + b"more" * 100, "RGB"), pillow(raw, "RGB"))


def test_overwritten_data_are_damage() -> None:
    raw = encoded(picture(224, 224), quality=95)
    middle = len(raw) // 2
    for start in range(middle, middle + 2000, 100):
        with pytest.raises(Unreadable, match="damaged JPEG: "):
            as_it_is(raw[:start] + bytes(300) + raw[start + 300 :], "RGB")


def test_a_jpeg_of_twelve_bits_is_unreadable_in_one_line() -> None:
    raw = bytearray(encoded(picture(32, 32)))
    start = raw.index(b"\xff\xc0")
    raw[start + 4] = 12
    with pytest.raises(Unreadable) as caught:
        image_preparation(ImagePreparation(size=(32, 32))).one(bytes(raw))
    assert "\n" not in str(caught.value)


def test_the_size_in_the_header_is_what_counts() -> None:
    raw = bytearray(encoded(picture(32, 32)))
    start = raw.index(b"\xff\xc0")
    struct.pack_into(">HH", raw, start + 5, 30_000, 30_000)
    with pytest.raises(Unreadable, match=r"^30000 x 30000 pixels, more than most_pixels: 89478485$"):
        image_preparation(ImagePreparation(size=(32, 32))).one(bytes(raw))

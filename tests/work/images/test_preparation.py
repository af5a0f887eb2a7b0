"""Resizing, cropping and batches, against Pillow and against plain arithmetic."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shoal.spec.shared_sections import NORMALIZATIONS, ImagePreparation
from shoal.work.images import image_preparation
from shoal.work.images.preparation import FILTERS, Box, middle, shorter_side
from shoal.work.protocols import Prepare, Unreadable

CHANCE = np.random.default_rng(11)


def picture(width: int, height: int) -> Image.Image:
    return Image.fromarray(CHANCE.integers(0, 256, (height, width, 3), dtype=np.uint8))


def encoded(image: Image.Image, name: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, name, **options)
    return file.getvalue()


def prepared(**asked: Any) -> Prepare:
    return image_preparation(ImagePreparation(**asked))


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("size", [(20,), (50, 17), (1, 1), (40, 61)])
def test_stretching_is_pillows_resize(name: str, mode: str, size: tuple[int, ...]) -> None:
    for raw in (encoded(picture(61, 40)), encoded(picture(61, 40), "JPEG")):
        expected = Image.open(io.BytesIO(raw)).convert(mode).resize((size[-1], size[0]), FILTERS[name])
        ours = prepared(size=size, mode=mode, filter=name).one(raw)
        assert np.array_equal(ours.squeeze(), np.asarray(expected).squeeze())
        assert ours.flags.c_contiguous
        assert ours.dtype == np.uint8
        assert ours.shape == (size[0], size[-1], 3 if mode == "RGB" else 1)


@pytest.mark.parametrize(
    ("width", "height", "side", "expected"),
    [
        (500, 375, 256, (341, 256)),
        (375, 500, 256, (256, 341)),
        (256, 256, 256, (256, 256)),
        (1, 3, 10, (10, 30)),
        (641, 481, 256, (341, 256)),
        (100, 333, 7, (7, 23)),
    ],
)
def test_the_shorter_side_is_scaled_as_torchvision_does(
    width: int, height: int, side: int, expected: tuple[int, int]
) -> None:
    assert shorter_side(width, height, side) == expected


@pytest.mark.parametrize(
    ("length", "crop", "start"),
    [
        (341, 224, 58),
        (256, 224, 16),
        (225, 224, 0),
        (227, 224, 2),
        (229, 224, 2),
        (224, 224, 0),
        (9, 12, -1),
        (8, 12, -2),
    ],
)
def test_the_middle_is_where_torchvision_cuts(length: int, crop: int, start: int) -> None:
    """Halves are rounded to even: 58.5 to 58, 0.5 to 0, 1.5 to 2, 2.5 to 2."""
    assert middle(length, length, crop, crop) == Box(start, start, crop, crop)


@pytest.mark.parametrize("name", ["PNG", "JPEG"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_shorter_resizes_and_cuts_out_the_middle(name: str, mode: str) -> None:
    raw = encoded(picture(101, 67), name)
    image = Image.open(io.BytesIO(raw)).convert(mode).resize((48, 32), Image.Resampling.BILINEAR)
    expected = np.asarray(image.crop((8, 2, 40, 30)))
    ours = prepared(size=(28, 32), mode=mode, resize="shorter", resize_to=32).one(raw)
    assert np.array_equal(ours.squeeze(), expected)
    assert ours.flags.c_contiguous


def test_shorter_alone_makes_the_image_as_large_as_the_larger_side_of_the_size() -> None:
    raw = encoded(picture(100, 50))
    image = Image.open(io.BytesIO(raw)).resize((80, 40), Image.Resampling.BILINEAR)
    assert np.array_equal(prepared(size=(30, 40), resize="shorter").one(raw), np.asarray(image)[5:35, 20:60])


def test_an_image_smaller_than_the_crop_has_a_black_border() -> None:
    raw = encoded(Image.new("RGB", (40, 20), (9, 9, 9)))
    ours = prepared(size=(30, 30), resize="shorter", resize_to=20).one(raw)
    assert ours.shape == (30, 30, 3)
    assert (ours[:, 0, 0] != 0).tolist() == [False] * 5 + [True] * 20 + [False] * 5


def test_a_strip_does_not_become_a_giant() -> None:
    raw = encoded(Image.new("L", (20_000, 1)))
    with pytest.raises(Unreadable, match="4480000 x 224 pixels after resizing, more than most_pixels"):
        prepared(size=(224,), resize="shorter").one(raw)


def test_without_resizing_the_size_has_to_fit() -> None:
    raw = encoded(picture(31, 20))
    assert prepared(size=(20, 31), resize="none").one(raw).shape == (20, 31, 3)
    with pytest.raises(Unreadable, match=r"^31 x 20 pixels, not 20 x 31, and resize is none$"):
        prepared(size=(31, 20), resize="none").one(raw)


@pytest.mark.parametrize("resize", ["stretch", "shorter", "affine"])
def test_an_image_of_one_pixel_is_an_image(resize: str) -> None:
    ours = prepared(size=(4,), resize=resize).one(encoded(Image.new("RGB", (1, 1), (1, 2, 3))))
    assert ours.reshape(-1, 3).tolist() == [[1, 2, 3]] * 16


@pytest.mark.parametrize("normalize", [*NORMALIZATIONS.values(), ((0.1, 0.2, 0.3), (2.0, 3.0, 4.0))])
@pytest.mark.parametrize("scale", [255, 1, 127.5])
def test_a_batch_is_divided_then_normalised(normalize: Any, scale: float) -> None:
    images = [CHANCE.integers(0, 256, (6, 5, 3), dtype=np.uint8) for _ in range(4)]
    ours = prepared(size=(6, 5), scale=scale, normalize=normalize).batch(images)
    mean, deviation = (np.array(part, np.float32).reshape(-1, 1, 1) for part in normalize)
    expected = (
        np.stack(images).transpose(0, 3, 1, 2).astype(np.float32) / np.float32(scale) - mean
    ) / deviation
    assert ours.dtype == np.float32
    assert ours.flags.c_contiguous
    assert np.array_equal(ours, expected)


def test_a_batch_of_grey_images_has_one_channel() -> None:
    prepare = prepared(size=(6, 5), mode="L", normalize=((0.5,), (0.25,)))
    ours = prepare.batch([prepare.one(encoded(picture(9, 9))) for _ in range(3)])
    assert ours.shape == (3, 1, 6, 5)


def test_a_batch_of_nothing_is_an_array_of_nothing() -> None:
    assert prepared(size=(6, 5)).batch([]).shape == (0, 3, 6, 5)


def test_a_batch_does_not_change_what_it_is_made_of() -> None:
    image = CHANCE.integers(0, 256, (6, 5, 3), dtype=np.uint8)
    before = image.copy()
    prepared(size=(6, 5), normalize=NORMALIZATIONS["imagenet"]).batch([image])
    assert np.array_equal(image, before)

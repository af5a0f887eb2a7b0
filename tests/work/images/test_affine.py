"""`resize: affine` against a table that torch made; test_affine_torch.py asks torch itself."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from shoal.spec.shared_sections import ImagePreparation
from shoal.work.images import image_preparation
from shoal.work.images.preparation import resized

IMAGE = np.array([[[0], [51], [255]], [[102], [204], [153]]], np.uint8)
TABLE = {
    (3, 5): [[0.0, 0.1, 0.2, 0.6, 1.0], [0.2, 0.35, 0.5, 0.65, 0.8], [0.4, 0.6, 0.8, 0.7, 0.6]],
    (1, 2): [[0.2, 0.8]],
}


@pytest.mark.parametrize("size", TABLE)
def test_the_samples_are_those_of_grid_sample(size: tuple[int, int]) -> None:
    assert resized(IMAGE, *size)[:, :, 0] / 255 == pytest.approx(np.array(TABLE[size]), abs=1e-6)


def test_one_gives_floating_numbers_and_a_batch_scales_them() -> None:
    file = io.BytesIO()
    Image.fromarray(IMAGE[:, :, 0]).save(file, "PNG")
    spec = ImagePreparation(size=(3, 5), mode="L", resize="affine", normalize=((0.5,), (0.5,)))
    prepare = image_preparation(spec)
    one = prepare.one(file.getvalue())
    assert one.dtype == np.float32
    assert one.shape == (3, 5, 1)
    assert one.flags.c_contiguous
    expected = (np.array(TABLE[3, 5]) - 0.5) / 0.5
    assert prepare.batch([one])[0, 0] == pytest.approx(expected, abs=1e-6)


def test_corners_stay_corners_at_any_size() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (37, 53, 3), dtype=np.uint8)
    result = resized(pixels, 224, 224)
    for corner in ((0, 0), (0, -1), (-1, 0), (-1, -1)):
        assert result[corner] == pytest.approx(pixels[corner].astype(float), abs=1e-2)

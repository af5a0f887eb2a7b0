"""Batches that a GPU finishes: the numbers have to be those that processors compute."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from shoal.spec.shared_sections import NORMALIZATIONS, ImagePreparation
from shoal.work.images import image_preparation

IMAGENET = NORMALIZATIONS["imagenet"]


def images(count, prepare):
    random = np.random.default_rng(4)
    for _ in range(count):
        file = io.BytesIO()
        Image.fromarray(random.integers(0, 256, (20, 24, 3), np.uint8)).save(file, "PNG")
        yield prepare.one(file.getvalue())


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_batch_for_a_gpu_stands_for_the_array_that_others_get(mode):
    spec = ImagePreparation(
        size=(16, 12), mode=mode, normalize=IMAGENET if mode == "RGB" else ((0.4,), (0.2,))
    )
    here, there = image_preparation(spec), image_preparation(spec, on_gpu=True)
    prepared = list(images(3, here))
    wanted, pixels = here.batch(prepared), there.batch(prepared)
    assert pixels.values.dtype == np.uint8
    assert (pixels.shape, pixels.ndim, len(pixels), pixels.dtype) == (wanted.shape, 4, 3, wanted.dtype)
    assert np.array_equal(pixels.array(), wanted)


def test_what_is_resized_by_grid_sample_is_no_bytes_and_goes_as_numbers():
    spec = ImagePreparation(size=(16,), resize="affine")
    prepare = image_preparation(spec, on_gpu=True)
    assert isinstance(prepare.batch(list(images(2, prepare))), np.ndarray)


@pytest.mark.torch
def test_torch_computes_the_same_numbers_from_the_bytes():
    import torch

    from shoal.work.models.torch_runtime import _computed

    prepare = image_preparation(ImagePreparation(size=(16,), normalize=IMAGENET), on_gpu=True)
    pixels = prepare.batch(list(images(5, prepare)))
    found = _computed(torch.from_numpy(pixels.values), pixels).numpy()
    assert np.abs(found - pixels.array()).max() < 1e-6

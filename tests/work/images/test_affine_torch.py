"""`resize: affine` and torch's own `grid_sample`, side by side."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shoal.spec.shared_sections import ImagePreparation
from shoal.work.images import image_preparation

torch: Any = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.always,
    pytest.mark.filterwarnings("ignore:Since version 1.3.0, affine_grid behavior has changed"),
]

SIZES = [
    (1, 1, 5, 7),
    (9, 1, 1, 4),
    (2, 3, 3, 5),
    (40, 40, 40, 40),
    (100, 75, 224, 224),
    (301, 517, 224, 224),
]
SIZES += [(640, 480, 96, 128), (33, 999, 64, 64), (1200, 3, 50, 50), (224, 224, 224, 224)]


@pytest.mark.parametrize(("height", "width", "new_height", "new_width"), SIZES)
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_it_is_equal_to_grid_sample(
    height: int, width: int, new_height: int, new_width: int, mode: str
) -> None:
    pixels = np.random.default_rng(height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    image = Image.fromarray(pixels).convert(mode)
    file = io.BytesIO()
    image.save(file, "PNG")
    prepare = image_preparation(ImagePreparation(size=(new_height, new_width), mode=mode, resize="affine"))
    ours = prepare.batch([prepare.one(file.getvalue())])

    functional = torch.nn.functional
    array = np.array(image).reshape(height, width, -1)
    source = torch.from_numpy(array).permute(2, 0, 1)[None].float() / 255
    shape = (1, source.shape[1], new_height, new_width)
    grid = functional.affine_grid(torch.eye(2, 3)[None], shape, align_corners=True)
    theirs = functional.grid_sample(
        source, grid, mode="bilinear", padding_mode="reflection", align_corners=True
    )
    assert np.abs(ours - theirs.numpy()).max() <= 1e-6

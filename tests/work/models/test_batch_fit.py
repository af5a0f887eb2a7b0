"""What is said when a batch is not what a model takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shoal.work.models import check_fits
from shoal.work.protocols import Tensor


def image(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.zeros((2, *shape), dtype=dtype)


def told(shape: tuple[int | None, ...] | None, batch: Any, dtype: str = "float32") -> str | None:
    return check_fits((Tensor("x", shape, dtype),), batch)


@pytest.mark.parametrize(
    ("shape", "given", "advice"),
    [
        ((None, 3, 64, 64), (3, 224, 224), "set preprocess.image.size: 64."),
        ((None, 3, 64, 48), (3, 224, 224), "set preprocess.image.size: [64, 48]."),
        ((None, 3, None, 48), (3, 224, 224), "set preprocess.image.size: 48."),
        ((None, 1, 8, 8), (3, 8, 8), "set preprocess.image.mode: L."),
        ((None, 3, 8, 8), (1, 8, 8), "set preprocess.image.mode: RGB."),
        ((None, 3, 8, 8), (1, 9, 9), "set preprocess.image.mode: RGB and preprocess.image.size: 8."),
        ((None, 8, 8, 3), (3, 8, 8), "it wants the channels last"),
        ((None, 12, 8, 8), (3, 8, 8), "an image with 12 channels has to come from preprocess.function."),
        ((None, 10), (3, 8, 8), "the model wants no image"),
        ((None, 10), (9,), "change what preprocess.function gives"),
    ],
)
def test_another_shape_says_what_to_change(
    shape: tuple[int | None, ...], given: tuple[int, ...], advice: str
) -> None:
    sentence = told(shape, image(*given))
    assert sentence is not None
    assert advice in sentence
    assert sentence.startswith("The model takes ")
    assert f"preprocessing gives {'x'.join(map(str, given))}: " in sentence


@pytest.mark.parametrize("shape", [None, (None, 3, 8, 8), (1, 3, 8, 8), (None, None, None, None)])
def test_what_fits_is_not_talked_about(shape: tuple[int | None, ...] | None) -> None:
    assert told(shape, image(3, 8, 8)) is None
    assert check_fits((), image(3, 8, 8)) is None


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ("float16", "float32"),
        ("bfloat16", "float64"),
        ("float32", "uint8"),
        ("int64", "int32"),
        ("int32", "int64"),
    ],
)
def test_numbers_that_can_be_cast_are_no_reason(wanted: str, given: str) -> None:
    assert told(None, image(3, 8, 8, dtype=given), wanted) is None


def test_pixels_for_a_model_that_scales_itself_say_what_to_do() -> None:
    sentence = told((None, 3, 8, 8), image(3, 8, 8), "uint8")
    assert sentence is not None
    assert "takes uint8, preprocessing gives float32" in sentence
    assert "function: ...}, which gives uint8" in sentence


def test_floats_for_a_model_of_tokens_are_refused() -> None:
    assert told((None, 8), image(8), "int64") == (
        "The model takes int64, preprocessing gives float32: have preprocess.function give int64."
    )


@pytest.mark.parametrize(
    ("batch", "part"),
    [
        ([np.zeros((3, 8, 8)), np.zeros((3, 9, 9))], "gives 3x8x8 and 3x9x9 in one batch"),
        (["a line", "another"], "takes arrays, preprocessing gives str"),
        ([{"a": 1}], "preprocessing gives dict"),
        (np.array(["a", "b"]), "takes float32, preprocessing gives text"),
    ],
    ids=["shapes", "lines", "rows", "texts"],
)
def test_what_is_no_array_of_numbers_is_refused(batch: Any, part: str) -> None:
    sentence = told((None, 3, 8, 8), batch)
    assert sentence is not None
    assert part in sentence

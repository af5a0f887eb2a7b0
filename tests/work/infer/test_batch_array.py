"""Prepared values as a batch: an array where they are numbers of one shape, else a list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shoal.work.infer.preprocess import stacked


@pytest.mark.parametrize(
    ("values", "dtype", "shape"),
    [
        ([1, 2, 3], np.int64, (3,)),
        ([1.5, 2.5], np.float32, (2,)),
        ([1, 2.5], np.float32, (2,)),
        ([True, False], np.bool_, (2,)),
        ([[1, 2], [3, 4], [5, 6]], np.int64, (3, 2)),
        ([(1.0, 2.0)], np.float32, (1, 2)),
        ([[[1.0], [2.0]]], np.float32, (1, 2, 1)),
        ([np.zeros((2, 3))] * 4, np.float32, (4, 2, 3)),
        ([np.zeros((2, 3), np.float16)] * 4, np.float16, (4, 2, 3)),
        ([np.zeros(3, np.uint8)] * 2, np.uint8, (2, 3)),
        ([np.zeros(3, np.int32)] * 2, np.int32, (2, 3)),
        ([np.float64(3)] * 2, np.float32, (2,)),
        ([[], []], np.float32, (2, 0)),
    ],
)
def test_numbers_of_one_shape_become_an_array(values: list[Any], dtype: Any, shape: tuple[int, ...]) -> None:
    batch = stacked(values)
    assert isinstance(batch, np.ndarray)
    assert batch.dtype == dtype
    assert batch.shape == shape


@pytest.mark.parametrize(
    "values",
    [
        ["a", "b"],
        [b"a"],
        [None, 1],
        [[1, None]],
        [[1, 2], [3]],
        [[[1, 2], [3]]],
        [[1], 2],
        [{"a": 1}],
        [10**30],
        [["a", 1]],
        [],
        [np.array(["a"])],
        [np.array([None])],
    ],
)
def test_other_values_stay_a_list(values: list[Any]) -> None:
    assert stacked(values) == values


def test_single_numbers_keep_their_precision_where_it_is_asked_for() -> None:
    moment = 1_700_000_000.5  # Single precision would be off by 28 seconds.
    assert stacked([moment, 1.0], exact=True).tolist() == [moment, 1.0]
    assert stacked([[moment], [1.0]], exact=True).dtype == np.float32


def test_arrays_of_different_shapes_stay_a_list() -> None:
    values = [np.zeros(2), np.zeros(3)]
    assert stacked(values)[1] is values[1]


def test_several_arrays_in_a_value_are_not_made_one() -> None:
    values = [(np.zeros(2), np.zeros(2))]
    assert stacked(values)[0] is values[0]


@pytest.mark.torch
def test_tensors_become_an_array() -> None:
    import torch

    batch = stacked([torch.ones(2, 3, requires_grad=True), torch.zeros(2, 3)])
    assert isinstance(batch, np.ndarray)
    assert batch.dtype == np.float32
    assert batch.shape == (2, 2, 3)

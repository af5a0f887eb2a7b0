"""Prepared values as a batch: one array where all are numbers of the same shape, else the list as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

NUMERIC = "biufc"
"""Kinds of numpy's types that a model may take."""


def stacked(values: Sequence[Any], *, exact: bool = False) -> Any:
    """An array with the batch first, or a list.

    Double precision becomes single, as models want it; Python's whole numbers are int64; other arrays stay as they are.
    `exact`: single numbers stay double, as a time or a price in a table would not survive.
    """
    arrays: list[Any] = []
    for value in values:
        array = _array(value)
        if array is None or (arrays and array.shape != arrays[0].shape):
            return list(values)
        arrays.append(array)
    if not arrays:
        return []
    import numpy as np

    result = np.stack(arrays)
    if result.dtype != np.float64 or (exact and result.ndim == 1):
        return result
    return result.astype(np.float32)


def _array(value: Any) -> Any:
    """The value as an array; None when it is not made of numbers."""
    if value is None or isinstance(value, str | bytes | dict):
        return None  # Without numpy, which what is made of texts alone does not need.
    import numpy as np

    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
    elif type(value).__module__ == "torch" and hasattr(value, "detach"):
        array = value.detach().cpu().numpy()
    elif isinstance(value, int | float) or (isinstance(value, list | tuple) and not _has_arrays(value)):
        try:
            array = np.asarray(value)
        except (ValueError, OverflowError):
            return None  # lists of different lengths
    else:
        return None
    return array if array.dtype.kind in NUMERIC else None


def _has_arrays(values: Sequence[Any]) -> bool:
    """Several arrays in one value are several inputs of a model; they are not to become one."""
    return any(hasattr(value, "__array__") or hasattr(value, "__array_interface__") for value in values)

"""Preprocessing of inputs: images, a function of the user's, or nothing; and prepared values as one batch."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shoal.spec.infer import Preprocess
from shoal.spec.shared_sections import ImagePreparation, Input
from shoal.work import functions
from shoal.work.protocols import Prepare, Unreadable

MOST_PIXELS = ImagePreparation.most_pixels
"""For images that go to a function: nothing in the file says more."""
NUMERIC = "biufc"
"""Kinds of numpy's types that a model may take."""


def preparation(
    preprocess: Preprocess | None, input_: Input, *, on_gpu: bool = False, exact: bool = False
) -> Prepare:
    """What the file asks for. Imports the user's module, where there is one. `on_gpu`: the GPU may do a part;
    `exact`: numbers keep their precision."""
    if preprocess is not None and preprocess.image is not None:
        from shoal.work.images import image_preparation

        prepare = image_preparation(preprocess.image, on_gpu=on_gpu)
        return prepare if input_.kind == "images" else ColumnPrepare(prepare, input_.column[0])
    function = functions.load(preprocess.function) if preprocess is not None and preprocess.function else None
    return ValuePrepare(_reader(input_), function, exact=exact)


class ColumnPrepare:
    """Images in a column of rows: bytes, a Base64 text, or a struct whose `bytes` they are."""

    def __init__(self, images: Prepare, column: str) -> None:
        self._images = images
        self._column = column

    def one(self, raw: Mapping[str, Any]) -> Any:
        return self._images.one(_image_bytes(_value(raw, self._column), self._column))

    def batch(self, prepared: Sequence[Any]) -> Any:
        return self._images.batch(prepared)


class ValuePrepare:
    """The input as Python knows it, through the user's function where there is one."""

    def __init__(
        self, read: Callable[[Any], Any], function: Callable[..., Any] | None, *, exact: bool = False
    ) -> None:
        self._read = read
        self._function = function
        self._exact = exact

    def one(self, raw: Any) -> Any:
        value = self._read(raw)
        if self._function is None:
            return value
        try:
            return self._function(value)
        except Unreadable:
            raise
        except Exception as error:
            raise Unreadable(" ".join(f"{type(error).__name__}: {error}".split())) from error

    def batch(self, prepared: Sequence[Any]) -> Any:
        return stacked(prepared, exact=self._exact)


def _reader(input_: Input) -> Callable[[Any], Any]:
    """From an input as it is stored to a value: a decoded image, a row or its one column, a text."""
    if input_.kind == "images":
        from shoal.work.images import open_image

        return lambda raw: open_image(bytes(raw), MOST_PIXELS)
    if input_.kind == "text":
        return lambda raw: raw
    columns, keys = input_.column, frozenset(input_.key)
    if len(columns) == 1:
        return lambda row: _value(row, columns[0], empty=True)
    if columns:
        return lambda row: {name: _value(row, name, empty=True) for name in columns}
    return lambda row: {name: value for name, value in row.items() if name not in keys}


def _value(row: Mapping[str, Any], column: str, *, empty: bool = False) -> Any:
    if column not in row:
        raise Unreadable(f"there is no column {column!r}, only {', '.join(map(repr, row)) or 'none at all'}")
    if row[column] is None and not empty:
        raise Unreadable(f"nothing in column {column!r}")
    return row[column]


def _image_bytes(value: Any, column: str) -> Any:
    if isinstance(value, Mapping) and value.get("bytes") is not None:
        value = value["bytes"]  # Collections of images in Parquet are often written like this.
    if not isinstance(value, str):
        return value
    text = value.partition(",")[2] if value.startswith("data:") else value
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise Unreadable(f"the text in column {column!r} is not Base64") from None


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

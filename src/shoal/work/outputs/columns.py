"""Columns of the output as Arrow arrays: from lists and numpy arrays, and to the types that all parts agreed on.

`pyarrow.array` is only for values that are neither numbers nor text nor lists of them: it imports pandas.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from shoal.engine.workers.runner import Failed
from shoal.store.result_files import column

if TYPE_CHECKING:
    from shoal.work.protocols import Array

_LONGEST = 2**31 - 1
"""How many values the lists of one column may have together: offsets in Parquet's lists are of 32 bits for many."""


def arrow(name: str, values: Sequence[Any]) -> Any:
    """The array of a column, typed by its values; `Failed` for values that have no place in a table.

    Numbers of Python are int64 or float64; arrays keep their type, except float16, which few can read. An array of
    several dimensions becomes lists. Where all are None, the type is null.
    """
    import pyarrow

    try:
        return _array(values)
    except (pyarrow.ArrowException, OverflowError, TypeError, ValueError) as error:
        said = str(error).partition("\n")[0]
        raise Failed(f"The column {name!r} cannot be written: {said}") from error


def conform(name: str, array: Any, kind: Any) -> Any:
    """The same values as this type; `Failed` where they are of another sort, or would not stay the same."""
    made = conformed(array, kind)
    if made is None:
        raise Failed(
            f"The column {name!r} holds {array.type} here and {kind} in parts that were written before:"
            " give values of one type for every input."
        )
    return made


def conformed(array: Any, kind: Any) -> Any:
    """The same; None where that cannot be. What holds no value takes any type."""
    import pyarrow
    from pyarrow import types

    if array.type == kind:
        return array
    if array.null_count == len(array):
        return pyarrow.nulls(len(array), kind)
    if types.is_list(array.type) and types.is_list(kind):
        inner = conformed(array.flatten(), kind.value_type)
        return None if inner is None else _as_lists(array, inner, kind)
    if types.is_struct(array.type) and types.is_struct(kind):
        return _as_structs(array, kind)
    try:
        return array.cast(kind) if _are_of_one_sort(array.type, kind) else None
    except pyarrow.ArrowException:
        return None


def _as_lists(array: Any, inner: Any, kind: Any) -> Any:
    """The lists of an array with other values in them."""
    import pyarrow
    import pyarrow.compute

    lengths = pyarrow.compute.list_value_length(array).fill_null(0).to_pylist()
    mask = array.is_null() if array.null_count else None
    made = pyarrow.ListArray.from_arrays(_offsets(list(accumulate(lengths, initial=0))), inner, mask=mask)
    return made.cast(kind)  # Only the name of what is in a list may differ.


def _as_structs(array: Any, kind: Any) -> Any:
    """Structs with these fields: null where they lack one; None where they have others."""
    import pyarrow

    own = dict(zip([each.name for each in array.type], array.flatten(), strict=True))
    if own.keys() - {each.name for each in kind}:
        return None
    fields = [
        conformed(own[each.name], each.type) if each.name in own else pyarrow.nulls(len(array), each.type)
        for each in kind
    ]
    if any(each is None for each in fields):
        return None
    return pyarrow.StructArray.from_arrays(fields, fields=list(kind), mask=array.is_null())


def as_json(values: Sequence[Any]) -> tuple[list[str | None], dict[int, str]]:
    """The values as JSON text, and why some of them cannot be, by position. None stays None, and NaN becomes null."""
    texts: list[str | None] = []
    odd: dict[int, str] = {}
    for position, value in enumerate(values):
        try:
            texts.append(None if value is None else json.dumps(_plain(value), ensure_ascii=False))
        except (TypeError, ValueError, RecursionError) as error:
            texts.append(None)
            odd[position] = str(error)
    return texts, odd


def _plain(value: Any) -> Any:
    """As values that JSON has."""
    if hasattr(value, "tolist"):  # Of numpy.
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.isoformat() if hasattr(value, "isoformat") else value


def table_of(schema: Any, arrays: Mapping[str, Any], length: int) -> Any:
    """A table with this schema: each column from the array of its name, or null where there is none."""
    import pyarrow

    columns = [
        conform(field.name, arrays[field.name], field.type)
        if field.name in arrays
        else pyarrow.nulls(length, field.type)
        for field in schema
    ]
    return pyarrow.Table.from_arrays(columns, schema=schema)


def arrays_of(table: Any) -> dict[str, Any]:
    """The columns of a table by their names."""
    return {name: table.column(name).combine_chunks() for name in table.column_names}


def joined(known: Any, found: Any, *, widen: bool = False) -> Any:
    """The known type with what the other has more: types where it has null, and fields of structs.

    With `widen`, whole numbers make room for fractions. As it is where they have nothing in common.
    """
    import pyarrow
    from pyarrow import types

    if types.is_null(known):
        return found
    if types.is_list(known) and types.is_list(found):
        return pyarrow.list_(joined(known.value_type, found.value_type, widen=widen))
    if types.is_struct(known) and types.is_struct(found):
        fields = {each.name: each.type for each in known}
        for each in found:
            fields[each.name] = joined(fields.get(each.name, pyarrow.null()), each.type, widen=widen)
        return pyarrow.struct(list(fields.items()))
    if widen and types.is_integer(known) and types.is_floating(found):
        return pyarrow.float64()
    return known


def is_known(kind: Any) -> bool:
    """Whether nothing in this type is null, which stands for: not seen yet."""
    from pyarrow import types

    if types.is_struct(kind):
        return all(is_known(each.type) for each in kind)
    return is_known(kind.value_type) if types.is_list(kind) else not types.is_null(kind)


def settled(kind: Any) -> Any:
    """The type with text in place of what was never seen: readers do not take kindly to null."""
    import pyarrow

    if pyarrow.types.is_list(kind):
        return pyarrow.list_(settled(kind.value_type))
    if pyarrow.types.is_struct(kind):
        return pyarrow.struct([(each.name, settled(each.type)) for each in kind])
    return pyarrow.string() if pyarrow.types.is_null(kind) else kind


def _are_of_one_sort(found: Any, wanted: Any) -> bool:
    """Whether both are numbers, or times."""
    from pyarrow import types

    if types.is_timestamp(found) and types.is_timestamp(wanted):
        return bool(found.tz == wanted.tz)
    if types.is_decimal(found) and types.is_decimal(wanted):
        return True
    return all(types.is_integer(each) or types.is_floating(each) for each in (found, wanted))


def _array(values: Sequence[Any]) -> Any:
    import numpy as np
    import pyarrow

    if isinstance(values, pyarrow.Array):
        return values
    if hasattr(values, "__array__"):
        return _from_numpy(np.asarray(values))
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    kinds = {type(value) for value in values} - {type(None)}
    if not kinds:
        return pyarrow.nulls(len(values))
    if any(issubclass(kind, pyarrow.Scalar) for kind in kinds):
        return _from_scalars(values)
    if all(kind in (list, tuple) or hasattr(kind, "__array__") for kind in kinds):
        return _lists(values)
    if kinds == {str}:
        return column([_encodable(value) for value in values], pyarrow.string())
    for kind, arrow_kind in (({bool}, "bool"), ({int}, "int64"), ({int, float}, "float64")):
        if kinds <= kind:
            return column(values, pyarrow.type_for_alias(arrow_kind))
    return pyarrow.array(values)


def _from_scalars(values: Sequence[Any]) -> Any:
    """Values of columns that had their type before."""
    import pyarrow

    kind = next(value.type for value in values if value is not None)
    singles = [pyarrow.nulls(1, kind) if value is None else pyarrow.repeat(value, 1) for value in values]
    return pyarrow.concat_arrays(singles)


def _encodable(text: str | None) -> str | None:
    """A name of a file may have bytes that are no text; what cannot be encoded is written as an escape."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _lists(values: Sequence[Any]) -> Any:
    import numpy as np
    import pyarrow

    first = values[0]
    if hasattr(first, "__array__"):
        arrays = [np.asarray(value) for value in values if value is not None]
        kinds = {(array.dtype, array.shape) for array in arrays}
        if len(kinds) == 1 and len(arrays) == len(values):
            return _from_numpy(np.stack(arrays))
    lengths = [0 if value is None else len(value) for value in values]
    inner = _array(list(chain.from_iterable(value for value in values if value is not None)))
    offsets = _offsets(list(accumulate(lengths, initial=0)))
    missing = [value is None for value in values]
    mask = column(missing, pyarrow.bool_()) if any(missing) else None
    return pyarrow.ListArray.from_arrays(offsets, inner, mask=mask)


def _from_numpy(array: Array) -> Any:
    import numpy as np
    import pyarrow

    if array.ndim == 0:
        raise ValueError("one value stands where one for each input is expected")
    if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        array = array.astype(np.float32 if array.dtype.itemsize == 2 else np.float64)
    if array.dtype.kind not in "fiub":
        if array.dtype.kind in "Mm" and array.ndim == 1:
            return pyarrow.array(array)
        if array.dtype.kind in "OUST":
            return _array(array.tolist())
        raise ValueError(f"arrays of {array.dtype} have no place in a table")
    flat = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(-1)
    data = np.packbits(flat, bitorder="little") if flat.dtype.kind == "b" else flat
    kind = pyarrow.from_numpy_dtype(flat.dtype)
    made = pyarrow.Array.from_buffers(kind, len(flat), [None, pyarrow.py_buffer(data)])
    for depth in range(array.ndim - 1, 0, -1):
        lists = math.prod(array.shape[:depth])
        made = pyarrow.ListArray.from_arrays(_offsets(np.arange(lists + 1) * array.shape[depth]), made)
    return made


def _offsets(values: Sequence[int] | Array) -> Any:
    """Where each list begins; the last is where all end."""
    import numpy as np
    import pyarrow

    if values[-1] > _LONGEST:
        raise ValueError(
            "its lists have too many values for one part; set tune: {item: N} to a smaller number"
        )
    offsets = np.asarray(values, np.int32)
    return pyarrow.Array.from_buffers(pyarrow.int32(), len(offsets), [None, pyarrow.py_buffer(offsets)])

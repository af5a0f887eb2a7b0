"""Keys of errors that are of another type than those beside them: null in their column, told in the reason.

An error must not become a second one because its input is odd in its key, too. Good inputs have no such leave.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from shoal.engine.workers.runner import Failed
from shoal.work.infer.outputs.columns import arrow, conform

BESIDE = "; its key "
WHERE = "; the input is "
"""What comes after these in a reason is of one input, and no reason."""
_LONGEST = 100

Misfits = Mapping[int, str]
"""What is to be told of the keys that are null instead, by position."""


def keys_array(name: str, values: Sequence[Any]) -> tuple[Any, Misfits]:
    """The array of a column of keys: typed by its first value where they are of several types."""
    try:
        return arrow(name, values), {}
    except Failed:
        pass
    singles = [_single(name, value) for value in values]
    kind = next((each.type for each in singles if each is not None and each.null_count == 0), None)
    fitting = [_fitting(name, each, kind) for each in singles]
    told = {
        position: _told(name, value)
        for position, (value, each) in enumerate(zip(values, fitting, strict=True))
        if each is None
    }
    return _together(fitting, kind), told


def keys_as(name: str, array: Any, kind: Any) -> tuple[Any, Misfits]:
    """The array as this type."""
    try:
        return conform(name, array, kind), {}
    except Failed:
        pass
    fitting = [_fitting(name, array.slice(position, 1), kind) for position in range(len(array))]
    told = {
        position: _told(name, _value(array[position]))
        for position, each in enumerate(fitting)
        if each is None
    }
    return _together(fitting, kind), told


def with_misfits(reasons: Sequence[str | None], misfits: Sequence[Misfits]) -> list[str]:
    """The reasons, each with what there is to tell of the keys."""
    return [
        (reason or "") + "".join(each[position] for each in misfits if position in each)
        for position, reason in enumerate(reasons)
    ]


def bare(reason: str | None) -> str:
    """A reason without what was told beside it."""
    return (reason or "").partition(BESIDE)[0].partition(WHERE)[0]


def _single(name: str, value: Any) -> Any:
    """One value as an array; None for one that has no place in any table."""
    try:
        return arrow(name, [value])
    except Failed:
        return None


def _fitting(name: str, single: Any, kind: Any) -> Any:
    """One value as this type; None for one of another."""
    import pyarrow

    if single is None or kind is None:
        return None
    if single.null_count:
        return pyarrow.nulls(1, kind)
    try:
        return conform(name, single, kind)
    except Failed:
        return None


def _together(fitting: Sequence[Any], kind: Any) -> Any:
    import pyarrow

    if kind is None:
        return pyarrow.nulls(len(fitting))
    return pyarrow.concat_arrays([pyarrow.nulls(1, kind) if each is None else each for each in fitting])


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):  # A date that Python does not have.
        return f"a {scalar.type}"


def _told(name: str, value: Any) -> str:
    said = json.dumps(_value(value) if hasattr(value, "as_py") else value, ensure_ascii=False, default=str)
    return f"{BESIDE}{name} is {said if len(said) <= _LONGEST else said[:_LONGEST] + '...'}"

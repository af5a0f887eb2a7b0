"""Keys and outputs that are of another type than those of the other inputs: one must not cost the others' rows.

A good input with such a value becomes an error. Of an error the key is null in its column, and told in the reason.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from shoal.engine.workers.runner import Failed
from shoal.work.outputs.columns import arrow, conform, conformed, joined

BESIDE = "; its key "
WHERE = "; the input is "
GAVE = "; it gave "
"""What comes after these in a reason is of one input, and no reason."""
_LONGEST = 100

Misfits = Mapping[int, str]
"""What is to be told of the keys that are null instead, by position."""


def keys_array(name: str, values: Sequence[Any]) -> tuple[Any, Misfits]:
    """The array of a column of keys: typed by most of its values where they are of several types."""
    try:
        return arrow(name, values), {}
    except Failed:
        pass
    singles = [_single(name, value) for value in values]
    kinds = Counter(each.type for each in singles if each is not None and each.null_count == 0)
    kind = kinds.most_common(1)[0][0] if kinds else None
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


def odd_keys(keys: Mapping[str, Sequence[Any]], known: Any) -> dict[int, str]:
    """Why inputs have no place in the table, by position, where their keys do not go with those of the others.

    `known` is the schema of earlier parts, if there are any. Where most are odd, none is: then something else is wrong.
    """
    found: dict[int, str] = {}
    for name, values in keys.items():
        array, misfits = keys_array(name, values)
        told = dict(misfits)
        if known is not None and name in known.names:
            told |= keys_as(name, array, known.field(name).type)[1]
        found |= dict.fromkeys(told, f"its key {name} is of another type than the others'")
    total = max((len(values) for values in keys.values()), default=0)
    return found if 2 * len(found) < total else {}


def odd_outputs(columns: Mapping[str, Sequence[Any]], known: Any) -> dict[int, str]:
    """Why inputs have no place in the table, by position, where what the model gave does not go with other rows.

    `known` is the schema of earlier parts, if there are any. In a column that they do not have, most of the values
    here say what its type is.
    """
    found: dict[int, str] = {}
    for name, values in columns.items():
        kind = known.field(name).type if known is not None and name in known.names else None
        if not _go_together(name, values, kind):
            singles = [_single(name, value) for value in values]
            kind = _usual(singles) if kind is None else kind
            reason = f"the model gave a value of another type than in other rows, in column {name!r}"
            for position, each in enumerate(singles):
                if each is not None and kind is not None and _goes_with(each, kind):
                    kind = joined(kind, each.type, widen=True)  # What it adds, later ones have to go with.
                else:
                    found[position] = f"{reason}{GAVE}{_said(values[position])}"
    return found


def odd_names(keys: Mapping[str, Sequence[Any]], columns: Mapping[str, Sequence[Any]]) -> dict[int, str]:
    """Where what the model gave has the name of a key of the input. Where most have, none is odd."""
    found = {
        position: f"the model gave a column {name!r}, and so is a key of the input called"
        for name in keys.keys() & columns.keys()
        for position, value in enumerate(columns[name])
        if value is not None
    }
    total = max((len(values) for values in keys.values()), default=0)
    return found if 2 * len(found) < total else {}


def with_misfits(reasons: Sequence[str | None], misfits: Sequence[Misfits]) -> list[str]:
    """The reasons, each with what there is to tell of the keys."""
    return [
        (reason or "") + "".join(each[position] for each in misfits if position in each)
        for position, reason in enumerate(reasons)
    ]


def bare(reason: str | None) -> str:
    """A reason without what was told beside it."""
    return (reason or "").partition(BESIDE)[0].partition(WHERE)[0].partition(GAVE)[0]


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


def _go_together(name: str, values: Sequence[Any], kind: Any) -> bool:
    """Whether all of them are of one type, and of this one."""
    try:
        array = arrow(name, values)
    except Failed:
        return False
    return kind is None or _goes_with(array, kind)


def _goes_with(array: Any, kind: Any) -> bool:
    return conformed(array, joined(kind, array.type, widen=True)) is not None


def _usual(singles: Sequence[Any]) -> Any:
    """The type with which most of these go; None where none has a place in a table."""
    examples = {each.type: each for each in singles if each is not None and each.null_count == 0}
    counts = Counter(each.type for each in singles if each is not None and each.null_count == 0)

    def together(kind: Any) -> int:
        return sum(count for other, count in counts.items() if _goes_with(examples[other], kind))

    return max(counts, key=together, default=None)


def _told(name: str, value: Any) -> str:
    return f"{BESIDE}{name} is {_said(value)}"


def _said(value: Any) -> str:
    plain = _value(value) if hasattr(value, "as_py") else value
    try:
        said = json.dumps(plain, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        said = f"a {type(plain).__name__}"
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}..."

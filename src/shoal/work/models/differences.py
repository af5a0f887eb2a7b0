"""How far the outputs of two ways to run a model are apart, and whether that counts as agreement. No running here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.work.protocols import Array

TOLERANCE_ABSOLUTE = {"float32": 1e-3, "float16": 1e-2, "bfloat16": 5e-2}
TOLERANCE_RELATIVE = {"float32": 1e-3, "float16": 1e-2, "bfloat16": 5e-2}
"""By what the model computes in: `|a - b| <= absolute + relative * |a|` has to hold for each value, where a is the
model's as given. About ten times what the order of additions alone changes in networks with a hundred layers. In half
precision a value is as far off as the largest of its row: there `|a|` is that of the largest."""


def difference(reference: Any, other: Any, precision: str = "float32") -> tuple[float, str | None]:
    """The largest absolute difference over all outputs, and why they do not agree; None when they do.

    They agree when every value is within the tolerance and, where a row looks like the scores of classes, the highest
    score is that of the same class, unless the two are within the tolerance of each other. NaN agrees with NaN, and
    an infinity with the same one. Whole numbers and text have to be equal.
    """
    first, second = _arrays(reference), _arrays(other)
    if len(first) != len(second):
        return float("inf"), f"it gives {len(second)} outputs, the model as given {len(first)}"
    largest, reason = 0.0, None
    for number, (left, right) in enumerate(zip(first, second, strict=True)):
        name = f"output {number}" if len(first) > 1 else "the output"
        apart, why = _one(left, right, name, precision)
        largest, reason = max(largest, apart), reason or why
    return largest, reason


def _arrays(outputs: Any) -> tuple[Array, ...]:
    import numpy as np

    return tuple(map(np.asarray, outputs)) if isinstance(outputs, tuple) else (np.asarray(outputs),)


def _one(left: Array, right: Array, name: str, precision: str) -> tuple[float, str | None]:
    import numpy as np

    if left.shape != right.shape:
        return float("inf"), f"{name} has the shape {right.shape}, as given {left.shape}"
    if left.dtype.kind != "f" or right.dtype.kind != "f":
        return _exact(left, right, name)
    left, right = left.astype(np.float64), right.astype(np.float64)
    if not np.array_equal(np.isnan(left), np.isnan(right)):
        return float("inf"), f"{name} has NaN in other places"
    absolute, relative = TOLERANCE_ABSOLUTE[precision], TOLERANCE_RELATIVE[precision]
    with np.errstate(invalid="ignore"):  # Infinity less infinity.
        apart = np.abs(left - right)
    apart[np.isnan(left) | (left == right)] = 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        allowed = np.nan_to_num(absolute + relative * _scale(left, precision), nan=0.0, posinf=0.0)
    largest = float(apart.max(initial=0.0))
    if (apart > allowed).any():
        return (
            largest,
            f"{name} differs by up to {largest:.3g}, more than {absolute:g} + {relative:g} * |value|",
        )
    return largest, _ranking(left, right, name, absolute, relative)


def _scale(values: Array, precision: str) -> Array:
    import numpy as np

    sizes = np.abs(values)
    if precision == "float32" or sizes.ndim < 2:
        return sizes
    finite = np.where(np.isfinite(sizes), sizes, 0.0)
    largest = finite.reshape(len(finite), -1).max(axis=1, initial=0.0)
    return np.where(np.isfinite(sizes), largest.reshape(-1, *(1 for _ in sizes.shape[1:])), sizes)


def _exact(left: Array, right: Array, name: str) -> tuple[float, str | None]:
    import numpy as np

    if np.array_equal(left, right):
        return 0.0, None
    numbers = left.dtype.kind in "biuf" and right.dtype.kind in "biuf"
    apart = np.abs(left.astype(np.float64) - right.astype(np.float64)).max() if numbers else float("inf")
    return float(apart), f"{name} has whole numbers or text that are not equal"


def _ranking(left: Array, right: Array, name: str, absolute: float, relative: float) -> str | None:
    """Why the best classes are not the same. Only rows of several scores have any."""
    import numpy as np

    if left.ndim != 2 or left.shape[1] < 2 or not len(left):
        return None
    rows = np.arange(len(left))
    best, chosen = left[rows, left.argmax(axis=1)], left[rows, right.argmax(axis=1)]
    with np.errstate(invalid="ignore"):
        flipped = (best - chosen) > absolute + relative * np.abs(best)
    if flipped.any():
        return f"{name} has another class on top in {int(flipped.sum())} of {len(left)} rows"
    return None

"""Whether a batch is what a model takes, and if not, what to change: one sentence. And casting to what it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shoal.work.protocols import Tensor

if TYPE_CHECKING:
    from shoal.work.protocols import Array

FLOATS = ("float16", "bfloat16", "float32", "float64")
_USE_FUNCTION = "use model: {function: ...}, a class that calls it"


def check_fits(tensors: Sequence[Tensor], batch: Any) -> str | None:
    """Why this batch is not what the declared inputs want, and what to change; None when it is, or nobody can know.

    The number of rows is not looked at: batches are cut to what the model takes. Floats of other widths and integers
    that lose nothing are no reason, as they are cast.
    """
    import numpy as np

    if len(tensors) > 1:
        names = ", ".join(tensor.name for tensor in tensors)
        return f"The model takes {len(tensors)} inputs ({names}), preprocessing gives one: {_USE_FUNCTION}."
    if not isinstance(batch, np.ndarray):
        return _no_array(batch)
    if not tensors:
        return None
    return _kind_problem(tensors[0].dtype, batch) or _shape_problem(tensors[0].shape, batch)


def _no_array(batch: Any) -> str:
    rows = list(batch) if isinstance(batch, Sequence) and not isinstance(batch, str) else [batch]
    shapes = {shape_text(row.shape) for row in rows if hasattr(row, "shape")}
    if len(shapes) > 1:
        found = " and ".join(sorted(shapes)[:2])
        return (
            f"The model takes arrays of one shape, preprocessing gives {found} in one batch:"
            " have preprocess give one shape."
        )
    found = type(rows[0]).__name__ if rows else "nothing"
    return (
        f"The model takes arrays, preprocessing gives {found}:"
        " set preprocess: {function: ...}, which gives a numpy array for each input."
    )


def _kind_problem(wanted: str, batch: Array) -> str | None:
    import numpy as np

    given = batch.dtype
    if wanted == "str":
        return None if given.kind in "UO" else f"The model takes text, preprocessing gives {given}."
    if given.kind not in "biuf":
        found = "text" if given.kind in "US" else f"values of type {given}"
        return (
            f"The model takes {wanted}, preprocessing gives {found}: have preprocess.function give {wanted}."
        )
    if wanted in FLOATS:
        return None
    if given.kind == "f":
        return _whole_wanted(wanted, batch)
    if wanted == "bool" and given.kind != "b":
        return f"The model takes bool, preprocessing gives {given}: have preprocess.function give bool."
    if wanted != "bool" and not np.can_cast(given, wanted) and batch.size:
        limits = np.iinfo(wanted)
        low, high = int(batch.min()), int(batch.max())
        if low < limits.min or high > limits.max:
            return (
                f"The model takes {wanted}, preprocessing gives {given} with values from {low} to {high},"
                f" which {wanted} cannot hold."
            )
    return None


def _whole_wanted(wanted: str, batch: Array) -> str:
    start = f"The model takes {wanted}, preprocessing gives {batch.dtype}: "
    if wanted == "uint8" and batch.ndim == 4:
        return (
            start
            + "it does its own scaling of pixels, so set preprocess: {function: ...}, which gives uint8,"
            " or export the model with a float32 input."
        )
    return start + f"have preprocess.function give {wanted}."


def _shape_problem(wanted: tuple[int | None, ...] | None, batch: Array) -> str | None:
    if wanted is None:
        return None
    shape = batch.shape[1:]
    same_rank = len(wanted) == batch.ndim
    if same_rank and all(want in (None, have) for want, have in zip(wanted[1:], shape, strict=True)):
        return None
    start = f"The model takes {shape_text(wanted[1:])}, preprocessing gives {shape_text(shape)}: "
    return start + (_image_advice(wanted[1:], shape) if same_rank and len(shape) == 3 else _advice(shape))


def _advice(shape: Sequence[int]) -> str:
    kind = "the model wants no image" if len(shape) == 3 else "change what preprocess.function gives"
    return f"{kind}, or the file is another model's."


def _image_advice(wanted: tuple[int | None, ...], shape: Sequence[int]) -> str:
    """What to set, for channels, height and width."""
    channels, height, width = wanted
    if width in (1, 3, 4) and shape[0] == width:
        return "it wants the channels last, so export it with channels first, or use preprocess.function."
    changes = []
    if channels not in (None, shape[0]):
        modes = {1: "L", 3: "RGB"}
        if channels not in modes:
            return f"an image with {channels} channels has to come from preprocess.function."
        changes.append(f"preprocess.image.mode: {modes[channels]}")
    if (height or shape[1], width or shape[2]) != tuple(shape[1:]):
        size = height or width if None in (height, width) or height == width else [height, width]
        changes.append(f"preprocess.image.size: {size}")
    return f"set {' and '.join(changes)}."


def cast(batch: Array, wanted: str) -> Array:
    """A batch that fits, with the declared kind of values, in one piece of memory."""
    import numpy as np

    if wanted == "str":
        return batch.astype(object)
    return np.ascontiguousarray(batch, dtype=wanted)


def shape_text(shape: Sequence[int | None]) -> str:
    """`3x224x224`; a dimension of any size is `?`."""
    return "x".join("?" if size is None else str(size) for size in shape) or "one value"

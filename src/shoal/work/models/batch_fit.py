"""Batches for model files: whether one fits and what to change if not, casting, and cutting it up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from shoal.engine.workers.runner import Failed
from shoal.work.models.libraries import memory_told, one_line, others_told
from shoal.work.protocols import Tensor, Unusable

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


class Outputs(tuple[Any, ...]):
    """Several outputs in order, and what the file calls them; no names where it calls them nothing."""

    names: tuple[str, ...] = ()


class ArrayPredictor(ABC):
    """A model file, loaded: see `Predictor`. Members say how a batch that fits is computed.

    What a model as given cannot take is `Failed`. What a converted one cannot take is `Unusable`: as given, the model
    may do.
    """

    device = "cpu"

    def __init__(self, runtime: str, tensors: Sequence[Tensor], names: Sequence[str] = ()) -> None:
        self._refused: type[Exception] = Failed if runtime == "as-given" else Unusable
        self._tensors = tuple(tensors)
        self._names = tuple(names)
        self._fitting: tuple[Any, ...] | None = None

    def inputs(self) -> tuple[Tensor, ...]:
        return self._tensors

    def predict(self, batch: Any) -> Any:
        if hasattr(batch, "array") and not self.takes_pixels():
            batch = batch.array()
        self._check(batch)
        with (
            others_told(lambda error: self._refused(self._sentence(error, batch))),
            memory_told(self.release, check=self.check),
        ):
            found = in_pieces(batch, self._rows(), self.run)
        if len(found) == 1:
            return found[0]
        outputs = Outputs(found)
        outputs.names = self._names
        return outputs

    @abstractmethod
    def run(self, batch: Array) -> tuple[Array, ...]:
        """One batch with the number of rows that the model takes. May raise anything."""

    def release(self) -> None:  # noqa: B027 - most have nothing to give back
        """See `Predictor`."""

    def takes_pixels(self) -> bool:
        """Whether it does by itself what `images.pixels` leaves to a GPU."""
        return False

    def check(self) -> None:  # noqa: B027 - most use no GPU
        """Raises what the GPU says, where it can no longer be used."""

    def advice(self, said: str, batch: Array) -> str:
        """What to change when the library said this about this batch."""
        several = " If it takes a fixed number of rows, set tune: {batch: N}." if len(batch) > 1 else ""
        return "Check preprocess against what the model was exported with." + several

    def device_bytes(self) -> int:
        return 0

    @abstractmethod
    def close(self) -> None: ...

    def _check(self, batch: Any) -> None:
        """Look at the first batch of its kind. Whole numbers are always looked at, as their values count."""
        kind = (batch.shape[1:], batch.dtype) if hasattr(batch, "dtype") else None
        if kind is None or kind != self._fitting or batch.dtype.kind != "f":
            problem = check_fits(self._tensors, batch)
            if problem is not None:
                raise self._refused(problem)
            self._fitting = kind

    def _rows(self) -> int | None:
        shape = self._tensors[0].shape if self._tensors else None
        return shape[0] if shape else None

    def _sentence(self, error: Exception, batch: Array) -> str:
        said = one_line(error).rstrip(".")
        given = f"{len(batch)} rows of {shape_text(batch.shape[1:])} ({batch.dtype})"
        return f"The model failed on {given}: {said}. {self.advice(said, batch)}"


def in_pieces(batch: Array, rows: int | None, run: Callable[[Array], tuple[Array, ...]]) -> tuple[Array, ...]:
    """All of a batch through a model that takes exactly `rows` at a time, or any number where that is None.

    The last piece is filled up with its last row, and what the model gives for those is dropped.
    """
    import numpy as np

    if rows is None or len(batch) == rows:
        return run(batch)
    pieces = []
    for start in range(0, len(batch), rows):
        piece = batch[start : start + rows]
        count = len(piece)
        if count < rows:
            piece = np.concatenate([piece, np.repeat(piece[-1:], rows - count, axis=0)])
        outputs = run(piece)
        for number, output in enumerate(outputs):
            if output.ndim == 0 or len(output) != rows:
                raise Failed(
                    f"The model takes exactly {rows} inputs at a time, and its output {number} has the shape"
                    f" {shape_text(output.shape)}, which is not a row for each: use model: {{function: ...}}."
                )
        pieces.append(tuple(output[:count] for output in outputs))
    return tuple(np.concatenate(parts) for parts in zip(*pieces, strict=True))

"""What predictors of model files share: checking and casting a batch, cutting it up, and saying what went wrong."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from shoal.engine.workers.runner import Failed
from shoal.work.models.batch_fit import check_fits, shape_text
from shoal.work.models.library_errors import memory_told, one_line, others_told
from shoal.work.protocols import Tensor, Unusable

if TYPE_CHECKING:
    from shoal.work.protocols import Array


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

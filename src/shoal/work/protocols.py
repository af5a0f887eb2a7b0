"""What models, inputs and outputs promise those who use them, and what goes wrong with them. No behaviour here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np

    from shoal.model.advice import Setting


class Unreadable(Exception):  # noqa: N818 - a fact about an input, not an error of Shoal
    """One input cannot be used. The message is the reason in `errors.parquet`: one line, without a traceback."""


class OutOfMemory(Exception):  # noqa: N818 - the worker goes on with less
    """Memory, or a GPU's, did not suffice for this batch, or for the model; less at once may do."""


class Unusable(Exception):  # noqa: N818 - a fact about a runtime
    """This runtime cannot run this model, and why; others may."""


class Opened(Protocol):
    """An item as a worker reads it: a fixed list of inputs, known by their positions. Safe for several threads."""

    def __len__(self) -> int: ...

    def keys(self, positions: Sequence[int]) -> dict[str, Sequence[Any]]:
        """The columns by which the output knows these inputs again: `path`; `path` and `row`; or those asked for.

        Columns of a table are arrays of Arrow, with the types that they have there.
        """

    def where(self, position: int) -> str:
        """Where one input is, in words, for those whose keys cannot be had."""

    def read(self, position: int) -> Any:
        """One input as it is stored: the bytes of an image, a row as a dict, a line as text. Blocks.

        Raises `Unreadable` for what is wrong with this input alone, or with the file it is in; `FileError` when the
        storage cannot be reached, which is not the input's fault: then the item fails, and may be tried again.
        """


class Prepare(Protocol):
    """From inputs as they are stored to what the model takes. Safe for several threads."""

    def one(self, raw: Any) -> Any:
        """The costly part for one input (for an image: decoded, resized, uint8). Raises `Unreadable`."""

    def batch(self, prepared: Sequence[Any]) -> Any:
        """What the model gets for these: an array with the batch first, or a list where that cannot be."""


class Tensor(NamedTuple):
    """An input that a model file declares. A dimension of any size is None."""

    name: str
    shape: tuple[int | None, ...] | None
    dtype: str
    """As numpy calls it."""


class Predictor(Protocol):
    """A model, loaded in one way. Used by one thread at a time."""

    device: str
    """`cpu` or `cuda`."""

    def inputs(self) -> tuple[Tensor, ...]:
        """What the file declares; empty where it says nothing."""

    def predict(self, batch: Any) -> Any:
        """One batch: an array or a tuple of them, the batch first; for a function, whatever it gives.

        Raises `OutOfMemory`; `Failed`, with the whole sentence, when a model file cannot take this batch; `Unusable`
        when a runtime other than `as-given` cannot; `Broken` when the GPU is lost to this process. What a function
        raises goes through otherwise.
        """

    def device_bytes(self) -> int:
        """The most it held on its GPU since it last gave something back; 0 on a CPU."""

    def release(self) -> None:
        """Give back memory that is kept for later batches."""

    def close(self) -> None:
        """Give back its memory. May be called twice."""


class Models(Protocol):
    """The ways in which one model can be run here."""

    def runtimes(self) -> tuple[str, ...]:
        """The names of those that are installed, `as-given` first. Imports nothing heavy."""

    def suitable(self) -> tuple[str, ...]:
        """The names of all that can run such a model on this device, `as-given` first, be they installed or not."""

    def missing(self) -> tuple[str, ...]:
        """Ways to run it that could be tried if more were installed: a sentence for each, with what to do."""

    def load(self, setting: Setting, example: Any = None) -> Predictor:
        """Load it; `setting.batch` only says what to expect.

        Raises `Unusable`, `OutOfMemory`, or `Failed` when it is no model.
        `example` is a batch such as it will get: some conversions need one, of at least one row.
        """


Columns = Mapping[str, Any]
"""Output columns, each as long as the batch: lists or numpy arrays."""


class Finish(Protocol):
    """From what the model gives for a batch to columns."""

    def __call__(self, outputs: Any, count: int) -> tuple[Columns, dict[int, str]]:
        """Columns of all `count` inputs, and why some of them are errors (NaN), by position in the batch."""


class Facts(NamedTuple):
    """What is known of an item that is done; kept in its part, so that whoever finds the part knows it, too."""

    rows: int
    errors: int
    bytes: int = 0
    """Of input that was read."""
    seconds: Mapping[str, float] = {}
    """By phase: reading, decoding, preprocessing, predicting, writing; summed over threads."""
    attempt: int = 0


if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

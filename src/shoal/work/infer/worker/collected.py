"""What came of an item so far: columns of the inputs that went well, and the reasons of those that did not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.work.protocols import Columns


class Collected:
    """Filled batch by batch, in the order of the inputs. A column that a batch does not have is None there."""

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.errors: list[tuple[int, str]] = []
        self._batches: list[tuple[int, dict[str, Any]]] = []

    def fail(self, position: int, reason: str) -> None:
        self.errors.append((position, reason))

    def add(self, positions: Sequence[int], columns: Columns, bad: dict[int, str]) -> None:
        """A batch: its columns, and which of its inputs are errors after all."""
        for index, reason in bad.items():
            self.fail(positions[index], reason)
        good = [index for index in range(len(positions)) if index not in bad]
        self.positions.extend(positions[index] for index in good)
        kept = {name: _chosen(values, good) if bad else _own(values) for name, values in columns.items()}
        self._batches.append((len(good), kept))

    def columns(self) -> dict[str, Any]:
        """All batches together: arrays stay arrays, everything else becomes a list."""
        names = dict.fromkeys(name for _, columns in self._batches for name in columns)
        return {
            name: _joined([columns.get(name, [None] * count) for count, columns in self._batches if count])
            for name in names
        }


def _chosen(values: Any, indices: Sequence[int]) -> Any:
    return values[list(indices)] if hasattr(values, "dtype") else [values[index] for index in indices]


def _own(values: Any) -> Any:
    """A model of the user's may use the same array for its next batch."""
    return values.copy() if hasattr(values, "dtype") else values


def _joined(pieces: list[Any]) -> Any:
    if (
        not pieces
        or not all(hasattr(piece, "dtype") for piece in pieces)
        or len({p.shape[1:] for p in pieces}) > 1
    ):
        return [value for piece in pieces for value in piece]
    import numpy as np

    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

"""One session of an inference: its inputs, its items and its tuners, from the first listing to the conclusion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shoal.engine.workers.runner import Failed
from shoal.errors import FileError
from shoal.files.turns import Turn
from shoal.model import Item
from shoal.spec import Infer
from shoal.work import outputs
from shoal.work.infer.item_fields import FACTS
from shoal.work.infer.source import InferSource
from shoal.work.infer.tuners import Tuning
from shoal.work.inputs import Listing
from shoal.work.job import Conclusion, Past


class InferRun:
    """Owns the listing. The output is replaced when the first input is found: a mistake in the input must not cost
    what an earlier run wrote."""

    def __init__(
        self, spec: Infer, run: str, past: Past, listing: Listing, tuning: Tuning, *, resumed: bool
    ) -> None:
        self._spec, self._run, self._resumed = spec, run, resumed
        self._listing = listing
        self.tuning = tuning
        self.turn = past.turn
        first = past.next_seq
        if resumed:
            first = max(first, outputs.next_number(spec.output, spec.folder))
        self._strangers = range(past.next_seq, first)
        """Numbers of which there is something in the output, and no item in the record: it was lost with a driver."""
        self.source = InferSource(listing, tuning, first, self._replace, past.waiting)
        self._has_replaced = False
        self._notes: list[str] = []

    def _replace(self) -> None:
        self._has_replaced = True
        self._notes += outputs.replace(self._spec.output, self._spec.folder, self._run, self.turn)

    def conclude(
        self, items: Iterator[tuple[Item, Mapping[str, Any]]], seconds: float, turn: Turn, notes: list[str]
    ) -> Conclusion:
        """`notes` were made before the session began."""
        from shoal.work.infer.conclusion import conclude

        self._listing.close()
        try:
            return conclude(
                self._spec,
                self._run,
                ((item.seq, metrics[FACTS]) for item, metrics in items),
                self._listing,
                self.source,
                self.tuning,
                seconds,
                [*notes, *self._notes],
                self._resumed,
                self._resumed or self._has_replaced or self._listing.complete(),
                turn,
                None if self.source.is_over() else self._strangers,
            )
        except Failed as error:  # Parts are not what the workers left: told as a sentence here, too.
            raise FileError(str(error)) from error

    def close(self) -> None:
        """May be called twice."""
        self._listing.close()

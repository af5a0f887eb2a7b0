"""Where the items of an inference come from: inputs as they are found, cut to the size that suits at that moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shoal.engine.workers.runner import now
from shoal.model import Item, Outcome
from shoal.model.advice import Heard
from shoal.work.infer.item_fields import COUNT, HEARD, LIST, content_of, item_id
from shoal.work.infer.tuners import Tuning
from shoal.work.inputs import Listing


class InferSource:
    """Keeps `Source`. Items are made when somebody could take them: until then their size may change."""

    def __init__(
        self,
        listing: Listing,
        tuning: Tuning,
        next_seq: int,
        first: Callable[[], None] = lambda: None,
        waiting: int = 0,
    ) -> None:
        """`first` is called when an input has been found, before any item is given out. `waiting` are items that an
        earlier session left."""
        self._listing, self._first = listing, first
        self._tuning = tuning
        self._seq = next_seq
        self._open = waiting
        """Items that have not come to their end."""
        self._began = now()
        self._any = False
        self.idle_s = 0.0
        """How long there was nothing to do, as no input had been found."""

    def take(self, most: int, workers: int) -> Sequence[Item]:
        del workers
        items: list[Item] = []
        while len(items) < most:
            listed = self._listing.take(self._tuning.rows())
            if listed is None:
                break
            count = count_of(listed)
            content = content_of(listed)
            item = Item(self._seq, item_id(self._seq), {COUNT: count, LIST: listed}, content=content)
            items.append(item)
            self._open += 1
            self._tuning.made(item)
            if not self._any:
                self._any, self.idle_s = True, now() - self._began
                self._first()
            self._seq += 1
        return items

    def left(self) -> int:
        waiting = self._listing.found() - self._listing.taken()
        return -(-waiting // max(1, self._tuning.rows())) if waiting else 0

    def finished(self) -> bool:
        return self._listing.finished()

    def is_over(self) -> bool:
        """Whether a resume would have nothing to do, but for items that failed."""
        return self._listing.finished() and not self._open

    def progressed(self, item: Item, metrics: Mapping[str, Any], step: int | None) -> str | None:
        return None

    def ended(self, item: Item, outcome: Outcome) -> None:
        self._open -= outcome.state in ("done", "failed")
        self._tuning.told(item, Heard.read(outcome.metrics.get(HEARD, {})))


def inputs_left(listing: Listing) -> int | None:
    """Inputs that are in no item yet; None while more are being found."""
    return listing.found() - listing.taken() if listing.complete() else None


def count_of(listed: Mapping[str, Any]) -> int:
    """How many inputs an item's list names."""
    return len(listed["files"]) if "files" in listed else int(listed["rows"])

"""One session of an inference: its inputs, its items and its tuners, from the first listing to the conclusion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from shoal.engine.workers.runner import Failed, now
from shoal.errors import FileError
from shoal.files.turns import Turn
from shoal.model import Item, Outcome
from shoal.model.advice import Heard
from shoal.spec import Infer
from shoal.units import format_share
from shoal.work import outputs
from shoal.work.infer.item_fields import COUNT, FACTS, HEARD, LIST, content_of, item_id
from shoal.work.infer.tuners import Tuning
from shoal.work.inputs import Changes, Listing
from shoal.work.job import Conclusion, Past
from shoal.work.outputs import Totals


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
        self,
        items: Iterator[tuple[Item, Mapping[str, Any]]],
        seconds: float,
        turn: Turn,
        notes: Sequence[str],
    ) -> Conclusion:
        """Parts and errors put in order, what the run came to, and whether it counts as failed. May be called again.

        `notes` were made before the session began. One that was stopped before it found an input has not begun, and
        leaves the output as it was.
        """
        from shoal.work.infer.summary import summary

        spec, listing, tuning = self._spec, self._listing, self.tuning
        listing.close()
        totals = Totals(0, 0, 0, 0, {})
        if self._resumed or self._has_replaced or listing.complete():
            totals = self._finished(((item.seq, metrics[FACTS]) for item, metrics in items), turn)
        share = totals.errors / max(1, totals.rows + totals.errors)
        document = summary(
            totals,
            listing_s=min(listing.seconds(), self.source.idle_s),
            seconds=seconds,
            runtime=tuning.runtime(),
            decisions=[decision._asdict() for decision in tuning.decisions()],
            curves=tuning.curves(),
        )
        document["phase_seconds"]["listing"] = listing.seconds()
        changes = listing.changes() if self._resumed else Changes()
        return Conclusion(
            share > spec.limits.errors or bool(totals.missing),
            (*notes, *self._notes, *_changes(changes), *_verdict(spec, totals, share)),
            document,
            tuning.learned(),
        )

    def _finished(self, done: Iterable[tuple[int, Mapping[str, Any]]], turn: Turn) -> Totals:
        spec, strangers = self._spec, None if self.source.is_over() else self._strangers
        try:
            return outputs.finish(spec.output, spec.folder, self._run, done, turn, strangers=strangers)
        except Failed as error:  # Parts are not what the workers left: told as a sentence here, too.
            raise FileError(str(error)) from error

    def close(self) -> None:
        """May be called twice."""
        self._listing.close()


def _changes(changes: Changes) -> list[str]:
    """What is no longer as it was when the run was stopped."""
    said = []
    if changes.new:
        said.append(f"{_inputs(changes.new)} had not been taken by earlier sessions, or came since.")
    if changes.changed:
        said.append(
            f"{_inputs(changes.changed)} changed since the listing; what was done before keeps its rows."
        )
    if changes.gone:
        said.append(
            f"{_inputs(changes.gone)} vanished since the listing; what was done before keeps its rows."
        )
    return said


def _inputs(number: int) -> str:
    return f"{number:,} input{'' if number == 1 else 's'}"


def _verdict(spec: Infer, totals: Totals, share: float) -> list[str]:
    """Why the run counts as failed, if it does."""
    said = []
    if totals.missing:
        said.append(f"parts are gone from {spec.output.path}: run the workload again to make them anew.")
    if share > spec.limits.errors:
        said.append(
            f"it counts as failed: {format_share(share)} of the inputs could not be used, and limits.errors allows"
            f" {format_share(spec.limits.errors)}.{' All other rows are there.' if totals.rows else ''}"
        )
    return said

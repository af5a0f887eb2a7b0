"""The end of a run's output: errors in one file, parts that can be read together, nothing left behind. For drivers.

Every step replaces a file as a whole or removes what no longer counts, so that it may be killed and called again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from typing import Any, NamedTuple

from shoal.engine.workers.runner import Failed
from shoal.files import Storage
from shoal.spec.infer import Output
from shoal.work.infer.base import Facts
from shoal.work.infer.outputs.columns import arrays_of, table_of
from shoal.work.infer.outputs.combining import ItemErrors, combine, read_table
from shoal.work.infer.outputs.layout import (
    HIDDEN,
    OWNER,
    Listing,
    is_claim_aside,
    look,
    opened,
    remove,
    schema_key,
)
from shoal.work.infer.outputs.owning import ensure_ours, replace
from shoal.work.infer.outputs.parts import METADATA, encoded, facts_of, part_document
from shoal.work.infer.outputs.schemas import decoded, final, was_widened

REASONS_TOLD = 10


class Totals(NamedTuple):
    """What a run's output holds."""

    rows: int
    errors: int
    parts: int
    bytes: int
    """Of input that was read."""
    seconds: Mapping[str, float]
    """By phase, summed over all workers and their threads."""
    missing: tuple[int, ...] = ()
    """Items that are done, and whose parts are not there. They are counted nowhere else."""
    reasons: Mapping[str, int] = {}
    """Why inputs are errors: the most frequent reasons."""


def finish(
    output: Output, folder: str, run: str, expected: Iterable[tuple[int, Mapping[str, Any]]]
) -> Totals:
    """Make the folder what it is to be when these items are done: (item, facts as `document_of` gives them).

    Parts of other items are removed, with everything that unfinished attempts left. The files that the errors were
    combined from stay until `tidy`. Called again, also after `tidy` and with more items, it gives the same.
    """
    ensure_ours(output, folder, run)
    replace(output, folder, run)
    storage = opened(output, folder)
    found = look(storage)
    done = {seq: facts_of(document) for seq, document in expected}
    missing = sorted(done.keys() - found.parts.keys())
    for seq in missing:
        del done[seq]
    schema = _schema(storage, found)
    _complete_parts(storage, found, done, schema)
    errors = {
        seq: ItemErrors(_errors_key(storage, found, seq, facts), facts.errors)
        for seq, facts in done.items()
        if facts.errors
    }
    reasons = combine(storage, errors, schema)
    _remove_rest(storage, found, done, {each.key for each in errors.values()})
    return _totals(done, missing, reasons)


def total(documents: Iterable[Mapping[str, Any]]) -> Totals:
    """What items come to by their facts alone, as `document_of` gives them: without a look at the output."""
    return _totals(dict(enumerate(map(facts_of, documents))), (), Counter())


def tidy(output: Output, folder: str) -> None:
    """Once the state of the run is durable: keep what says whose the folder is and what types it has, and no more."""
    storage = opened(output, folder)
    found = look(storage)
    kept = {OWNER, *found.schemas.values()}
    remove(storage, [key for key in found.hidden if key not in kept])


def _schema(storage: Storage, found: Listing) -> Any:
    """The types that all parts have in the end; None where there never was a row."""
    return final(decoded(storage.read(schema_key(max(found.schemas))))) if found.schemas else None


def _complete_parts(storage: Storage, found: Listing, done: Mapping[int, Facts], schema: Any) -> None:
    """Give parts that were written before all types were known the columns of the others: readers ask the first."""
    if schema is None:
        return
    versions = [decoded(storage.read(schema_key(version))) for version in sorted(found.schemas)]
    doubtful = found.parts if was_widened(versions[:-1], versions[-1]) else found.partial
    for seq in sorted(doubtful.keys() & done.keys()):
        key = found.parts[seq]
        table = read_table(storage, key)
        metadata = table.schema.metadata
        if table.schema.remove_metadata() == schema:
            continue
        try:
            whole = table_of(schema, arrays_of(table), table.num_rows)
        except Failed:  # Whole numbers so large that there are none with fractions: they stay what they are.
            continue
        storage.write(key, encoded(whole, json.loads(metadata[METADATA])))


def _errors_key(storage: Storage, found: Listing, seq: int, facts: Facts) -> str | None:
    """The file with the errors of the attempt that counts; None where it was tidied away."""
    keys = found.errors.get((seq, facts.attempt), [])
    if len(keys) < 2:
        return keys[0] if keys else None
    document = part_document(storage, seq) or {}
    return next((key for key in keys if key == document.get("errors_file")), None)


def _remove_rest(
    storage: Storage, found: Listing, done: Mapping[int, Facts], counted: Set[str | None]
) -> None:
    parts = [key for seq, key in found.parts.items() if seq not in done]
    errors = [key for keys in found.errors.values() for key in keys if key not in counted]
    hidden_asides = [key for key in found.hidden if key.startswith(f"{HIDDEN}/.") and not is_claim_aside(key)]
    remove(storage, [*parts, *errors, *found.asides, *hidden_asides])


def _totals(done: Mapping[int, Facts], missing: Iterable[int], reasons: Counter[str]) -> Totals:
    seconds: Counter[str] = Counter()
    for facts in done.values():
        seconds.update(facts.seconds)
    return Totals(
        rows=sum(facts.rows for facts in done.values()),
        errors=sum(facts.errors for facts in done.values()),
        parts=len(done),
        bytes=sum(facts.bytes for facts in done.values()),
        seconds=dict(seconds),
        missing=tuple(missing),
        reasons=dict(reasons.most_common(REASONS_TOLD)),
    )

"""The end of a run's output: what each turn made of it, errors in one file, nothing left. For drivers."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Set
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from shoal.engine.workers.runner import Failed
from shoal.errors import NotFound
from shoal.files import Storage
from shoal.files.disk import is_aside
from shoal.files.turns import Turn, suspended_at
from shoal.spec.shared_sections import Output
from shoal.work.outputs.columns import arrays_of, table_of
from shoal.work.outputs.layout import (
    ERRORS,
    OWNER,
    Listing,
    aside_key,
    is_claim_aside,
    is_left_out,
    last_published,
    look,
    opened,
    part_key,
    published_key,
    published_prefix,
    put_back,
    remove,
    retire,
    schema_key,
    turns_prefix,
)
from shoal.work.outputs.ownership import FIRST, ensure_ours, replace
from shoal.work.outputs.part_tables import ItemErrors, combine, read_table
from shoal.work.outputs.parts import METADATA, encoded, facts_of, part_document
from shoal.work.outputs.schemas import decoded, final, was_widened
from shoal.work.protocols import Facts

_TRIES = 5
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
    output: Output,
    folder: str,
    run: str,
    expected: Iterable[tuple[int, Mapping[str, Any]]],
    turn: Turn = FIRST,
    *,
    strangers: Container[int] | None = None,
) -> Totals:
    """Make the folder what it is to be when these items are done: (item, facts as `document_of` gives them).

    Parts of other items are removed, with everything that unfinished attempts left; where the run is not over, only
    those of `strangers`, as a resume takes up the others. The files that the errors were combined from stay until
    `tidy`. Called again, also after `tidy` and with more items, it gives the same. Raises what `turn.ensure` does.
    """
    ensure_ours(output, folder, run)
    replace(output, folder, run, turn)
    storage = opened(output, folder)
    every = {seq: facts_of(document) for seq, document in expected}
    for _ in range(_TRIES):
        found = _look_for(storage, every)
        done = {seq: facts for seq, facts in every.items() if seq in found.parts}
        schema = _complete_parts(storage, run, found, done, turn)
        errors = {
            seq: ItemErrors(_errors_key(storage, found, seq, facts), facts.errors)
            for seq, facts in done.items()
            if facts.errors
        }
        reasons = publish(storage, run, turn, done, errors, schema)
        found = look(storage)  # Who takes a part away, or adds one, after this look sees what was published.
        if done.keys() <= found.parts.keys():
            break
    counted = {each.key for each in errors.values()}
    retire(storage, _rest(found, done, counted, strangers), turn)
    turn.ensure()
    remove(storage, [each.aside for each in found.retired if each.turn <= turn.number])
    return _totals(done, sorted(every.keys() - done.keys()), reasons)


def total(documents: Iterable[Mapping[str, Any]]) -> Totals:
    """What items come to by their facts alone, as `document_of` gives them: without a look at the output."""
    return _totals(dict(enumerate(map(facts_of, documents))), (), Counter())


def tidy(output: Output, folder: str, run: str, turn: Turn = FIRST) -> None:
    """Once the state of the run is durable: keep what says whose the folder is and what types it has, and no more."""
    storage = opened(output, folder)
    found = look(storage)
    turn.ensure()
    kept = {OWNER, *found.schemas.values(), *kept_when_tidy(run, turn.number)}
    later = {each.aside for each in found.retired if each.turn > turn.number}
    turns = f"{turns_prefix(run)}/"
    remove(storage, [key for key in found.hidden if key not in kept | later and not key.startswith(turns)])


def _look_for(storage: Storage, expected: Iterable[int]) -> Listing:
    """What is there; parts of these items that somebody put aside are put back before."""
    found = look(storage)
    missing = {part_key(seq) for seq in expected if seq not in found.parts}
    aside = [each for each in found.retired if each.key in missing]
    if not aside:
        return found
    put_back(storage, aside)
    return look(storage)


def _complete_parts(storage: Storage, run: str, found: Listing, done: Mapping[int, Facts], turn: Turn) -> Any:
    """Give parts that were written before all types were known the columns of the others: readers ask the first.

    The schema that all of them have then; None where there never was a row.
    """
    written: set[int] = set()
    turn.ensure()
    while versions := _versions(storage):
        schema = final(versions[-1])
        doubtful = found.parts if was_widened(versions[:-1], versions[-1]) else found.partial
        asked = sorted(doubtful.keys() & done.keys())
        written |= {seq for seq in asked if _complete(storage, part_key(seq), schema)}
        if len(_versions(storage)) == len(versions):  # Else an heir knows more columns than we did.
            _take_back(storage, run, turn, written)
            return schema
    return None


def _versions(storage: Storage) -> list[Any]:
    """The schemas that were agreed on, one after the other."""
    found: list[Any] = []
    with suppress(NotFound):
        while True:
            found.append(decoded(storage.read(schema_key(len(found) + 1))))
    return found


def _complete(storage: Storage, key: str, schema: Any) -> bool:
    """Whether this part was written anew."""
    try:
        table = read_table(storage, key)
    except NotFound:
        return False  # It is looked for once more at the end.
    metadata = table.schema.metadata
    if table.schema.remove_metadata() == schema:
        return False
    try:
        whole = table_of(schema, arrays_of(table), table.num_rows)
    except Failed:  # Whole numbers so large that there are none with fractions: they stay what they are.
        return False
    suspended_at("complete")
    storage.write(key, encoded(whole, json.loads(metadata[METADATA])))
    return True


def _take_back(storage: Storage, run: str, turn: Turn, written: Iterable[int]) -> None:
    """Put parts aside that we wrote anew when an heir had taken them out of the output already."""
    for seq in written:
        if is_left_out(storage, run, turn.number, seq):
            with suppress(NotFound):
                storage.move(part_key(seq), aside_key(turn.number, part_key(seq)))


def _errors_key(storage: Storage, found: Listing, seq: int, facts: Facts) -> str | None:
    """The file with the errors of the attempt that counts; None where it was tidied away."""
    keys = found.errors.get((seq, facts.attempt), [])
    if len(keys) < 2:
        return keys[0] if keys else None
    document = part_document(storage, seq) or {}
    return next((key for key in keys if key == document.get("errors_file")), None)


def _rest(
    found: Listing, done: Mapping[int, Facts], counted: Set[str | None], strangers: Container[int] | None
) -> list[str]:
    """What is of no item that is done; where the run is not over, only the parts of `strangers`."""
    parts = {seq: key for seq, key in found.parts.items() if seq not in done}
    if strangers is not None:
        return [key for seq, key in parts.items() if seq in strangers]
    errors = [key for keys in found.errors.values() for key in keys if key not in counted]
    unfinished = [key for key in found.hidden if is_aside(key.rpartition("/")[2]) and not is_claim_aside(key)]
    return [*parts.values(), *errors, *found.asides, *unfinished]


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


def publish(
    storage: Storage,
    run: str,
    turn: Turn,
    done: Mapping[int, Facts],
    errors: Mapping[int, ItemErrors],
    schema: Any,
) -> Counter[str]:
    """Make it known that the output consists of these items: how often each reason for an error was found.

    `schema` is that of the parts, or None where none has a row.
    """
    turn.ensure()
    suspended_at("publish")
    earlier = last_published(storage, run)
    known = [ERRORS] if earlier is None else [errors_published(run, earlier), ERRORS]
    reasons = combine(storage, errors, schema, errors_published(run, turn.number), known)
    document = {
        "parts": sorted(done),
        "rows": sum(facts.rows for facts in done.values()),
        "errors": sum(facts.errors for facts in done.values()),
    }
    storage.write(published_key(run, turn.number), json.dumps(document).encode())
    _show_errors(storage, run)
    return reasons


def errors_published(run: str, turn: int) -> str:
    """The errors that this turn published; not there where it had none."""
    return f"{published_prefix(run)}/{turn}.parquet"


def kept_when_tidy(run: str, turn: int) -> set[str]:
    """What stays of all that was published: the last word, and its errors where an earlier driver may come back."""
    return {published_key(run, turn), *([errors_published(run, turn)] if turn > 1 else [])}


def _show_errors(storage: Storage, run: str) -> None:
    shown = None
    while (last := last_published(storage, run)) != shown:
        assert last is not None, "this driver has published"
        has_errors = json.loads(storage.read(published_key(run, last)))["errors"]
        suspended_at("errors")
        if has_errors:
            _copy(storage, errors_published(run, last), ERRORS)
        else:
            storage.delete(ERRORS)
        shown = last


def _copy(storage: Storage, key: str, to: str) -> None:
    descriptor, path = tempfile.mkstemp(suffix=".parquet")
    os.close(descriptor)
    try:
        storage.download(key, path)
        storage.write(to, Path(path))
    except NotFound:
        return  # A later turn published, and removed this one's.
    finally:
        os.unlink(path)

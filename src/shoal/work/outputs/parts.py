"""Parts of the output: one Parquet file an item, written once and whole; and crumbs of attempts. For workers."""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from shoal.engine.workers.runner import Failed
from shoal.errors import FileError, NotFound
from shoal.files import Storage
from shoal.spec.shared_sections import Output
from shoal.work.outputs.columns import arrow, as_json, conform, table_of
from shoal.work.outputs.layout import (
    HIDDEN,
    aside_key,
    crumb_key,
    crumb_of,
    errors_key,
    is_left_out,
    opened,
    part_key,
    partial_key,
)
from shoal.work.outputs.misfits import keys_array, odd_keys, odd_names, odd_outputs, with_misfits
from shoal.work.outputs.schemas import Schemas, is_complete
from shoal.work.protocols import Facts

METADATA = b"shoal"
"""Under this key, a part says in JSON which item of which run it is, and its facts."""
REASON = "shoal: reason"
"""The last column in the errors of one item: a name that no column of a person has."""
_TRIES = 2
_FULL = (errno.ENOSPC, errno.EDQUOT)

Columns = Mapping[str, Sequence[Any]]
Errors = Sequence[tuple[Mapping[str, Any], str]]
"""Keys of inputs, and why they have no row."""
NOWHERE = -1
"""The position of an attempt that is at no input: whatever ends it, none is to blame."""


class PartWriter:
    """Writes the parts of one worker. For one thread."""

    def __init__(self, output: Output, folder: str, run: str) -> None:
        self._storage = opened(output, folder)
        self._run = run
        self._json = output.json
        self._schemas = Schemas(self._storage)
        self.crumbs = Crumbs(self._storage)

    def find(self, seq: int, content: str, turn: int = 1) -> Facts | None:
        """What an earlier attempt wrote, if it finished: its facts; None where there is none.

        `turn` is that of the driver which hands this item out. What a worker of an earlier driver wrote for an item
        that was lost with it is put aside. Any other part of another run or of other inputs raises `Failed`.
        """
        document = part_document(self._storage, seq)
        if document is None:
            return None
        is_lost = document.get("content") != content and int(document.get("turn", 0)) < turn
        if document.get("run") == self._run and is_lost:
            self._put_aside(seq, turn)
            return None
        if (document.get("run"), document.get("content")) != (self._run, content):
            whose = "other inputs" if document.get("run") == self._run else f"run {document.get('run')}"
            raise Failed(
                f"{self._storage.url}/{part_key(seq)} is there already, and is of {whose}:"
                " give each run an output of its own."
            )
        return facts_of(document)

    def write(
        self,
        seq: int,
        attempt: int,
        content: str,
        keys: Columns,
        columns: Columns,
        errors: Errors,
        facts: Facts,
        turn: int = 1,
    ) -> Facts:
        """Make the part durable, or find that another attempt did: the facts of the one that counts.

        `keys` and `columns` are of the good inputs, in their order; those that do not go with the others become
        errors. `rows`, `errors` and `attempt` of the facts are filled in here. Raises `Failed` when the disk is full,
        or when nothing goes together.
        """
        with self._told():
            table, errors = self._fitting(keys, columns, errors)
            facts = facts._replace(rows=table.num_rows, errors=len(errors), attempt=attempt)
            errors_file = self._write_errors(seq, attempt, errors)
            if not is_complete(table.schema) or not table.num_rows:
                self._storage.write(partial_key(seq), b"")
            document = {"run": self._run, "turn": turn, "item": seq, "content": content, **document_of(facts)}
            data = encoded(table, {**document, "errors_file": errors_file})
            for _ in range(_TRIES):  # Once more where another part has made room.
                if self._storage.write_new(part_key(seq), data):
                    self._ensure_counted(seq, turn)
                    return facts
                found = self.find(seq, content, turn)
                if found is not None:
                    return found
        raise Failed(f"{self._storage.url}/{part_key(seq)} was there, and is gone: somebody removes parts.")

    def _ensure_counted(self, seq: int, turn: int) -> None:
        """Take a part back that came too late: its driver was replaced, and the run has ended without it."""
        if is_left_out(self._storage, self._run, turn, seq):
            self._put_aside(seq, turn)
            raise Failed(f"Run {self._run} was taken over, and has ended without {part_key(seq)}.")

    def _put_aside(self, seq: int, turn: int) -> None:
        with suppress(NotFound):
            self._storage.move(part_key(seq), aside_key(turn, part_key(seq)))

    def _fitting(self, keys: Columns, columns: Columns, errors: Errors) -> tuple[Any, Errors]:
        """A table of the inputs that go together, and the errors with those that do not."""
        columns, odd = _with_json(columns, self._json)
        while True:
            if odd:
                errors = [*errors, *_as_errors(keys, odd)]
                keys, columns = _without(keys, odd), _without(columns, odd)
            try:
                return self._table(keys, columns, errors), errors
            except Failed:
                known = self._schemas.known()
                own = {name: values for name, values in columns.items() if name not in keys}
                odd = {**odd_names(keys, columns), **odd_outputs(own, known), **odd_keys(keys, known)}
                if not odd or (known is None and len(odd) == _count(keys)):
                    raise

    def _table(
        self,
        keys: Columns,
        columns: Columns,
        errors: Errors,
    ) -> Any:
        import pyarrow

        for name in sorted(keys.keys() & columns.keys()):
            if any(value is not None for value in columns[name]):
                raise Failed(
                    f"The model gives a column {name!r}, and so is a key of the input called: rename one of them."
                )
        arrays = {name: arrow(name, values) for name, values in {**columns, **keys}.items()}
        arrays = {name: arrays[name] for name in {**keys, **columns}}
        lengths = {len(array) for array in arrays.values()}
        if len(lengths) > 1:
            raise Failed(_told_lengths(keys, arrays))
        if lengths <= {0}:
            return self._no_rows(errors)
        found = pyarrow.schema([(name, arrays[name].type) for name in arrays])
        count = lengths.pop()
        try:
            return table_of(self._schemas.agree(found), arrays, count)
        except Failed:
            return table_of(self._schemas.agree(found, fractions=columns.keys()), arrays, count)

    def _no_rows(self, errors: Errors) -> Any:
        """A part of nothing, as it is the commit; with the columns that are known by now."""
        known = self._schemas.known()
        return table_of(errors_table(errors).drop_columns([REASON]).schema if known is None else known, {}, 0)

    def _write_errors(self, seq: int, attempt: int, errors: Errors) -> str | None:
        if not errors:
            return None
        data = encoded(errors_table(errors))
        key = errors_key(seq, attempt, hashlib.sha256(data).hexdigest())
        self._storage.write(key, data)
        return key

    @contextmanager
    def _told(self) -> Iterator[None]:
        """A full disk in a sentence; other errors of files say enough themselves."""
        try:
            yield
        except FileError as error:
            if getattr(error.__cause__, "errno", None) not in _FULL:
                raise
            raise Failed(
                f"The disk of the output is full: no more can be written to {self._storage.url}."
                f" Make room, then: shoal resume {self._run} --failed"
            ) from error


def _with_json(columns: Columns, names: Collection[str]) -> tuple[Columns, dict[int, str]]:
    """The columns with JSON text in those of these names, and why some inputs have none, by position."""
    made = {name: as_json(columns[name]) for name in names if name in columns}
    odd = {
        position: f"what the model gave in column {name!r} cannot be written as JSON: {why}"
        for name, (_, whys) in made.items()
        for position, why in whys.items()
    }
    return {**columns, **{name: texts for name, (texts, _) in made.items()}}, odd


def _count(columns: Columns) -> int:
    return max((len(values) for values in columns.values()), default=0)


def _without(columns: Columns, odd: Collection[int]) -> dict[str, Sequence[Any]]:
    """The columns without these positions."""
    kept = [position for position in range(_count(columns)) if position not in odd]
    return {name: _taken(values, kept) for name, values in columns.items()}


def _taken(values: Any, positions: list[int]) -> Sequence[Any]:
    if hasattr(values, "dtype"):
        found: Sequence[Any] = values[positions]
        return found
    if hasattr(values, "take"):
        return values.take(positions)  # type: ignore[no-any-return]
    return [values[position] for position in positions]


def _as_errors(keys: Columns, odd: Mapping[int, str]) -> list[tuple[dict[str, Any], str]]:
    return [
        ({name: values[position] for name, values in keys.items()}, reason)
        for position, reason in sorted(odd.items())
    ]


def _told_lengths(keys: Mapping[str, Sequence[Any]], arrays: Mapping[str, Any]) -> str:
    """Batches of one item had other columns: which of them, and for how many inputs."""
    total = max((len(arrays[name]) for name in keys), default=0)
    short = {name: len(array) for name, array in arrays.items() if name not in keys and len(array) != total}
    found = ", ".join(f"{name!r} for {count:,}" for name, count in short.items())
    return f"The model gave column {found} of {total:,} inputs: give the same columns for every input."


def errors_table(errors: Errors) -> Any:
    """The keys of these inputs, and the reasons as the last column."""
    import pyarrow

    names = list(dict.fromkeys(name for keys, _ in errors for name in keys))
    columns = [keys_array(name, [keys.get(name) for keys, _ in errors]) for name in names]
    arrays = [array for array, _ in columns]
    told = with_misfits([reason for _, reason in errors], [misfits for _, misfits in columns])
    reasons = arrow(REASON, told)
    return pyarrow.Table.from_arrays([*arrays, conform(REASON, reasons, pyarrow.string())], [*names, REASON])


def encoded(table: Any, document: Mapping[str, Any] | None = None) -> bytes:
    """A Parquet file that everybody can read, with what it says of itself."""
    import pyarrow
    from pyarrow import parquet

    metadata = None if document is None else {METADATA: json.dumps(document).encode()}
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table.replace_schema_metadata(metadata), sink, compression="snappy")
    return bytes(sink.getvalue())


def part_document(storage: Storage, seq: int) -> dict[str, Any] | None:
    """What a part says of itself; None where there is no part. `Failed` for a file that is no part of Shoal."""
    import pyarrow
    from pyarrow import parquet

    key = part_key(seq)
    try:
        with storage.open(key) as file:
            metadata = parquet.read_metadata(file).metadata or {}
        document = json.loads(metadata[METADATA])
    except NotFound:
        return None
    except (pyarrow.ArrowException, KeyError, ValueError) as error:
        raise Failed(f"{storage.url}/{key} is there already, and is no part that Shoal wrote.") from error
    return document if isinstance(document, dict) else {}


def document_of(facts: Facts) -> dict[str, Any]:
    """Facts as JSON values."""
    return {**facts._asdict(), "seconds": dict(facts.seconds)}


def facts_of(document: Mapping[str, Any]) -> Facts:
    """From `document_of`; what else is in the document does not count."""
    return Facts(**{name: document[name] for name in Facts._fields if name in document})


class Ends(NamedTuple):
    """How many attempts ended at an input, and how many of these because it took too long."""

    attempts: int = 0
    timed_out: int = 0


class Crumbs:
    """The crumbs of an output. Each attempt has one, which it moves as it goes on; for careful attempts only."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def suspects(self, seq: int) -> dict[int, Ends]:
        """The positions at which earlier attempts at an item were last seen."""
        found: dict[int, Ends] = {}
        for key in self._keys(seq):
            crumb = _read(self._storage.read(key))
            position = crumb.get("position")
            if isinstance(position, int) and position != NOWHERE:
                attempts, timed_out = found.get(position, Ends())
                found[position] = Ends(attempts + 1, timed_out + (crumb.get("timed_out") is True))
        return found

    def at(self, seq: int, attempt: int, position: int, *, timed_out: bool = False) -> None:
        """Say that this attempt begins with this input, or that it took too long; blocks until that would survive
        the process."""
        crumb = {"position": position, **({"timed_out": True} if timed_out else {})}
        self._storage.write(crumb_key(seq, attempt), json.dumps(crumb).encode())

    def _keys(self, seq: int) -> list[str]:
        keys = (entry.key for entry in self._storage.list(HIDDEN, f"at-{seq:06d}-*.json"))
        return [key for key in keys if (crumb_of(key) or (None,))[0] == seq]


def _read(data: bytes) -> dict[str, Any]:
    """Empty where it is no crumb."""
    try:
        document: Any = json.loads(data)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}

"""The types of the output's columns, on which all workers agree before they write: parts can be read together.

The first who has a row publishes the types of its columns; all others keep to them. What was only None so far has the
type null, and whoever sees a value of it first publishes the next version; so does who has fractions where there were
whole numbers, or a column that the others do not have. Each version is written once, by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from shoal.engine.workers.runner import Failed
from shoal.errors import NotFound
from shoal.files import Storage
from shoal.work.outputs.columns import is_known, joined, settled
from shoal.work.outputs.layout import schema_key

MOST_COLUMNS = 1000
"""So many come of columns that are not the same for all inputs, at most."""


class Schemas:
    """The agreement, as far as this worker has heard of it. For one thread."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._version = 0
        self._schema: Any = None

    def known(self) -> Any:
        """What was agreed on by now, or None."""
        self._hear()
        return self._schema

    def agree(self, found: Any, fractions: Collection[str] = ()) -> Any:
        """The schema of a part whose rows have this one. `Failed` where there are far too many columns.

        `fractions` are columns that may have them from now on, though they had whole numbers.
        """
        if self._schema is None:
            self._hear()
        while True:
            proposal = found if self._schema is None else merged(self._schema, found, fractions)
            if proposal == self._schema:
                return proposal
            data = proposal.serialize().to_pybytes()
            if self._storage.write_new(schema_key(self._version + 1), data):
                self._version, self._schema = self._version + 1, proposal
            else:
                self._hear()

    def _hear(self) -> None:
        while True:
            try:
                data = self._storage.read(schema_key(self._version + 1))
            except NotFound:
                return
            self._version, self._schema = self._version + 1, decoded(data)


def decoded(data: bytes) -> Any:
    """A schema as it was published."""
    import pyarrow

    return pyarrow.ipc.read_schema(pyarrow.BufferReader(data))


def final(schema: Any) -> Any:
    """The schema that all parts have in the end: what was None everywhere becomes text."""
    import pyarrow

    return pyarrow.schema([(field.name, settled(field.type)) for field in schema])


def is_complete(schema: Any) -> bool:
    return all(is_known(field.type) for field in schema)


def was_widened(earlier: Iterable[Any], last: Any) -> bool:
    """Whether parts may have been written without a column of the others, or with a type of it that is not theirs,
    though it was known."""
    return any(
        field.name not in schema.names
        or (is_known(schema.field(field.name).type) and schema.field(field.name).type != field.type)
        for schema in earlier
        for field in last
    )


def merged(known: Any, found: Any, fractions: Collection[str] = ()) -> Any:
    """What is known, with the columns and the types that were not."""
    import pyarrow

    types = {field.name: field.type for field in known}
    for field in found:
        earlier = types.get(field.name, pyarrow.null())
        types[field.name] = joined(earlier, field.type, widen=field.name in fractions)
    if len(types) > max(MOST_COLUMNS, len(known)):
        raise Failed(
            f"The model gives more and more columns, {len(types):,} by now: give the same columns for every input, or"
            " one column with a dict, and name it in output: {json: [...]}."
        )
    return pyarrow.schema(list(types.items()))

"""The types of the output's columns, on which all workers agree before they write: parts can be read together.

The first who has a row publishes the types of its columns; all others keep to them. What was only None so far has the
type null, and whoever sees a value of it first publishes the next version; so does who has fractions where there were
whole numbers. Each version is written once, by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from shoal.engine.workers.runner import Failed
from shoal.errors import NotFound
from shoal.files import Storage
from shoal.work.infer.outputs.columns import is_known, is_same_struct, settled
from shoal.work.infer.outputs.layout import schema_key


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
        """The schema of a part whose rows have this one. `Failed` where the columns are others than before.

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
    """Whether parts may have been written with a type that is not that of the others, though it was known."""
    return any(
        is_known(field.type) and field.type != last.field(field.name).type
        for schema in earlier
        for field in schema
    )


def merged(known: Any, found: Any, fractions: Collection[str] = ()) -> Any:
    """What is known, with the types that were not."""
    import pyarrow

    if known.names != found.names:
        raise Failed(
            f"The columns here are {', '.join(found.names)}, and parts that were written before have"
            f" {', '.join(known.names)}: give the same columns for every input."
        )
    return pyarrow.schema(
        [
            (
                each.name,
                (_wider if each.name in fractions else _fuller)(each.type, found.field(each.name).type),
            )
            for each in known
        ]
    )


def _wider(known: Any, found: Any) -> Any:
    """Numbers that hold fractions, too, where whole ones were known and others are found; else the fuller type."""
    import pyarrow
    from pyarrow import types

    if types.is_list(known) and types.is_list(found):
        return pyarrow.list_(_wider(known.value_type, found.value_type))
    if types.is_integer(known) and types.is_floating(found):
        return pyarrow.float64()
    return _fuller(known, found)


def _fuller(known: Any, found: Any) -> Any:
    """The known type, with what was null in it taken from the other; as it is where they have nothing in common."""
    import pyarrow

    if pyarrow.types.is_null(known):
        return found
    if pyarrow.types.is_list(known) and pyarrow.types.is_list(found):
        return pyarrow.list_(_fuller(known.value_type, found.value_type))
    if is_same_struct(known, found):
        return pyarrow.struct(
            [(each.name, _fuller(each.type, found.field(each.name).type)) for each in known]
        )
    return known

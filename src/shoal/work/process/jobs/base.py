"""What a job is: which records it wants, what it finds in one, and what becomes of what was found in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from numbers import Integral, Real
from operator import add
from typing import Any, ClassVar

from shoal.errors import SpecError, unknown
from shoal.work.protocols import Unreadable
from shoal.work.records.record import Record

ARCHIVES = frozenset(("warc", "wet", "wat"))
TABLES = frozenset(("text", "jsonl", "csv", "parquet"))
TYPES = {"int": "int64", "float": "float64", "text": "string"}
"""Types of values, and what Arrow calls them."""
_MOST = 2**63

Pair = tuple[Any, Any]
"""A key and its value: a text (or a tuple of as many texts as there are key columns) and a number (or a tuple)."""


class Job:
    """Counts what it finds in records. A class of the user's has a `map`, and whatever else of this it wants.

    `map` is called with a record at a time, `gather` with what it gave for some hundred of them. Values of equal keys
    are summed, natively, unless there is another `combine`. A job without key columns gives rows instead: `map` gives
    tuples of values, and they are kept in the order of the records.
    """

    key: ClassVar[Sequence[str]] = ("key",)
    """The key columns of the result. All are texts."""
    values: ClassVar[Mapping[str, str]] = {"count": "int"}
    """The other columns of the result and their types (`TYPES`). The result is sorted by the first, falling."""
    records: ClassVar[frozenset[str] | None] = None
    """The types of an archive's records that it wants; None: all."""
    formats: ClassVar[frozenset[str]] = ARCHIVES | TABLES
    """The inputs it can be used with."""
    partial_key: ClassVar[Sequence[str]] = ()
    partial_values: ClassVar[Mapping[str, str]] = {}
    """The columns before `finish`, where they are others. The first key column is that of the result."""

    def map(self, record: Record) -> Iterable[Any]:
        """What is found in a record: pairs of key and value. Raising costs this record."""
        raise NotImplementedError

    def gather(self, found: Sequence[Any]) -> Any:
        """What `map` gave for several records as one: pairs, a mapping, or an Arrow table with the columns of
        `partial_columns`. Keys may come more than once."""
        return chain.from_iterable(found)

    def combine(self, one: Any, other: Any) -> Any:
        """Two values of a key as one. Associative and commutative: in which order is not known."""
        return tuple(map(add, one, other)) if isinstance(one, tuple) else one + other

    def finish(self, pairs: Iterator[Pair]) -> Iterator[tuple[Any, ...]]:
        """Rows of the result from pairs, which come sorted by key, each key once. They have to be sorted, too."""
        raise NotImplementedError


class KeyCount(Job):
    """A job whose `map` gives keys, each of which counts one."""

    def gather(self, found: Sequence[Iterable[Hashable]]) -> Any:
        return Counter(chain.from_iterable(found))


def columns(job: Job) -> dict[str, str]:
    """The columns of the result, with their types."""
    return {**dict.fromkeys(job.key, "text"), **job.values}


def numbers_of(job: Job) -> list[str]:
    """The columns of the result that are numbers."""
    return [name for name, kind in columns(job).items() if kind != "text"]


def partial_columns(job: Job) -> dict[str, str]:
    """The columns of a partial, with their types: key columns first."""
    return {**dict.fromkeys(partial_key(job), "text"), **(job.partial_values or job.values)}


def partial_key(job: Job) -> Sequence[str]:
    return job.partial_key or job.key


def is_rows(job: Job) -> bool:
    """Whether it gives rows, and counts nothing."""
    return not partial_key(job)


def is_sum(job: Job) -> bool:
    """Whether the values of equal keys are summed, as numbers."""
    return type(job).combine is Job.combine and "text" not in (job.partial_values or job.values).values()


def finishes(job: Job) -> bool:
    """Whether a result is something else than what was combined."""
    return type(job).finish is not Job.finish


def adopted(made: Callable[..., Any], options: Mapping[str, Any]) -> Job:
    """A job of the user's: a class with at least a `map`, or a function that is one. The rest is that of `Job`.

    Raises `SpecError` for a class that is no job.
    """
    name = getattr(made, "__name__", "function")
    if not isinstance(made, type):
        made = type(name, (), {"map": staticmethod(made)})
    key = getattr(made, "key", None)
    own = {"key": (key,)} if isinstance(key, str) else {}
    job: Job = type(name, (made,) if issubclass(made, Job) else (made, Job), own)(**options)
    if type(job).map is Job.map:
        raise SpecError(
            f"The class {name} is no job: it has no `map`.", hint="Give it one: map(record) -> pairs."
        )
    for kind in (*job.values.values(), *job.partial_values.values()):
        if kind not in TYPES:
            raise unknown(f"type of a value of the job {name}:", str(kind), TYPES)
    return job


def checked(job: Job, found: Iterable[Any]) -> list[Any]:
    """What a `map` gave, if it can be counted or kept; else `Unreadable`, which says why not."""
    width, types = len(partial_key(job)), [*(job.partial_values or job.values).values()]
    given = list(found)
    for each in given:
        if not width:
            _check("row", each, types, is_bare=False)
        elif not isinstance(each, tuple) or len(each) != 2:
            raise Unreadable(f"the job gave {each!r:.100}, which is no pair of a key and a value")
        else:
            _check("key", each[0], ["text"] * width, is_bare=width == 1)
            _check("value", each[1], types, is_bare=len(types) == 1)
    return given


def _check(what: str, given: Any, types: Sequence[str], *, is_bare: bool) -> None:
    parts = (given,) if is_bare else given
    if (
        not isinstance(parts, tuple)
        or len(parts) != len(types)
        or not all(_fits(part, kind) for part, kind in zip(parts, types, strict=True))
    ):
        wanted = types[0] if is_bare else f"tuple of {', '.join(types)}"
        raise Unreadable(f"the job gave the {what} {given!r:.100}, which is no {wanted}")


def _fits(value: Any, kind: str) -> bool:
    if kind == "text":
        return isinstance(value, str)
    if kind == "float":
        return isinstance(value, Real)
    return isinstance(value, Integral) and -_MOST <= int(value) < _MOST

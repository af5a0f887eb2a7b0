"""From what a user gives (a file, or a function and rows) to a job that can be run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from shoal import spec as specs
from shoal.errors import SpecError
from shoal.spec import Workload
from shoal.work.job import Job
from shoal.work.kind import kind_of

W = TypeVar("W", bound=Workload)
Target = str | os.PathLike[str] | Callable[..., Any]


class Prepared(NamedTuple):
    """A checked workload, and all that a resume needs to make it again."""

    spec: Workload
    job: Job
    document: dict[str, Any]
    rows: Sequence[Mapping[str, Any]] | None = None
    """The rows of a function run, to be kept with it."""
    pickled: bytes | None = None
    """A function that was sent by value."""


def prepared(
    target: Target,
    rows: Iterable[Mapping[str, Any]] | None,
    sets: Sequence[str],
    limit: int | None,
    settings: Mapping[str, Any],
    folder: str,
    *,
    inline: bool = False,
) -> Prepared:
    """What is to be run, checked; a function that cannot be imported runs in `folder`."""
    if callable(target):
        from shoal.api import functions

        return functions.from_function(target, rows, settings, folder, limit, inline=inline)
    if not isinstance(target, str | os.PathLike):
        raise SpecError(
            f"Expected a workload file or a function, found a {type(target).__name__}.",
            hint='shoal.run("sweep.yaml"), or shoal.run(function, rows).',
        )
    _refuse_settings(rows, settings)
    return from_file(os.fspath(target), sets, limit, inline=inline)


def _refuse_settings(rows: object, settings: Mapping[str, Any]) -> None:
    if rows is not None or settings:
        raise SpecError(
            "Rows and settings go with a function, not with a workload file.",
            hint="Write them into the file, or pass sets=['limits.retries=1'].",
        )


def from_file(
    path: str, sets: Sequence[str] = (), limit: int | None = None, *, inline: bool = False
) -> Prepared:
    """Load and check a workload file; raises `SpecError` with everything that is wrong.

    `inline` has its items run one at a time; a resume does not keep to that.
    """
    ensure_limit(limit)
    spec = specs.load(path, sets)
    assert isinstance(spec, Workload)
    if inline:
        spec = one_at_a_time(spec)
    document = {"path": os.path.abspath(path), "sets": list(sets), "limit": limit}
    return Prepared(spec, job_of(spec, limit=limit), document)


def one_at_a_time(spec: W) -> W:
    """The same workload, with one worker."""
    return replace(spec, limits=replace(spec.limits, concurrent=1))


def ensure_limit(limit: object) -> None:
    """`SpecError` unless this is None or a number of items that can be taken."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise SpecError(
            f"limit: expected a whole number of at least 1, found {limit!r}.",
            hint="Leave it out for all of them.",
        )


def what_runs(spec: Workload) -> str:
    """The code that a workload names, in a few words."""
    section = getattr(spec, kind_of(spec.kind).code, None)
    named = [(name, getattr(section, name)) for name in getattr(section, "exactly_one", ())]
    return ", ".join(f"{name} {value}" for name, value in named if value is not None)


def job_of(spec: Workload, *, limit: int | None = None) -> Job:
    """The job of a spec, by its kind."""
    return kind_of(spec.kind).prepare(spec, limit=limit)

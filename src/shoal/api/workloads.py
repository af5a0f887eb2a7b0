"""From what a user gives (a file, or a function and rows) to a job that can be run. The lookup of kinds is here."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shoal import spec as specs
from shoal.errors import SpecError
from shoal.spec import Workload
from shoal.work.job import Job


class Prepared(NamedTuple):
    """A checked workload, and all that a resume needs to make it again."""

    spec: Workload
    job: Job
    document: dict[str, Any]
    rows: Sequence[Mapping[str, Any]] | None = None
    """The rows of a function run, to be kept with it."""
    pickled: bytes | None = None
    """A function that was sent by value."""


def from_file(path: str, sets: Sequence[str] = (), limit: int | None = None) -> Prepared:
    """Load and check a workload file; raises `SpecError` with everything that is wrong."""
    ensure_limit(limit)
    spec = specs.load(path, sets)
    document = {"path": os.path.abspath(path), "sets": list(sets), "limit": limit}
    return Prepared(spec, job_of(spec, limit=limit), document)


def ensure_limit(limit: object) -> None:
    """`SpecError` unless this is None or a number of items that can be taken."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise SpecError(
            f"limit: expected a whole number of at least 1, found {limit!r}.",
            hint="Leave it out for all of them.",
        )


def what_runs(spec: Workload) -> str:
    """The code that a workload names, in a few words."""
    section = getattr(spec, "run", None) or getattr(spec, "model", None)
    named = [(name, getattr(section, name)) for name in getattr(section, "exactly_one", ())]
    return ", ".join(f"{name} {value}" for name, value in named if value is not None)


def job_of(spec: Workload, *, limit: int | None = None, pickle: str | None = None) -> Job:
    """The job of a spec, by its kind."""
    from shoal.spec import Infer, Sweep

    if isinstance(spec, Sweep):
        from shoal.work.sweep.job import prepare

        return prepare(spec, limit=limit, pickle=pickle)
    if isinstance(spec, Infer):
        from shoal.work.infer.job import prepare as prepare_infer

        return prepare_infer(spec, limit=limit)
    raise AssertionError(f"no module for kind {spec.kind!r}")

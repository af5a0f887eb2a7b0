"""What can be known to be wrong with a process workload before anything is started: the job, files, places."""

from __future__ import annotations

import os
from collections.abc import Iterator

from shoal.errors import AccessDenied, FileError, NotFound, Problem, SpecError, nearest
from shoal.files import find, is_url, open_storage
from shoal.files.patterns import has_magic
from shoal.spec.process import SPARK, Process
from shoal.work import functions
from shoal.work.job import not_yet
from shoal.work.process.jobs import JOBS, built_in
from shoal.work.process.result_place import check_place


def check(spec: Process) -> list[Problem]:
    """Every problem that does not need a worker, or somebody else's machine, to be seen."""
    if not os.path.isdir(spec.folder):
        return [
            Problem(f"The workload's folder {spec.folder} is not there.", "Has it been moved or renamed?")
        ]
    found = [*not_yet(spec), *_job(spec), *_input(spec), *check_place(spec.output, spec.folder)]
    if spec.backend == SPARK:
        from shoal.cluster.spark_context import java_problems

        found += java_problems(spec.env)
    return found


def _job(spec: Process) -> Iterator[Problem]:
    if spec.job.function is not None:
        yield from functions.look_up(
            "job.function", spec.job.function, spec.folder, installs=bool(spec.requirements)
        )[0]
        return
    format_, name = spec.input.format, str(spec.job.name)
    try:
        job = built_in(name, spec.job.options)
    except SpecError as error:
        yield Problem(f"job.{name}: {error}", error.hint)
        return
    if format_ not in job.formats:
        fitting = [other for other in JOBS if format_ in built_in(other, {}).formats]
        others = f", or choose a job for {format_}: {', '.join(fitting)}" if fitting else ""
        yield Problem(
            f"job: {name} cannot be made of {format_}.",
            f"Give it input: {{{' or '.join(sorted(job.formats))}: ...}}{others}.",
        )


def _input(spec: Process) -> Iterator[Problem]:
    key = f"input.{spec.input.key}"
    for target in spec.input.targets:
        try:
            open_storage(target, folder=spec.folder, endpoint=spec.input.endpoint)
        except SpecError as error:
            yield Problem(f"input: {error}", error.hint)
            continue
        if is_url(target):
            continue
        path = os.path.join(spec.folder, target)
        if has_magic(target) or os.path.exists(path):
            yield from _empty(spec, key, target)
            continue
        parent = os.path.dirname(path.rstrip(os.sep))
        beside = os.listdir(parent) if os.path.isdir(parent) else []
        yield Problem(
            f"{key}: there is no file or folder {target} in {spec.folder}.",
            nearest(target.rstrip("/"), beside),
        )


def _empty(spec: Process, key: str, target: str) -> Iterator[Problem]:
    """A folder or a pattern of this machine in which there is nothing. Looks no further than the first file."""
    try:
        _, found = find(target, folder=spec.folder)
        next(iter(found), None)
    except (AccessDenied, NotFound) as error:
        yield Problem(f"{key}: {error}", error.hint)
    except FileError:
        return  # That it cannot be read is told when it is read, with the reason.

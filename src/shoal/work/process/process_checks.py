"""What can be known to be wrong with a process workload before anything is started: the job, files, places."""

from __future__ import annotations

import os
from collections.abc import Iterator

from shoal.errors import AccessDenied, FileError, NotFound, Problem, SpecError, nearest
from shoal.files import find, is_among, is_url, open_storage
from shoal.files.patterns import has_magic
from shoal.spec.process import SPARK, Process
from shoal.work import functions
from shoal.work.job import not_yet
from shoal.work.process.jobs import JOBS, built_in
from shoal.work.process.result_file import ensure_replaceable
from shoal.work.process.result_place import ResultPlace, check_place


def check(spec: Process) -> list[Problem]:
    """Every problem that does not need a worker, or somebody else's machine, to be seen."""
    if not os.path.isdir(spec.folder):
        return [
            Problem(f"The workload's folder {spec.folder} is not there.", "Has it been moved or renamed?")
        ]
    found = [*not_yet(spec), *_job(spec), *_input(spec), *_output(spec)]
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


def _output(spec: Process) -> Iterator[Problem]:
    if problems := check_place(spec.output, spec.folder):
        yield from problems
        return
    place = ResultPlace(spec.output, spec.folder, "")
    if _is_read_again(spec, place):
        yield Problem(
            f"output: {spec.output.path} is among the files that input.{spec.input.key} names.",
            "Give another path: the result would replace what is read, or be read the next time.",
        )
    elif not is_url(spec.output.path):
        try:
            ensure_output_is_ours(spec, place)
        except SpecError as error:
            yield Problem(str(error), error.hint)


def _is_read_again(spec: Process, place: ResultPlace) -> bool:
    keys = (place.name, place.part_key(0), place.all_errors_key)
    try:
        return spec.output.endpoint == spec.input.endpoint and any(
            is_among(target, place.storage.url, key, folder=spec.folder)
            for target in spec.input.targets
            for key in keys
        )
    except SpecError:
        return False  # What is wrong with the input is told where the input is checked.


def ensure_output_is_ours(spec: Process, place: ResultPlace) -> None:
    """`SpecError` where the result would replace something else. What a job of the user's writes only workers know."""
    if spec.job.function is None:
        ensure_replaceable(place, built_in(str(spec.job.name), spec.job.options))


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

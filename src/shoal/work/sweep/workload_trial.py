"""What runs in a worker whose trials are runs of another workload: `shoal run`, in a process and a home of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from shoal import spec as specs
from shoal.engine.workers.process import run_command
from shoal.engine.workers.runner import Failed, Work
from shoal.errors import Problem, SpecError
from shoal.spec import Cell, Sweep
from shoal.spec.nodes import SET
from shoal.work.kind import kind_of
from shoal.work.sweep.trial import cells_of

LIMIT = "limit"
"""A column of this name is `--limit`: how much of its input a trial takes."""
OUTPUT = "output"
"""What a workload writes to: each trial has its own."""
ROWS_CHECKED = 100


class WorkloadTrial:
    """Runs the workload with the row's values set. Nothing that one trial learned is known to the next."""

    def __init__(self, workload: str) -> None:
        self._workload = workload

    def run(self, work: Work) -> Mapping[str, Any] | None:
        settings = settings_of(cells_of(work))
        output = os.path.join(work.folder, OUTPUT)
        answer = os.path.join(work.folder, "run.json")
        leases = os.path.join(work.folder, "leases")
        arguments = ["python", "-P", "-m", "shoal", "run", self._workload, "--json", *settings.options()]
        env = {
            "SHOAL_HOME": os.path.join(work.folder, "shoal"),
            "SHOAL_LEASES": os.path.join(
                leases, "leases.json"
            ),  # Its room is this trial's, which is held already.
        }
        try:
            run_command([*arguments, *self._to(output, settings)], work, env=env, stdout=answer)
        except Failed as failed:
            raise Failed(why(_read(answer)) or str(failed)) from None
        finally:
            shutil.rmtree(leases, ignore_errors=True)
        document = _read(answer)
        if document.get("state") != "succeeded":
            raise Failed(why(document) or f"{self._workload} gave no answer that can be read")
        shutil.rmtree(output, ignore_errors=True)
        return metrics_of(document)

    def _to(self, output: str, settings: Settings) -> list[str]:
        """The option that sends the output to the trial's own folder, where the workload has one."""
        try:
            inner = specs.load(self._workload, settings.sets)
        except SpecError as error:
            raise Failed(str(error)) from None
        return [f"--set={each}" for each in kind_of(inner.kind).written_to(inner, output)]


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def why(document: Mapping[str, Any]) -> str | None:
    """Why a run did not succeed, as far as what it printed says."""
    if document.get("error"):
        hint = f" {document['hint']}" if document.get("hint") else ""
        return f"{document['error']}{hint}"
    notes = "; ".join(document.get("notes") or ())
    return f"the run {document['state']}: {notes}" if notes and document.get("state") != "succeeded" else None


def metrics_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """What runs of its kind are compared by, from the run's own summary."""
    kind = str(document.get("kind"))
    return kind_of(kind).measures(document.get(kind) or {}, document["seconds"])


class Settings(NamedTuple):
    """What one trial asks of the workload."""

    sets: tuple[str, ...]
    limit: str | None

    def options(self) -> list[str]:
        """For the command line."""
        options = [f"--set={each}" for each in self.sets]
        return options if self.limit is None else [*options, f"--limit={self.limit}"]


def settings_of(cells: Mapping[str, Cell]) -> Settings:
    """Each value by its exact text, as `--set` takes it. A blank sets nothing: the file's own value stays."""
    texts = {name: cell.text for name, cell in cells.items() if cell.text}
    limit = texts.pop(LIMIT, None)
    return Settings(tuple(f"{name}={text}" for name, text in texts.items()), limit)


def check_inner(
    spec: Sweep, columns: Sequence[str] | None, rows: Iterator[Sequence[Cell]] | None
) -> list[Problem]:
    """What is wrong with the workload, as the trials would run it. `rows` are those of a table, None without one."""
    path = os.path.join(spec.folder, spec.run.workload or "")
    if columns is None:
        return []
    if _kind(path) == spec.kind:
        message = f"run.workload: {spec.run.workload} is a sweep, and a trial of a sweep cannot be one."
        return [Problem(message, "Name a workload of another kind, such as infer.")]
    found = dict.fromkeys(
        Problem(f"column {name!r}: each trial has an output of its own.", "Leave it out.")
        for name in columns
        if name.partition(".")[0] == OUTPUT
    )
    for cells in _samples(spec, columns, rows):
        settings = settings_of(cells)
        found.update(dict.fromkeys(_limit_problems(settings)))
        try:
            specs.load(path, settings.sets)
        except SpecError as error:
            found.update(dict.fromkeys(_worded(problem, settings, path, spec) for problem in error.problems))
    return list(found)


def _kind(path: str) -> str | None:
    """What the file is, where it is right as it stands; it may be so only with what the columns set."""
    try:
        return specs.load(path).kind
    except SpecError:
        return None


def _samples(
    spec: Sweep, columns: Sequence[str], rows: Iterator[Sequence[Cell]] | None
) -> Iterator[dict[str, Cell]]:
    """Trials to check: the first rows of a table, or each value of a grid or a search once."""
    if rows is not None:
        yield from (dict(zip(columns, row, strict=True)) for row in islice(rows, ROWS_CHECKED))
        return
    axes = spec.trials.grid or {name: _ends(range_) for name, range_ in (spec.trials.search or {}).items()}
    first = {name: values[0] for name, values in axes.items()}
    yield first
    for name, values in axes.items():
        yield from ({**first, name: value} for value in values[1:])


def _ends(range_: specs.SearchRange) -> tuple[Cell, ...]:
    return range_.choices or (Cell.of(range_.low), Cell.of(range_.high))


def _limit_problems(settings: Settings) -> list[Problem]:
    limit = settings.limit
    if limit is None or re.fullmatch("0*[1-9][0-9]{0,8}", limit):
        return []
    return [Problem(f"column {LIMIT!r}: expected a whole number of at least 1, found {limit!r}.", None)]


def _worded(problem: Problem, settings: Settings, path: str, spec: Sweep) -> Problem:
    """In the words of the sweep: a `--set` is a column here, and the file is named as the sweep names it."""
    for each in settings.sets:
        if problem.message.startswith(f"{SET}{each}: "):
            told = problem.message.removeprefix(f"{SET}{each}: ")
            return Problem(f"column {each.partition('=')[0]!r}: {told.rstrip('.')}.", problem.hint)
    told = problem.message.replace(repr(path), str(spec.run.workload)).replace(path, str(spec.run.workload))
    return Problem(f"run.workload: {told}", problem.hint)

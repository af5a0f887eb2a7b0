"""What can be known to be wrong with a sweep before anything is started: columns, scripts, functions."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence

from shoal.engine.programs import is_program
from shoal.errors import Problem, nearest
from shoal.spec import Cell, Sweep
from shoal.spec.command import placeholders, template
from shoal.work import functions
from shoal.work.refusals import not_yet

INTERPRETERS = ("python", "python3", "bash", "sh")


def check(
    spec: Sweep,
    columns: Sequence[str] | None,
    pickle: str | None,
    rows: Iterator[Sequence[Cell]] | None = None,
) -> list[Problem]:
    """Every problem that does not need a worker to be seen. `columns` are None when the table cannot be read; `rows`
    are its rows."""
    if not os.path.isdir(spec.folder):
        return [
            Problem(f"The workload's folder {spec.folder} is not there.", "Has it been moved or renamed?")
        ]
    return [*not_yet(spec), *_sampler(spec), *_run(spec, columns, pickle, rows)]


def _sampler(spec: Sweep) -> list[Problem]:
    if spec.trials.search is None or spec.trials.sampler != "grid":
        return []
    return [
        Problem(
            f"trials.search.{name}: sampler grid needs values that can be counted, found a {range_.kind} range.",
            "Use choice: [...] or int: [...], or another sampler.",
        )
        for name, range_ in spec.trials.search.items()
        if range_.kind not in ("int", "choice")
    ]


def _run(
    spec: Sweep,
    columns: Sequence[str] | None,
    pickle: str | None,
    rows: Iterator[Sequence[Cell]] | None,
) -> list[Problem]:
    if spec.run.command is not None:
        return [
            *_columns(spec.run.command, columns),
            *_script(spec.run.command, spec.folder, installs=bool(spec.requirements)),
        ]
    if spec.run.function is not None and pickle is None:
        return _function(spec.run.function, spec.folder, columns, installs=bool(spec.requirements))
    if spec.run.workload is not None:
        from shoal.work.sweep.inner import check_inner

        return check_inner(spec, columns, rows)
    return []


def _columns(command: str, columns: Sequence[str] | None) -> list[Problem]:
    return (
        []
        if columns is None
        else [
            Problem(f"run.command: there is no column {name!r}.", nearest(name, columns))
            for name in placeholders(command)
            if name not in columns
        ]
    )


def _script(command: str, folder: str, *, installs: bool) -> list[Problem]:
    """The program, and the script that an interpreter is to run, have to be there, where they are no placeholders.

    With `installs`, a program without a path may be one of a package that is yet to be installed.
    """
    arguments = template(command)
    program = arguments[0][0] if len(arguments[0]) == 1 else None
    to_come = installs and isinstance(program, str) and os.sep not in program
    if (
        isinstance(program, str)
        and program not in INTERPRETERS
        and not to_come
        and not is_program(program, folder)
    ):
        return [
            Problem(
                f"run.command: there is no program {program!r} to run.", "Is it installed, and spelt right?"
            )
        ]
    if len(arguments) < 2 or arguments[0] not in [(name,) for name in INTERPRETERS]:
        return []
    script = "".join(arguments[1]) if all(isinstance(part, str) for part in arguments[1]) else ""  # type: ignore[arg-type]
    if not script or script.startswith("-") or os.path.exists(os.path.join(folder, script)):
        return []
    beside = [name for name in os.listdir(folder) if os.path.splitext(name)[1] == os.path.splitext(script)[1]]
    return [Problem(f"run.command: there is no file {script} in {folder}.", nearest(script, beside))]


def _function(reference: str, folder: str, columns: Sequence[str] | None, *, installs: bool) -> list[Problem]:
    """The function has to be there, and to take the columns."""
    problems, function = functions.look_up("run.function", reference, folder, installs=installs)
    if problems or not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return problems
    return _takes(function, columns)


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """What is in a function, but not in functions inside it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from _own(node)


def _takes(function: ast.FunctionDef | ast.AsyncFunctionDef, columns: Sequence[str] | None) -> list[Problem]:
    """Each column is a keyword argument, and each argument without a default is a column."""
    if function.decorator_list:
        return []
    if isinstance(function, ast.AsyncFunctionDef) or any(
        isinstance(n, ast.Yield | ast.YieldFrom) for n in _own(function)
    ):
        kind = "async" if isinstance(function, ast.AsyncFunctionDef) else "a generator"
        return [Problem(f"run.function: {function.name}() is {kind}; a trial is a plain function.", None)]
    if columns is None:
        return []
    arguments = function.args
    named = [*arguments.args, *arguments.kwonlyargs]
    names = {argument.arg for argument in named}
    optional = {a.arg for a in arguments.args[len(arguments.args) - len(arguments.defaults) :]}
    optional |= {
        a.arg for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default
    }
    problems = [
        Problem(f"run.function: {function.name}() takes no argument {column!r}.", nearest(column, names))
        for column in columns
        if column not in names and arguments.kwarg is None
    ]
    problems += [
        Problem(
            f"run.function: {function.name}() needs an argument {name!r}, and there is no such column.",
            f"Columns: {', '.join(columns)}.",
        )
        for name in sorted(names - optional - set(columns))
    ]
    return problems

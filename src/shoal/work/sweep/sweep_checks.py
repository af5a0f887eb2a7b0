"""What can be known to be wrong with a sweep before anything is started: columns, scripts, functions, imports."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator, Sequence

from shoal.errors import Problem, nearest
from shoal.spec import Cell, Sweep
from shoal.spec.command import placeholders, template
from shoal.work import functions
from shoal.work.job import not_yet

INTERPRETERS = ("python", "python3", "bash", "sh")
PYTHONS = ("python", "python3")
_CHANGES_IMPORTS = re.compile(r"sys\.path|from sys import|addsitedir|meta_path|path_hooks|\bpip\b")
_MOST_FILES = 200


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
        from shoal.work.sweep.workload_trial import check_inner

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
    from shoal.engine.workers.process import is_program

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


def imports_of(spec: Sweep, pickled: bool) -> dict[str, str]:
    """Top-level modules that are neither in the standard library nor in the folder, and where each is imported."""
    if spec.run.function is not None and not pickled:
        module = spec.run.function.partition(":")[0]
        reading = _Reading(spec.folder)
        reading.module(module, "run.function")
        return reading.found
    script = _script_of(spec)
    if script is None:
        return {}
    reading = _Reading(os.path.dirname(script))
    reading.file(script)
    return reading.found


def _script_of(spec: Sweep) -> str | None:
    arguments = template(spec.run.command) if spec.run.command is not None else []
    if len(arguments) < 2 or arguments[0] not in [(name,) for name in PYTHONS] or "PYTHONPATH" in spec.env:
        return None
    name = arguments[1][0] if len(arguments[1]) == 1 else None
    if not isinstance(name, str) or not name.endswith(".py"):
        return None
    path = os.path.join(spec.folder, name)
    return path if os.path.isfile(path) else None


class _Reading:
    """Follows imports within one folder."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._read: set[str] = set()
        self._certain = True
        self._local = {name.partition(".")[0] for name in os.listdir(root)}
        self.found: dict[str, str] = {}

    def module(self, module: str, where: str) -> None:
        top = module.partition(".")[0]
        if top in sys.stdlib_module_names:
            return
        if top not in self._local:
            self.found.setdefault(top, where)
            return
        parts = module.split(".")
        for count in range(1, len(parts) + 1):
            base = os.path.join(self._root, *parts[:count])
            for path in (base + ".py", os.path.join(base, "__init__.py")):
                if os.path.isfile(path):
                    self.file(path)

    def file(self, path: str) -> None:
        if path in self._read or not self._certain or len(self._read) > _MOST_FILES:
            return
        self._read.add(path)
        try:
            with open(path, "rb") as file:
                source = file.read()
            tree = ast.parse(source, path)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            self._certain = False
            return
        for name, line in _certain_imports(tree):
            if not self._certain:
                return
            if name.startswith("."):
                self._relative(name, path)
            else:
                self.module(name, f"{os.path.relpath(path, self._root)}:{line}")
        if _CHANGES_IMPORTS.search(source.decode("utf-8", "replace")):
            self._certain = False  # What is imported after this file may come from anywhere.

    def _relative(self, name: str, path: str) -> None:
        """A module of the package that the file belongs to."""
        level = len(name) - len(name.lstrip("."))
        folder = os.path.dirname(path)
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        base = os.path.join(folder, *name[level:].split("."))
        for each in (base + ".py", os.path.join(base, "__init__.py")):
            if os.path.isfile(each):
                self.file(each)


def _certain_imports(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The imports at the top of a module, up to the first statement that could do something about imports."""
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                yield alias.name, statement.lineno
        elif isinstance(statement, ast.ImportFrom):
            module = "." * statement.level + (statement.module or "")
            yield module, statement.lineno
            for alias in statement.names:  # It may be a module, too; where it is none, no file is found.
                if statement.level or statement.module:
                    yield f"{module}{'' if module.endswith('.') else '.'}{alias.name}", statement.lineno
        elif not _harmless(statement):
            return


def _harmless(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return not statement.decorator_list
    return not any(
        isinstance(node, ast.Call | ast.Raise) or (isinstance(node, ast.Attribute) and node.attr == "path")
        for node in ast.walk(statement)
    )

"""Which modules the code of a trial imports before anything else: read, never run.

Only what is certain to be imported counts. Code that may change where modules come from is not judged any further.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator

from shoal.spec import Sweep
from shoal.spec.command import template

PYTHONS = ("python", "python3")
_CHANGES_IMPORTS = re.compile(r"sys\.path|from sys import|addsitedir|meta_path|path_hooks|\bpip\b")
_MOST_FILES = 200


def imports_of(spec: Sweep, pickled: bool) -> dict[str, str]:
    """Top-level modules that are neither in the standard library nor in the folder, and where each is imported."""
    if spec.run.function is not None and not pickled:
        module = spec.run.function.partition(":")[0]
        reading = _Reading(spec.folder)
        reading.module(module, "run.function")
        return reading.found
    script = _script(spec)
    if script is None:
        return {}
    reading = _Reading(os.path.dirname(script))
    reading.file(script)
    return reading.found


def _script(spec: Sweep) -> str | None:
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

"""Functions and classes that a workload names as `module:name`: whether they are there, and importing them."""

from __future__ import annotations

import ast
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from shoal.errors import Problem, nearest

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def load(reference: str) -> Callable[..., Any]:
    """Import it. In a worker only: this runs code of the user's."""
    module, _, name = reference.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{reference} is a {type(found).__name__}, not a function")
    function: Callable[..., Any] = found
    return function


def look_up(
    key: str, reference: str, folder: str, *, installs: bool
) -> tuple[list[Problem], Definition | None]:
    """What is wrong with it, without importing it; and its definition, where it stands in the workload's folder.

    `key` is where the file names it. With `installs`, the module may be one of a package that is yet to be installed.
    """
    module, _, name = reference.partition(":")
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names and os.path.exists(os.path.join(folder, top + ".py")):
        hint = f"Rename {top}.py: the standard library comes first."
        return [Problem(f"{key}: {top!r} is a module of Python's standard library.", hint)], None
    path = module_path(module, folder)
    if path is None:
        return ([] if installs else _installed(key, module, folder)), None
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read(), path)
    except SyntaxError as error:
        problem = Problem(f"{key}: {path}:{error.lineno}: {error.msg}.", "Mend the file, then try again.")
        return [problem], None
    except (OSError, ValueError) as error:
        return [Problem(f"{key}: cannot read {path}: {error}.")], None
    return _defined(key, tree, path, name)


def module_path(module: str, folder: str) -> str | None:
    """The file of a module of the workload's folder."""
    base = os.path.join(folder, *module.split("."))
    for path in (base + ".py", os.path.join(base, "__init__.py")):
        if os.path.isfile(path) and module.partition(".")[0] not in sys.stdlib_module_names:
            return path
    return None


def _installed(key: str, module: str, folder: str) -> list[Problem]:
    """Not in the folder: then it has to be an installed one."""
    from importlib.util import find_spec

    top = module.partition(".")[0]
    try:
        found = find_spec(top) is not None
    except (ImportError, ValueError):
        found = False
    if found:
        return []
    files = [name.removesuffix(".py") for name in os.listdir(folder) if name.endswith(".py")]
    return [Problem(f"{key}: there is no module {module!r} in {folder}.", nearest(module, files))]


def _defined(key: str, tree: ast.Module, path: str, name: str) -> tuple[list[Problem], Definition | None]:
    if "." in name:
        return [], None
    definitions = {node.name: node for node in tree.body if isinstance(node, Definition)}
    if name in definitions:
        return [], definitions[name]
    # It may be made at run time or imported; only a module that does neither can be judged.
    others = {n.id for node in ast.walk(tree) for n in [node] if isinstance(n, ast.Name)}
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        for alias in getattr(node, "names", [])
        if isinstance(alias, ast.alias)
    }
    if name in others | imported or "*" in imported:
        return [], None
    shown = os.path.basename(path)
    return [Problem(f"{key}: {shown} has no function {name!r}.", nearest(name, definitions))], None

"""Python data to the same tree that a file becomes, and a tree back to text that can be loaded again."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from shoal.spec.command import text_of
from shoal.spec.nodes import DEEPEST, LONGEST_NUMBER, Node, Problems, usable

_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def from_python(data: Any, problems: Problems, path: str = "", depth: int = 0) -> Node:
    """The tree of mappings, sequences and scalars, NumPy's scalars and paths among them."""
    if depth > DEEPEST:
        return _refuse(problems, path, f"nested more than {DEEPEST} levels deep")
    if isinstance(data, Mapping):
        return Node(_entries(data, problems, path, depth))
    if isinstance(data, list | tuple | range):
        return Node([_child(item, problems, path, str(i), depth) for i, item in enumerate(data)])
    value = _scalar(data)
    if isinstance(value, str):
        value = str(value)
        if not usable(value):
            return _refuse(problems, path, "text with a NUL or half a character cannot be used")
    elif isinstance(value, int) and abs(value) >= 10**LONGEST_NUMBER:
        return _refuse(problems, path, "a number that is too large")
    elif not isinstance(value, int | float | None):
        found = f"found a value of type {type(data).__name__}"
        return _refuse(problems, path, f"expected text, a number, true, false, a list or a mapping, {found}")
    return Node(value, text_of(value))


def to_text(root: Node) -> str:
    """YAML that gives the same tree again: a line a key, the values in flow style."""
    if not root.value or not isinstance(root.value, dict):
        return f"{_flow(root)}\n"
    return "".join(f"{_quoted(key)}: {_flow(node)}\n" for key, node in root.value.items())


def _entries(data: Mapping[Any, Any], problems: Problems, path: str, depth: int) -> dict[str, Node]:
    entries: dict[str, Node] = {}
    for key, item in data.items():
        name = from_python(key, problems, path, depth + 1)
        if not name.is_scalar:
            problems.add(f"expected a name, found {key!r}", path=path)
        elif name.text in entries:
            problems.add(f"the key {name.text!r} is given twice", path=path)
        else:
            entries[name.text] = _child(item, problems, path, name.text, depth)
    return entries


def _child(data: Any, problems: Problems, path: str, name: str, depth: int) -> Node:
    return from_python(data, problems, f"{path}.{name}" if path else name, depth + 1)


def _refuse(problems: Problems, path: str, message: str) -> Node:
    problems.add(message, path=path)
    return Node(None)


def _scalar(data: Any) -> Any:
    if isinstance(data, os.PathLike):
        return os.fspath(data)
    if type(data).__module__ == "numpy" and getattr(data, "ndim", None) == 0:
        return data.item()
    return data


def _flow(node: Node) -> str:
    value = node.value
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow_key(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if value is None:
        return "null"
    return _quoted(value) if isinstance(value, str) else node.text


def _flow_key(text: str) -> str:
    """YAML wants long keys announced."""
    quoted = _quoted(text)
    return quoted if len(quoted) < 100 else f"? {quoted} "


def _quoted(text: str) -> str:
    if re.fullmatch(r"[a-z_]+", text) and text not in ("null", "true", "false"):
        return text
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))

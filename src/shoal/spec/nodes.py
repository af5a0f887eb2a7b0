"""The tree that a workload is before it has a meaning: scalars, lists and maps that know where they stand.

Nodes are made from YAML text (`yaml_nodes`), from `--set` (`overrides`) or from Python data (`python_nodes`).
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

Scalar: TypeAlias = str | int | float | bool | None

DEEPEST = 50

_WORDS: dict[str, Scalar] = {"": None, "~": None}
_WORDS |= dict.fromkeys(("null", "Null", "NULL"))
_WORDS |= dict.fromkeys(("true", "True", "TRUE"), True)
_WORDS |= dict.fromkeys(("false", "False", "FALSE"), False)
_WORDS |= {form: float("nan") for form in (".nan", ".NaN", ".NAN")}
_WORDS |= {s + form: float(f"{s}inf") for form in (".inf", ".Inf", ".INF") for s in ("", "+", "-")}
_NUMBER = re.compile(r"[-+]?(?:([0-9]+)|(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
LONGEST_NUMBER = 400
_UNUSABLE = re.compile("[\0\ud800-\udfff]")


class Node:
    """One value and where it was given. Never changed once made: aliases share nodes."""

    __slots__ = ("line", "origin", "text", "value")

    def __init__(self, value: Any, text: str = "", *, origin: str = "", line: int = 0) -> None:
        self.value: Scalar | list[Node] | dict[str, Node] = value
        self.text = text
        self.origin = origin
        self.line = line

    @property
    def where(self) -> str:
        return f"{self.origin}:{self.line}" if self.line else self.origin

    @property
    def is_scalar(self) -> bool:
        return not isinstance(self.value, list | dict)

    def at(self, line: int) -> Node:
        """The same value, given on another line."""
        return self if line == self.line else Node(self.value, self.text, origin=self.origin, line=line)

    def holding(self, value: Any) -> Node:
        """Another value, given at the same place."""
        return Node(value, self.text, origin=self.origin, line=self.line)


def resolve(text: str) -> Scalar:
    """What unquoted text means under the core rules of YAML 1.2: 010 is ten, 1e-5 a number, 12:30 text."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > LONGEST_NUMBER:
        return text
    if number := _NUMBER.fullmatch(text):
        return int(text) if number[1] else float(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    return text


def usable(text: str) -> bool:
    """Whether text can be a part of a command, a file or a database: no NUL and no half characters."""
    return _UNUSABLE.search(text) is None


def describe(node: Node) -> str:
    """The value in an error message: short, and quoted when it is text."""
    value = node.value
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if value is None:
        return "nothing"
    text = repr(value) if isinstance(value, str) else node.text
    return text if len(text) <= 80 else f"{text[:77]}..."

"""The tree that a file is before it has a meaning: nodes that know their lines, and all problems, gathered."""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

from shoal.errors import Problem, SpecError

Scalar: TypeAlias = str | int | float | bool | None

DEEPEST = 50

_WORDS: dict[str, Scalar] = {"": None, "~": None}
SET: Final = "--set "
"""How the origin of a value starts that was given on the command line."""

_SHOWN = 25
_LAST = 1 << 62


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


class Problems:
    """Problems in the order of the file, those of `--set` last. Adding one never raises."""

    def __init__(self, label: str = "") -> None:
        self.label = label
        self._found: dict[Problem, int] = {}

    def __len__(self) -> int:
        return len(self._found)

    def add(self, message: str, *, node: Node | None = None, path: str = "", hint: str | None = None) -> None:
        """Note a problem of the value at `path`, which `node` was given for."""
        where = node.where if node else self.label
        if where.startswith((f"{SET}{path}=", f"{SET}{path} ")):
            path = ""
        sentence = _printable(": ".join(part for part in (where, path, message) if part))
        line = node.line if node else 0
        self._found.setdefault(Problem(sentence, hint), _LAST if where.startswith(SET) else line)

    def raise_any(self) -> None:
        """Raise one SpecError for all problems, if there are any."""
        if not self._found:
            return
        found = sorted(self._found, key=lambda problem: self._found[problem])
        if len(found) == 1:
            raise SpecError(found[0].message, hint=found[0].hint, problems=found)
        lines = [f"{len(found)} problems in {self.label or 'the workload'}"]
        lines += [f"  {problem.message}" + _aside(problem.hint) for problem in found[:_SHOWN]]
        if len(found) > _SHOWN:
            lines.append(f"  and {len(found) - _SHOWN} more")
        raise SpecError("\n".join(lines), problems=found)


def _printable(text: str) -> str:
    """A problem is one line, whatever is in the names and values that it mentions."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _aside(hint: str | None) -> str:
    return f". {hint}" if hint else ""

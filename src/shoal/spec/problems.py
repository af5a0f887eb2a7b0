"""Everything that is wrong with a request, gathered so that it can be reported at once and in order."""

from __future__ import annotations

from typing import Final

from shoal.errors import Problem, SpecError
from shoal.spec.nodes import Node

SET: Final = "--set "
"""How the origin of a value starts that was given on the command line."""

_SHOWN = 25
_LAST = 1 << 62


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

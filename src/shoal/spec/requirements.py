"""`requirements:` of a workload: a list of packages, or the name of a requirements file, which is not opened here."""

from __future__ import annotations

import re
from typing import Any

from shoal.spec.nodes import Node
from shoal.spec.problems import Problems
from shoal.spec.reader import INVALID, Reader
from shoal.spec.readers import ListOf, Text

_CREDENTIALS = re.compile(r"://[^/\s]*@")


def requirement_problem(text: str) -> tuple[str, str | None] | None:
    """What is wrong with one package as `pip install` would be given it, and a hint; None when nothing is."""
    from packaging.requirements import InvalidRequirement, Requirement

    if text.lstrip().startswith("-"):
        return "expected a package such as numpy>=1.26, found an option", _IN_A_FILE
    try:
        Requirement(text)
    except InvalidRequirement as error:
        why = str(error).partition("\n")[0].strip().rstrip(".")
        return f"expected a package such as numpy>=1.26, found {text!r} ({why})", None
    return None


_IN_A_FILE = "Options of pip belong in a requirements file: requirements: requirements.txt"


class _Package(Reader):
    """One package, without options and without passwords: a workload file is copied into every run."""

    expected = "a package such as numpy>=1.26"
    _text = Text(expected, r"[^\r\n]*[^\s][^\r\n]*")

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        text = self._text.read(node, path, problems)
        if text is INVALID:
            return INVALID
        if _CREDENTIALS.search(text):
            hint = "Keep it where pip looks: in pip's configuration, or in .netrc."
            problems.add("a user name or password cannot stand here", node=node, path=path, hint=hint)
            return INVALID
        wrong = requirement_problem(text)
        if wrong is not None:
            problems.add(wrong[0], node=node, path=path, hint=wrong[1])
            return INVALID
        return text.strip()

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": r"^\s*[A-Za-z0-9][^\r\n]*$"}


class Requirements(Reader):
    """The lines of a pip requirements file: those listed, or `-r FILE` for a file."""

    expected = "a requirements file or a list of packages"
    _packages = ListOf(_Package(), expected)

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if isinstance(node.value, str):
            return (f"-r {node.value}",) if node.value.strip() else self.wrong(node, path, problems)
        return self._packages.read(node, path, problems)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [Text().schema(), self._packages.schema()]}

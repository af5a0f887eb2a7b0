"""Reading `requirements:` into what pip is to be given: includes followed, lines checked. Nothing is installed here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from shoal.errors import Problem
from shoal.model.node import Packages
from shoal.spec.workload import requirement_problem

_COMMENT = re.compile(r"(^|\s+)#.*$")
_OF_ONE = re.compile(r"\s+--?[a-z].*$")
"""Options that belong to one requirement, such as --hash."""
_REFERENCE = re.compile(r"(?:-r|--requirement|-c|--constraint)(?:\s*=?\s*)(\S.*)")
_FOUND_IN = re.compile(r"(-f|--find-links)(?:\s*=?\s*)(\S.*)")
_DEEPEST = 10


def read_requirements(requirements: Sequence[str], folder: str) -> tuple[Packages, list[Problem]]:
    """The packages of a workload in `folder`, and everything that is wrong with them."""
    reading = _Reading()
    for line in requirements:
        if line.startswith("-r "):
            reading.file(os.path.join(folder, line[3:].strip()), "requirements", into=reading.lines)
        else:
            reading.lines.append(line)
    return Packages(tuple(reading.lines), tuple(reading.constraints)), reading.problems


class _Reading:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constraints: list[str] = []
        self.problems: list[Problem] = []

    def file(self, path: str, where: str, *, into: list[str], depth: int = 0) -> None:
        try:
            with open(path, encoding="utf-8-sig") as file:
                text = file.read()
        except FileNotFoundError:
            hint = "Its path is relative to the file that names it."
            self._wrong(f"{where}: there is no file {path}.", hint)
            return
        except (OSError, ValueError) as error:
            self._wrong(f"{where}: cannot read {path}: {error}.")
            return
        if depth > _DEEPEST:
            self._wrong(f"{where}: {path} is included too deeply. Does it include itself?")
            return
        for number, line in _logical_lines(text):
            self._line(line, f"{path}:{number}", os.path.dirname(path), into, depth)

    def _line(self, line: str, where: str, folder: str, into: list[str], depth: int) -> None:
        if (reference := _REFERENCE.fullmatch(line)) is not None:
            if "://" in reference[1]:
                self._wrong(f"{where}: a file on the web cannot be included.", "Download it, and include it.")
                return
            constrains = line.startswith(("-c", "--constraint"))
            target = self.constraints if constrains else into
            self.file(os.path.join(folder, reference[1]), where, into=target, depth=depth + 1)
        elif line.startswith(("-e", "--editable")):
            hint = (
                "Modules in the workload's folder can be imported as they are; give other packages by name."
            )
            self._wrong(f"{where}: editable installs are not possible.", hint)
        elif (found_in := _FOUND_IN.fullmatch(line)) is not None:
            place = (
                found_in[2] if "://" in found_in[2] else os.path.abspath(os.path.join(folder, found_in[2]))
            )
            into.append(f"--find-links {place}")
        elif line.startswith("-"):
            into.append(line)
        else:
            self._package(line, where, into)

    def _package(self, line: str, where: str, into: list[str]) -> None:
        bare = _OF_ONE.sub("", line)
        if re.match(r"[\w+]+://", bare):
            into.append(line)
            return
        if bare.startswith((".", "/", "~")) or bare.endswith((".whl", ".tar.gz", ".zip")):
            hint = "Give the package by name, and its folder by --find-links FOLDER, on a path that every node has."
            self._wrong(f"{where}: {bare!r} is a file of this machine.", hint)
            return
        wrong = requirement_problem(bare)
        if wrong is not None:
            self._wrong(f"{where}: {wrong[0]}.", wrong[1])
            return
        into.append(line)

    def _wrong(self, message: str, hint: str | None = None) -> None:
        self.problems.append(Problem(message, hint))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers as pip reads them: a backslash continues one, blanks and comments are left out."""
    held, begun = "", 0
    for number, raw in enumerate([*text.splitlines(), ""], 1):
        begun = begun or number
        if raw.endswith("\\") and not raw.lstrip().startswith("#"):
            held += raw[:-1]
            continue
        line = " ".join(_COMMENT.sub("", held + raw).split())
        if line:
            yield begun, line
        held, begun = "", 0

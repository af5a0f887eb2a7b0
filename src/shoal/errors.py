"""The tree of errors, drawn once. Messages say what was wrong and what was found; hints say what to do next.

ShoalError
├── SpecError          the request is wrong: nothing was started           exit 2
│   └── NotFound       a run, item, file or name that does not exist       exit 2
├── CannotPlace        no node can ever (or in time) hold what is asked    exit 2
├── RunLocked          another driver has the run                          exit 2
├── RunElsewhere       a detached run: its folder is on a cluster          exit 2
├── StoreError         the run folder cannot be read or written            exit 1
│   └── TakenOver      another driver has the run by now: this one is out  exit 1
├── FileError          bytes somewhere cannot be read or written           exit 1
│   ├── AccessDenied   whoever keeps them does not let us                  exit 1
│   └── Unreachable    no good answer in time, after several tries         exit 1
├── EngineError        a worker or node could not do what was asked        exit 1
│   └── ClusterLost    the head of the cluster is gone; the run can resume exit 1
├── ClusterError       nodes cannot be started or reached                  exit 2
│   └── AgentRefused   a host was reached, and cannot do what was asked    exit 2
└── Stopped            the user ended it                                   exit 3
"""

# ruff: noqa: N818 - what went wrong is the name; that it is an error is plain from the tree above.
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple


class ShoalError(Exception):
    """Root of all errors: one message, and the next step for the person who reads it."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            self.add_note(hint)  # Python shows it under the message, where nobody catches the error.


class Problem(NamedTuple):
    """One thing that is wrong in a request: the sentence, and the hint beside it."""

    message: str
    hint: str | None = None


class SpecError(ShoalError):
    """The request is wrong. Carries every problem that was found, not only the first."""

    exit_code = 2

    def __init__(
        self, message: str = "", *, hint: str | None = None, problems: Sequence[Problem] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems) or (Problem(message, hint),)


class NotFound(SpecError):
    """Something named does not exist."""


class CannotPlace(ShoalError):
    """What was asked fits on no node, for the reasons given."""

    exit_code = 2


class RunLocked(ShoalError):
    """Another process drives this run."""

    exit_code = 2


class RunElsewhere(ShoalError):
    """The run was detached: its folder is on a cluster. `asked` is how it was named, `run` its id."""

    exit_code = 2

    def __init__(self, message: str = "", *, hint: str | None = None, asked: str = "", run: str = "") -> None:
        super().__init__(message, hint=hint)
        self.asked = asked
        self.run = run


class StoreError(ShoalError):
    """The run folder cannot be read or written."""


class TakenOver(StoreError):
    """Another driver took a later turn at the run. Whoever gets this ends its workers and records nothing more."""


class FileError(ShoalError):
    """Bytes on a disk, in a bucket or behind a URL cannot be read or written."""


class AccessDenied(FileError):
    """Whoever keeps the bytes does not let us: no credentials, wrong ones, or too few rights.

    `is_general`: it is about who we are, and so about every file there, not about the one that was asked for.
    """

    def __init__(self, message: str = "", *, hint: str | None = None, is_general: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.is_general = is_general


class Unreachable(FileError):
    """No good answer in time: connections that fail, timeouts, a server in trouble. Trying later may help.

    `tries` are those that were made in vain.
    """

    def __init__(self, message: str = "", *, hint: str | None = None, tries: int = 1) -> None:
        super().__init__(message, hint=hint)
        self.tries = tries


class EngineError(ShoalError):
    """A worker or a node could not do what was asked."""


class ClusterLost(EngineError):
    """The head of the cluster no longer answers. What was heard is recorded; a resume goes on with the rest."""


class ClusterError(ShoalError):
    """Nodes cannot be started or reached."""

    exit_code = 2


class AgentRefused(ClusterError):
    """The agent of a host could be asked, and said that it cannot: whatever it was, it is not under way."""


class Stopped(ShoalError):
    """The user ended it."""

    exit_code = 3


def several(problems: Sequence[Problem]) -> SpecError:
    """One error for everything that is wrong."""
    if len(problems) == 1:
        return SpecError(problems[0].message, hint=problems[0].hint)
    lines = [f"  {problem.message}" + (f" {problem.hint}" if problem.hint else "") for problem in problems]
    return SpecError("\n".join([f"{len(problems)} problems:", *lines]), problems=problems)


def unknown(kind: str, name: str, known: Iterable[str]) -> NotFound:
    """The error for a misspelt name, with the nearest one that exists."""
    return NotFound(f"Unknown {kind} {name!r}.", hint=nearest(name, known))


def nearest(name: str, known: Iterable[str]) -> str:
    """The hint for a misspelt name: the closest valid one, or all of them."""
    from difflib import get_close_matches

    options = sorted(known)
    close = get_close_matches(name, options, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Choose from: {', '.join(options)}." if options else "There are none."

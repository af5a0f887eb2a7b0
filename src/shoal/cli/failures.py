"""How the command line fails: one sentence and what to do next, as text or as JSON, and the exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import pairwise

from shoal.cli.output import echo_json, say
from shoal.errors import Problem, ShoalError, SpecError
from shoal.words import printable

WRONG_REQUEST = 2
STOPPED = 3


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether the user asked for JSON; known even where the rest of the arguments makes no sense."""
    given = list(arguments)
    if "--" in given:
        given = given[: given.index("--")]
    pairs = pairwise(given)
    return "--json" in given or "--format=json" in given or ("--format", "json") in pairs


def tell(message: str, hint: str | None, as_json: bool, problems: Sequence[Problem] = ()) -> None:
    """The error, where the user looks for it: JSON on stdout, text on stderr."""
    if as_json:
        found = [{"error": problem.message, "hint": problem.hint} for problem in problems]
        echo_json({"error": message, "hint": hint} | ({"problems": found} if len(found) > 1 else {}))
    else:
        text = f"Error: {message}" + (f"\nHint: {hint}" if hint else "")
        say("\n".join(printable(line) for line in text.split("\n")))  # Names in it come from anybody's files.


def of_request(error: ShoalError, as_json: bool) -> int:
    """What was asked cannot be done, or could not."""
    problems = error.problems if isinstance(error, SpecError) else ()
    tell(str(error), error.hint or _hints(str(error), problems), as_json, problems)
    return error.exit_code


def _hints(message: str, problems: Sequence[Problem]) -> str | None:
    """The hints of several problems, where the message does not have them already."""
    hints = [problem.hint for problem in problems if problem.hint and problem.hint not in message]
    return "\n      ".join(dict.fromkeys(hints)) or None


def of_interruption(as_json: bool) -> int:
    """Ctrl-C before anything was started, or while only looking."""
    if as_json:
        tell("Stopped by the user.", None, as_json)
    else:
        say()
    return STOPPED


def of_shoal(error: Exception, as_json: bool) -> int:
    """Nobody expected this: a bug of ours. The traceback is kept for whoever mends it."""
    summary = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    message = f"This is a bug in Shoal: {summary}"
    if os.environ.get("SHOAL_DEBUG"):
        import traceback

        say("".join(traceback.format_exception(error)).rstrip())
        tell(message, None, as_json)
        return 1
    path = _keep_traceback(error)
    where = f"The traceback is in {path}" if path else "SHOAL_DEBUG=1 shows the traceback"
    tell(message, f"{where}; please report it with what you did.", as_json)
    return 1


def _keep_traceback(error: Exception) -> str | None:
    import tempfile
    import traceback

    lines = ["".join(traceback.format_exception(error)), f"Python {sys.version}\nArguments: {sys.argv[1:]}\n"]
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="shoal-bug-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.writelines(lines)
            return file.name
    except OSError:
        return None

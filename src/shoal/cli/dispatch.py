"""From arguments to an exit code: the usual ones are read without click, and a failure is one sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from shoal.cli.output import ReaderGoneError, echo_json, say
from shoal.errors import Problem, ShoalError, SpecError
from shoal.words import printable

VALUED = ("--cluster", "--set", "--limit", "--plan")
WRONG_REQUEST = 2
STOPPED = 3


def obey(arguments: Sequence[str]) -> int:
    """Do it; the exit code. Never raises."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _safely(arguments, wants_json(arguments))
    except ReaderGoneError:
        code = 0
    return _flush(code)


def _do(arguments: Sequence[str]) -> int:
    request = read_run(arguments)
    if request is not None:
        from shoal.cli.foreground import run

        return run(*request)
    from shoal.cli.group import call

    return call(arguments)


def _safely(arguments: Sequence[str], as_json: bool) -> int:
    """The exit code, also of what went wrong. Only that nobody reads goes through."""
    try:
        return _do(arguments)
    except ReaderGoneError:
        raise
    except ShoalError as error:
        return _tell_error(error, as_json)
    except KeyboardInterrupt:
        return of_interruption(as_json)
    except Exception as error:  # noqa: BLE001 - the last place that can say anything about it
        return of_shoal(error, as_json)


def _tell_error(error: ShoalError, as_json: bool) -> int:
    try:
        return of_request(error, as_json)
    except ShoalError as again:  # Where the error is that nothing can be written to stdout.
        return of_request(again, as_json=False)


def _flush(code: int) -> int:
    """Write what is still to be written; the exit code.

    A reader that has seen enough is none of our business; output that cannot be written otherwise is an error.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if not isinstance(error, BrokenPipeError) and stream is sys.stdout:
                say(f"Error: The output cannot be written: {error.strerror or error}.")
                code = code or 1
    return code


class RunRequest(NamedTuple):
    """What `run` is asked for."""

    file: str
    cluster: str | None = None
    sets: tuple[str, ...] = ()
    limit: int | None = None
    as_json: bool = False
    inline: bool = False
    plan: str | None = None


def read_run(arguments: Sequence[str]) -> RunRequest | None:
    """The request, or None when it is better left to click."""
    if not arguments or arguments[0] != "run":
        return None
    files: list[str] = []
    values: dict[str, list[str]] = {name: [] for name in VALUED}
    flags = {"--json": False, "--inline": False}
    rest = iter(arguments[1:])
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name in VALUED:
            values[name].append(value if equals else next(rest, "-"))
        elif argument in flags:
            flags[argument] = True
        else:
            files.append(argument)
    limits = values["--limit"]
    given = [files, *values.values()]
    if any(text.startswith("-") for texts in given for text in texts) or len(files) != 1:
        return None
    if not all(_is_count(text) for text in limits):
        return None
    cluster, plan = (values[name][-1] if values[name] else None for name in ("--cluster", "--plan"))
    limit = int(limits[-1]) if limits else None
    as_json, inline = flags.values()
    return RunRequest(files[0], cluster, tuple(values["--set"]), limit, as_json, inline, plan)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text) > 0


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether the user asked for JSON; known even where the rest of the arguments makes no sense."""
    given = list(arguments)
    if "--" in given:
        given = given[: given.index("--")]
    pairs = pairwise(given)
    return "--json" in given or "--format=json" in given or ("--format", "json") in pairs


def tell(message: str, hint: str | None, as_json: bool, problems: Sequence[Problem] = ()) -> None:
    """The error, where the user looks for it: JSON on stdout, text on stderr. And to an agent that waits for a run."""
    from shoal.cluster.this_machine import answer_starter

    answer_starter({"error": message, "hint": hint})
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

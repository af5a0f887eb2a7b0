"""From arguments to an exit code: whatever happens on the way, the user gets a sentence, not a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from shoal.cli import failures, quick
from shoal.cli.output import ReaderGoneError, say
from shoal.errors import RunElsewhere, ShoalError


def obey(arguments: Sequence[str]) -> int:
    """Do it; the exit code. Never raises."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _obey(arguments, failures.wants_json(arguments))
    except ReaderGoneError:
        code = 0
    return _flush(code)


def _obey(arguments: Sequence[str], as_json: bool) -> int:
    try:
        return _safely(lambda: _do(arguments), as_json)
    except RunElsewhere as elsewhere:
        return _forward(arguments, elsewhere, as_json)


def _do(arguments: Sequence[str]) -> int:
    request = quick.read_run(arguments)
    if request is not None:
        from shoal.cli.foreground import run

        return run(*request)
    from shoal.cli.group import call

    return call(arguments)


def _safely(do: Callable[[], int], as_json: bool) -> int:
    """Its exit code, or that of what went wrong. Only that a run is elsewhere, and that nobody reads, go through."""
    try:
        return do()
    except (RunElsewhere, ReaderGoneError):
        raise
    except ShoalError as error:
        return _tell_error(error, as_json)
    except KeyboardInterrupt:
        return failures.of_interruption(as_json)
    except Exception as error:  # noqa: BLE001 - the last place that can say anything about it
        return failures.of_shoal(error, as_json)


def _forward(arguments: Sequence[str], elsewhere: RunElsewhere, as_json: bool) -> int:
    from shoal.cli.detached import forward

    try:
        return _safely(lambda: forward(arguments, elsewhere), as_json)
    except RunElsewhere as again:  # Not even where it is said to be.
        return _tell_error(again, as_json)


def _tell_error(error: ShoalError, as_json: bool) -> int:
    try:
        return failures.of_request(error, as_json)
    except ShoalError as again:  # Where the error is that nothing can be written to stdout.
        return failures.of_request(again, as_json=False)


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

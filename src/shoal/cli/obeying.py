"""From arguments to an exit code: whatever happens on the way, the user gets a sentence, not a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from shoal.cli import failing, quick
from shoal.cli.output import say
from shoal.errors import ShoalError


def obey(arguments: Sequence[str]) -> int:
    """Do it; the exit code. Never raises."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _obey(arguments, failing.wants_json(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        _leave_quietly()
        return 0
    except OSError as error:
        _leave_quietly()
        say(f"Error: the output cannot be written: {error.strerror or error}.")
        return 1
    return code


def _obey(arguments: Sequence[str], as_json: bool) -> int:
    try:
        request = quick.read_run(arguments)
        if request is not None:
            from shoal.cli.driving import run

            return run(*request)
        from shoal.cli.group import call

        return call(arguments)
    except ShoalError as error:
        return failing.of_request(error, as_json)
    except KeyboardInterrupt:
        return failing.of_interruption(as_json)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - the last place that can say anything about it
        return failing.of_shoal(error, as_json)


def _leave_quietly() -> None:
    """Whoever read our output has seen enough: what is still to be written goes nowhere, without complaint."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

"""The `shoal` command itself: finds its commands by name, late, and turns whatever happens into an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from shoal import __version__
from shoal.cli import COMMANDS, failing
from shoal.errors import ShoalError, nearest


class Commands(click.Group):
    """A group whose commands are imported when they are used, not when they are listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"shoal.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            raise click.UsageError(f"There is no command {name!r}. {nearest(name, COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="A run is named by its id, the start of it, its workload's name (the latest), or `last`.",
)
@click.version_option(__version__, prog_name="shoal", message="%(prog)s %(version)s")
def shoal() -> None:
    """Run machine-learning work on whatever machines you have.

    Write down what you want in a workload file; `shoal init sweep` writes one to start from. Results go to
    stdout, everything else to stderr. Exit codes: 0 all done; 1 the run ended with failures; 2 the request was
    wrong and nothing was started; 3 stopped by the user.
    """


def obey(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name; the exit code. Never raises."""
    as_json = failing.wants_json(arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(arguments, as_json)
        sys.stdout.flush()
    except BrokenPipeError:
        return _leave_quietly()
    except OSError as error:
        return _cannot_write(error)
    return code


def _run(arguments: Sequence[str], as_json: bool) -> int:
    try:
        code = shoal.main(args=list(arguments), prog_name="shoal", standalone_mode=False)
    except ShoalError as error:
        return failing.of_request(error, as_json)
    except click.ClickException as error:
        return failing.of_usage(error, as_json)
    except (click.Abort, KeyboardInterrupt):
        return failing.of_interruption(as_json)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - the last place that can say anything about it
        return failing.of_shoal(error, as_json)
    return code if isinstance(code, int) else 0


def _leave_quietly() -> int:
    """Whoever read our output has seen enough: nothing is wrong, and there is nobody to tell."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return 0


def _cannot_write(error: OSError) -> int:
    """The output cannot be written, for example because it goes to a file on a full disk."""
    _leave_quietly()
    click.echo(f"Error: the output cannot be written: {error.strerror or error}.", err=True)
    return 1

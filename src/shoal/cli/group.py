"""The `shoal` command as click has it: it loads only the command that is used. And options that several share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import click

from shoal import __version__
from shoal.cli import COMMANDS
from shoal.cli.dispatch import WRONG_REQUEST
from shoal.errors import RunElsewhere, SpecError, nearest

cluster_option = click.option(
    "--cluster", metavar="FILE", help="The cluster file that names the nodes; without one, this machine."
)
set_option = click.option(
    "--set", "sets", metavar="KEY=VALUE", multiple=True, help="Override a value of the file; may be repeated."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document to stdout.")
hidden_json_option = click.option(
    "--json", "as_json", is_flag=True, hidden=True, help="For the agent of a head."
)
file_argument = click.argument("file", metavar="FILE")
item_argument = click.argument("item", metavar="[ITEM]", required=False)


class RunCommand(click.Command):
    """A command about one run. Where that was detached, the command is given to its cluster."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RunElsewhere as elsewhere:
            from shoal.cli import detached

            return detached.obey(elsewhere.run, self, ctx.params)


def command_of_run(name: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Makes a function that takes a RUN a command."""
    run_argument = click.argument("run", metavar="RUN")
    return lambda function: click.command(name, cls=RunCommand)(run_argument(function))


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


def call(arguments: Sequence[str]) -> int:
    """Let click do it; the exit code. What click finds wrong is raised as our own error."""
    try:
        code = shoal.main(args=list(arguments), prog_name="shoal", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return WRONG_REQUEST
    except click.ClickException as error:
        raise _in_our_words(error) from error
    except click.Abort:
        raise KeyboardInterrupt from None
    return code if isinstance(code, int) else 0


def _in_our_words(error: click.ClickException) -> SpecError:
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "shoal"
    message = error.format_message()
    return SpecError(
        message if message.endswith((".", "?")) else f"{message}.", hint=f"See `{where} --help`."
    )

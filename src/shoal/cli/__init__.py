"""The command line. This module only names the commands; each is loaded when it is used."""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "run": ("run_and_resume", "Plan a workload, then run it."),
    "check": ("check_and_plan", "Find everything that is wrong with a workload, without starting it."),
    "plan": ("check_and_plan", "Say what would happen, why, and how long it would take."),
    "resume": ("run_and_resume", "Go on where a stopped, failed or killed run was."),
    "stop": ("run_control", "Ask a run to end, and wait until it has."),
    "ls": ("results", "List the runs, newest first."),
    "show": ("results", "Show one run and its items."),
    "logs": ("run_control", "Print what a run, or one of its items, wrote to its output."),
    "results": ("results", "Print the results of a run, a row for each item."),
    "report": ("results", "Write a page about a run, with charts, into its folder."),
    "get": ("run_control", "Copy the files that a run, or one of its items, left in SHOAL_ITEM_DIR."),
    "rm": ("run_control", "Delete runs and everything they kept."),
    "cp": ("cp", "Copy files and folders between here, s3://, hdfs:// and http(s)://."),
    "cluster": ("clusters", "Bring clusters up and down, and look at them."),
    "export": ("export", "Write a cluster or a workload down for another system."),
    "init": ("init", "Write a small working example into this folder."),
    "schema": ("init", "Print the JSON schema of a kind of file, so that editors can complete it."),
    "doctor": ("doctor", "Say whether this machine is ready, and what is missing."),
}
"""Of each command: the module it is in, and the line that `shoal --help` says about it."""

DRIVING = ("run", "resume")


def open_missing_streams() -> None:
    """A stream that was closed (`shoal run x.yaml >&-`) must not become the first file that is opened here."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - lives as long as the process
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - lives as long as the process


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; the exit code. Never raises."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    open_missing_streams()
    if not given or given[0] not in DRIVING or "--help" in given:
        from shoal.cli.dispatch import obey

        return obey(given)
    gc.disable()  # Nothing made on the way to the first trial is garbage; `drive` turns it on again.
    from shoal.engine.workers import zygote_client
    from shoal.kinds import usual

    if "--inline" not in given:
        zygote_client.prestart(
            *usual().preload
        )  # Loaded where workers come from, while this process still thinks.
    try:
        from shoal.cli.dispatch import obey

        return obey(given)
    finally:
        gc.enable()
        zygote_client.discard()

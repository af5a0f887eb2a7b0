"""`cp`: files and folders from one place to another."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from shoal.cli.group import json_option
from shoal.cli.output import echo_json, is_terminal, say
from shoal.units import format_seconds, format_size
from shoal.words import printable, some

if TYPE_CHECKING:
    from shoal.files.copies import Copied

DRAWN_EVERY_S = 0.2
SAID_EVERY_S = 5.0
"""Where nobody watches."""
FAILURES_SHOWN = 10


@click.command("cp")
@click.argument("sources", metavar="FROM...", nargs=-1, required=True)
@click.argument("to", metavar="TO")
@click.option("--endpoint", metavar="URL", help="The address of the S3 server, where it is not Amazon's.")
@json_option
def cp_command(sources: tuple[str, ...], to: str, endpoint: str | None, as_json: bool) -> int:
    """Copy files and folders between here, s3://, hdfs:// and http(s)://.

    What is in a folder goes below TO. A file that is there already, with the same size and not older, is left
    alone: so a copy that was ended can be started again.
    """
    from shoal.files.copies import Copying, planned

    began = time.monotonic()
    target, copies = planned(sources, to, endpoint=endpoint)
    shown = _Progress(began)
    try:
        copied = Copying(target, copies).run(shown.tell, shown.every_s)
    except KeyboardInterrupt:
        say("Stopped. The same command goes on with what is left.")
        raise
    finally:
        shown.clear()
    seconds = time.monotonic() - began
    if as_json:
        echo_json(
            {
                "to": target.url,
                "files": copied.files,
                "copied": copied.copied,
                "skipped": copied.skipped,
                "bytes": copied.moved_bytes,
                "seconds": seconds,
                "failed": [{"file": file, "error": reason} for file, reason in copied.failed],
            }
        )
    _say_failures(copied)
    there = f", {copied.skipped:,} {'was' if copied.skipped == 1 else 'were'} there" if copied.skipped else ""
    moved, taken = format_size(copied.moved_bytes), format_seconds(seconds)
    say(f"{some(copied.copied, 'file')} copied to {target.url}{there}: {moved} in {taken}.")
    return 1 if copied.failed else 0


def _say_failures(copied: Copied) -> None:
    for file, reason in copied.failed[:FAILURES_SHOWN]:
        say(printable(f"Failed: {file}: {reason}"))
    if copied.failed:
        more = len(copied.failed) - FAILURES_SHOWN
        rest = f" and {more:,} more;" if more > 0 else ""
        say(
            f"{some(len(copied.failed), 'file')} could not be copied:{rest} the same command tries them again."
        )


class _Progress:
    """One line that changes, on a terminal; elsewhere a line now and then."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._is_drawn = is_terminal(sys.stderr)
        self.every_s = DRAWN_EVERY_S if self._is_drawn else SAID_EVERY_S

    def tell(self, copied: Copied) -> None:
        now = time.monotonic()
        done = copied.copied + copied.skipped + len(copied.failed)
        moved, rate = copied.moved_bytes, copied.moved_bytes / max(now - self._began, 1e-9)
        line = f"{done:,} of {some(copied.files, 'file')}, {format_size(moved)}, {format_size(int(rate))} a second"
        if self._is_drawn:
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()
        else:
            say(line)

    def clear(self) -> None:
        if self._is_drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

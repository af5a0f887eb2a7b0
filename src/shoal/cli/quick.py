"""`shoal run FILE ...` as it is nearly always written, read without click.

Loading click takes about as long as everything else up to the first trial. What is not understood at first
sight (a mistake, `--help`, an unusual spelling) is left to click, which knows all of it and explains it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

VALUED = ("--cluster", "--set", "--limit", "--plan")


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

"""What runs in a worker of a sweep: a function or a command, once per trial. Imported there, so it stays light."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from shoal.engine.workers.process import find_python_first, run_command
from shoal.engine.workers.reporting import report_directly
from shoal.engine.workers.runner import Work
from shoal.spec.command import Cell, fill, template, text_of
from shoal.work import functions

BLOCK_BYTES = 1 << 20
OVERLAP_BYTES = 1 << 14
"""A match longer than this may be missed where two blocks of output meet."""


class FunctionTrial:
    """Calls a function with the row as keyword arguments."""

    def __init__(self, function: str | None = None, blob: bytes = b"") -> None:
        report_directly()
        self._function = functions.load(function) if function is not None else _unpickle(blob)

    def run(self, work: Work) -> Mapping[str, Any] | None:
        metrics: Mapping[str, Any] | None = self._function(**work.params)
        return metrics


def _unpickle(code: bytes) -> Callable[..., Any]:
    """A function of a notebook or of `__main__`, which this run's own driver sent by value."""
    import cloudpickle

    function: Callable[..., Any] = cloudpickle.loads(code)
    return function


class CommandTrial:
    """Fills the row into a command, runs it, and finds the metrics in what it wrote."""

    def __init__(self, command: str, metrics: Mapping[str, str]) -> None:
        self._arguments = template(command)
        self._patterns = {name: re.compile(pattern, re.MULTILINE) for name, pattern in metrics.items()}
        find_python_first()

    def run(self, work: Work) -> Mapping[str, Any] | None:
        arguments = fill(self._arguments, cells_of(work))
        log_start = os.lseek(work.log_fd, 0, os.SEEK_END)
        run_command(arguments, work)
        return find_metrics(self._patterns, work.log_fd, log_start)


def cells_of(work: Work) -> dict[str, Cell]:
    """The row, each value with its exact text."""
    texts = work.texts or {}
    return {name: Cell(value, texts.get(name, text_of(value))) for name, value in work.params.items()}


def find_metrics(patterns: Mapping[str, re.Pattern[str]], log_fd: int, start: int) -> dict[str, Any]:
    """The last match of each pattern in the log from `start` on."""
    found: dict[str, Any] = {}
    missing = dict(patterns)
    for text in _backwards(log_fd, start):
        for name, pattern in list(missing.items()):
            matches = list(pattern.finditer(text))
            if matches:
                last = matches[-1]
                found[name] = number(last[1] if pattern.groups else last[0])
                del missing[name]
        if not missing:
            break
    return {name: found[name] for name in patterns if name in found}


def _backwards(log_fd: int, start: int) -> Iterator[str]:
    """Blocks of the output, the last first, overlapping so that no short match is cut in two."""
    end = os.lseek(log_fd, 0, os.SEEK_END)
    while end > start:
        begin = max(start, end - BLOCK_BYTES)
        yield os.pread(log_fd, end - begin, begin).decode("utf-8", "replace")
        if begin == start:
            return
        end = begin + OVERLAP_BYTES


def number(text: str | None) -> Any:
    """A metric as a number where it is one, else as its text."""
    if text is None:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text

"""What the trials of the benchmarks do. Copied beside each workload file, and imported by the other side as it is."""

from __future__ import annotations

import contextlib
import time


def nothing(number: int, rate: float) -> None:
    """A trial that costs nothing but being one."""


def nothing_of(row: dict[str, float]) -> None:
    """The same, for a `map` that hands over one value."""
    nothing(**row)  # type: ignore[arg-type]


def wait(milliseconds: float, number: int = 0) -> None:
    time.sleep(milliseconds / 1000)


def wait_by_number(number: int) -> None:
    """A row that does not say how long it takes; the durations are beside the workload file."""
    with open("milliseconds.txt", encoding="utf-8") as file:
        wait(float(file.read().split()[number - 1]))


def mark(number: int = 0, rate: float = 0.0) -> None:
    """Leave the time at which the first trial runs, as the first thing it does; later ones find it there."""
    at = time.time()
    with contextlib.suppress(FileExistsError), open("mark.txt", "x", encoding="utf-8") as file:
        file.write(repr(at))


if __name__ == "__main__":
    mark()

"""What the benchmarks print: figures with their targets, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Figure(NamedTuple):
    """One number. `at_least` and `at_most` are the target; a figure without one is only printed."""

    key: str
    what: str
    value: float
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None
    how: str = ""
    """What it was made from, and how far the measurements lie apart."""

    @property
    def target(self) -> str:
        if self.at_least is not None:
            return f">= {self.at_least:g}{self.unit}"
        return f"<= {self.at_most:g}{self.unit}" if self.at_most is not None else ""

    @property
    def passed(self) -> bool | None:
        if self.at_least is not None:
            return self.value >= self.at_least
        return self.value <= self.at_most if self.at_most is not None else None

    def without_target(self) -> Figure:
        return self._replace(at_least=None, at_most=None)

    def document(self) -> dict[str, Any]:
        return self._asdict() | {"passed": self.passed}


HEADINGS = ("", "what", "figure", "target", "", "from")


def table(figures: Iterable[Figure]) -> str:
    """Plain text, a line a figure."""
    verdicts = {None: "", True: "pass", False: "MISS"}
    rows: list[Sequence[str]] = [HEADINGS]
    rows += [
        (
            figure.key,
            figure.what,
            f"{figure.value:.2f}{figure.unit}",
            figure.target,
            verdicts[figure.passed],
            figure.how,
        )
        for figure in figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)

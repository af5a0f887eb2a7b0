"""What is wrong with a table, gathered and told at once. It judges nothing: the readers do."""

from __future__ import annotations

from shoal.errors import Problem, SpecError

SHOWN_PLACES = 5
SHOWN_PROBLEMS = 20
LARGEST_WIDTH = 16_384  # columns; what a spreadsheet can hold


class CellError(Exception):
    """A cell that cannot be a parameter; the reader that catches it knows where the cell is."""

    def __init__(self, sentence: str = "", *, hint: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint


class Problems:
    """The problems of one table. A sentence true at many places is one problem that tells the first few."""

    __slots__ = ("_places", "_total", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._places: dict[Problem, list[str]] = {}
        self._total: dict[Problem, int] = {}

    def __bool__(self) -> bool:
        return bool(self._total)

    def add(self, sentence: str, *, at: str | None = None, hint: str | None = None) -> None:
        """Note a problem; `sentence` ends without a full stop, `at` names the line or cell."""
        problem = Problem(sentence, hint)
        places = self._places.setdefault(problem, [])
        self._total[problem] = self._total.get(problem, 0) + 1
        if at is not None and len(places) < SHOWN_PLACES:
            places.append(at)

    def raise_any(self) -> None:
        """Raise everything noted so far as one error; do nothing when there is nothing."""
        if self:
            raise self.error()

    def fail(self, sentence: str, *, at: str | None = None, hint: str | None = None) -> SpecError:
        """The error of everything noted so far and this, after which reading cannot go on."""
        self.add(sentence, at=at, hint=hint)
        return self.error()

    def error(self) -> SpecError:
        told = [Problem(self._told(problem), problem.hint) for problem in self._total]
        if len(told) > SHOWN_PROBLEMS:
            more = len(told) - SHOWN_PROBLEMS
            told[SHOWN_PROBLEMS:] = [Problem(f"{self.path}: and {more:,} more problems.")]
        hint = next((problem.hint for problem in told if problem.hint), None)
        return SpecError("\n".join(problem.message for problem in told), hint=hint, problems=told)

    def _told(self, problem: Problem) -> str:
        places = self._places[problem]
        if not places:
            return f"{self.path}: {problem.message}."
        more = self._total[problem] - len(places)
        rest = f" and {more:,} more" if more else ""
        return f"{self.path}: {problem.message}: {', '.join(places)}{rest}."

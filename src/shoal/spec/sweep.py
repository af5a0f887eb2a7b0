"""What a sweep file may ask for: trials from a table, a grid or a search, and what each of them runs."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from shoal.spec.command import RESERVED, Cell, template
from shoal.spec.nodes import Node, Problems, describe
from shoal.spec.readers import CellReader, Choice, ListOf, MapOf, Number, Text, Whole
from shoal.spec.sections import INVALID, Found, Reader, Record, Section, join, key, section
from shoal.spec.workload import Workload

_CHOICES = ListOf(CellReader(), "a list of values such as [adam, sgd]", least=1)
_BOUNDS: dict[str, Reader] = {
    "log": ListOf(Number(above=0), "[low, high] such as [1e-5, 0.1]"),
    "int": ListOf(Whole(), "[low, high] such as [1, 4]"),
    "float": ListOf(Number(), "[low, high] such as [0.0, 0.5]"),
}
_BOUNDS["uniform"] = _BOUNDS["float"]
_HELP = {
    "log": "A number between two bounds above 0, drawn evenly on a log scale.",
    "int": "A whole number between two bounds, both included.",
    "float": "A number between two bounds.",
    "uniform": "Another name for float.",
    "choice": "One of the values listed.",
}


class SearchRange(NamedTuple):
    """What one parameter may be: `log`, `int` and `float` have `low` and `high`, `choice` has `choices`."""

    kind: str
    low: float = 0
    high: float = 0
    choices: tuple[Cell, ...] = ()


class RangeReader(Reader):
    """A mapping of one key, the kind of range, such as `{log: [1e-5, 0.1]}`."""

    expected = "a range such as {log: [1e-5, 0.1]}, {int: [1, 4]}, {float: [0, 1]} or {choice: [a, b]}"

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if not isinstance(node.value, dict) or len(node.value) != 1:
            return self.wrong(node, path, problems)
        [(kind, inner)] = node.value.items()
        path = join(path, kind)
        if kind == "choice":
            choices = _CHOICES.read(inner, path, problems)
            return INVALID if choices is INVALID else SearchRange(kind, choices=choices)
        if kind not in _BOUNDS:
            from shoal.errors import nearest

            problems.add("unknown kind of range", node=inner, path=path, hint=nearest(kind, _HELP))
            return INVALID
        return self._bounds("float" if kind == "uniform" else kind, inner, path, problems)

    def _bounds(self, kind: str, node: Node, path: str, problems: Problems) -> Any:
        reader = _BOUNDS[kind]
        if not isinstance(node.value, list) or len(node.value) != 2:
            found = describe(node) if not isinstance(node.value, list) else f"{len(node.value)} values"
            problems.add(f"expected {reader.expected}, found {found}", node=node, path=path)
            return INVALID
        bounds = reader.read(node, path, problems)
        if bounds is INVALID:
            return INVALID
        low, high = bounds
        if low > high:
            problems.add(f"low <= high must hold, found [{low}, {high}]", node=node, path=path)
            return INVALID
        return SearchRange(kind, low, high)

    def schema(self) -> dict[str, Any]:
        pairs = {kind: reader.schema() | {"minItems": 2, "maxItems": 2} for kind, reader in _BOUNDS.items()}
        properties = pairs | {"choice": _CHOICES.schema()}
        return {
            "type": "object",
            "properties": {kind: part | {"description": _HELP[kind]} for kind, part in properties.items()},
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
        }


class Command(Text):
    """A command line: split like a shell does, with `{column}` where a value goes."""

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        value = super().read(node, path, problems)
        if value is not INVALID:
            try:
                template(value)
            except ValueError as error:
                problems.add(str(error), node=node, path=path)
                return INVALID
        return value


class Pattern(Text):
    """A regular expression."""

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        value = super().read(node, path, problems)
        if value is not INVALID:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    re.compile(value)
            except (re.error, OverflowError, RecursionError) as error:
                problems.add(f"not a regular expression: {error}", node=node, path=path)
                return INVALID
        return value

    def schema(self) -> dict[str, Any]:
        return super().schema() | {"format": "regex"}


_GRID = MapOf(
    ListOf(CellReader(), "a list of values such as [0.1, 0.01]", least=1),
    "a mapping of parameters to lists such as {lr: [0.1, 0.01]}",
    reserved=RESERVED,
    least=1,
)
_SEARCH = MapOf(
    RangeReader(),
    "a mapping of parameters to ranges such as {lr: {log: [1e-5, 0.1]}}",
    reserved=RESERVED,
    least=1,
)


@section
class Trials(Section):
    """Which trials there are. Exactly one of `table`, `grid` and `search` is set, `sampler` with the last."""

    table: str | None = key(
        Text("the path of a table"),
        "A .xlsx, .csv, .tsv, .jsonl or .parquet file: a row is a trial.",
        default=None,
    )
    grid: Mapping[str, tuple[Cell, ...]] | None = key(
        _GRID, "Parameters and their values: every combination is a trial.", default=None
    )
    search: Mapping[str, SearchRange] | None = key(
        _SEARCH, "Parameters and the ranges to draw them from.", default=None
    )
    count: int | None = key(Whole(1), "How many trials a search makes.", default=None)
    sampler: str | None = key(
        Choice("tpe", "random", "grid"),
        "How a search chooses; without it, tpe when there is an objective, else random.",
        default=None,
    )
    pruner: str = key(
        Choice("asha", "median", "none"), "How trials that do badly are ended early.", default="none"
    )
    repeat: int = key(Whole(1), "How often each trial is run.", default=1)
    seed: int | None = key(
        Whole(0, 2**32 - 1), "Makes a search draw the same values each time.", default=None
    )

    exactly_one: ClassVar = ("table", "grid", "search")
    only_with: ClassVar = {"count": "search", "sampler": "search", "pruner": "search"}
    needs: ClassVar = {"search": "count"}


@section
class Run(Section):
    """What each trial runs. Exactly one is set."""

    command: str | None = key(
        Command("a command"),
        "A command line, split like a shell does; then {column} is filled in.",
        default=None,
    )
    function: str | None = key(
        Text(
            "a function such as train:main",
            r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*",
        ),
        "A function as module:name, called with the row as keyword arguments.",
        default=None,
    )
    workload: str | None = key(
        Text("the path of a workload file"),
        "Another workload: each trial is a run of it, with the columns as --set.",
        default=None,
    )

    exactly_one: ClassVar = ("command", "function", "workload")


@section
class Objective(Section):
    """What a good trial is."""

    metric: str = key(Text("the name of a metric"), "The metric that counts.")
    goal: str = key(Choice("max", "min"), "Whether more or less of it is better.")


@section
class Sweep(Workload):
    """Many trials of one program, each with parameters of its own."""

    kind: str = key(Choice("sweep"), "What this file describes.", default="sweep")
    trials: Trials = key(Record(Trials), "Which trials there are.")
    run: Run = key(Record(Run), "What each trial runs.")
    metrics: Mapping[str, str] = key(
        MapOf(Pattern("a regular expression"), "a mapping of metrics to regular expressions"),
        "Metrics to find in the output: the first group (or all) of the last match counts.",
        factory=dict,
    )
    objective: Objective | None = key(Record(Objective), "What a good trial is.", default=None)
    whole_node: bool = False
    """Whether each trial has a node to itself: it is a workload, and nothing says how many CPUs it gets."""

    @classmethod
    def check(cls, found: Found) -> None:
        run = found.values.get("run")
        if run is not None and run.workload is not None:
            _check_workload(found)
        trials = found.values.get("trials")
        if trials is not None and trials.search is not None:
            _check_search(found, trials)


def _check_workload(found: Found) -> None:
    resources = found.nodes["resources"].value if found.has("resources") else {}
    cpu = resources.get("cpu") if isinstance(resources, dict) else None
    found.values["whole_node"] = cpu is None or cpu.value is None
    if found.has("metrics"):
        hint = "Leave it out: the numbers of the workload's own summary are the metrics."
        found.problem("is for the output of a command, and run.workload has none", "metrics", hint=hint)


def _check_search(found: Found, trials: Trials) -> None:
    for name, default in (("sampler", "random"), ("pruner", "none")):
        chosen = getattr(trials, name)
        if chosen in ("tpe", "asha", "median") and not found.has("objective"):
            hint = "Add objective: {metric: NAME, goal: max}" + f", or choose {name}: {default}."
            inner = found.nodes["trials"].value
            node = inner.get(name) if isinstance(inner, dict) else None
            message = f"{chosen} needs an objective"
            found.problems.add(message, node=node, path=f"trials.{name}", hint=hint)
    if trials.sampler is None:
        sampler = "tpe" if found.has("objective") else "random"
        found.values["trials"] = trials.replaced(sampler=sampler)

"""The ranges that a search draws parameters from. Drawing from them is not done here."""

from __future__ import annotations

from typing import Any, NamedTuple

from shoal.spec.cell import Cell
from shoal.spec.nodes import Node, describe
from shoal.spec.problems import Problems
from shoal.spec.reader import INVALID, Reader, join
from shoal.spec.readers import CellReader, ListOf, Number, Whole

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

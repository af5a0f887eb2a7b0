"""The types of values that a file holds: text, numbers, quantities, choices, lists and maps of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from shoal import units
from shoal.errors import nearest
from shoal.spec.command import Cell
from shoal.spec.nodes import Node, Problems
from shoal.spec.sections import INVALID, Reader, Record, join

NORMALIZATIONS = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "half": ((0.5,), (0.5,)),
    "none": ((0.0,), (1.0,)),
}
"""Named ones: the mean and the deviation of each channel, for values from 0 to 1."""


class Text(Reader):
    """Text that is not blank and, if a pattern is given, matches it from start to end."""

    def __init__(self, expected: str = "text", pattern: str = "") -> None:
        self.expected = expected
        self._pattern = pattern

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        value = node.value
        if not isinstance(value, str):
            hint = f"Write '{node.text}' in quotes." if node.is_scalar and value is not None else None
            return self.wrong(node, path, problems, hint)
        if not value.strip() or (self._pattern and not re.fullmatch(self._pattern, value)):
            return self.wrong(node, path, problems)
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^(?:{self._pattern})$" if self._pattern else r"\S"}


class Plain(Reader):
    """Any scalar, kept as its exact text."""

    expected = "text or a number"

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        return node.text if node.is_scalar else self.wrong(node, path, problems)

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "number", "boolean", "null"]}


class CellReader(Reader):
    """Any scalar, with its type and its exact text; null is a blank."""

    expected = "text, a number, true, false or null"

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if not node.is_scalar:
            return self.wrong(node, path, problems)
        return Cell(node.value, "" if node.value is None else node.text)

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "number", "boolean", "null"]}


class Whole(Reader):
    """A whole number within bounds; 1e3 is one. What a float or a database cannot hold is too large."""

    _largest = 2**53

    def __init__(self, least: int | None = None, most: int | None = None) -> None:
        self._least, self._most = least, most
        self.expected = f"a whole number{_bounds(least, most)}"

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        value = node.value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and abs(value) > self._largest:
            problems.add(f"expected {self.expected}, found one that is too large", node=node, path=path)
            return INVALID
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or not _within(value, self._least, self._most)
        ):
            return self.wrong(node, path, problems)
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "integer"} | _schema_bounds(self._least, self._most)


class Number(Reader):
    """A finite number: at least `least`, or above `above`."""

    def __init__(self, *, least: float | None = None, above: float | None = None) -> None:
        self._least, self._above = least, above
        self.expected = "a number" + (f" above {above}" if above is not None else _bounds(least, None))

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < float("inf"):
            return self.wrong(node, path, problems)
        if not _within(value, self._least, None) or (self._above is not None and value <= self._above):
            return self.wrong(node, path, problems)
        return value

    def schema(self) -> dict[str, Any]:
        bounds = {} if self._above is None else {"exclusiveMinimum": self._above}
        return {"type": "number"} | _schema_bounds(self._least, None) | bounds


class Flag(Reader):
    """true or false."""

    expected = "true or false"

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        return node.value if isinstance(node.value, bool) else self.wrong(node, path, problems)

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


class Choice(Reader):
    """One word of a few."""

    def __init__(self, *options: str) -> None:
        self._options = options
        self.expected = f"one of {', '.join(options)}" if len(options) > 1 else options[0]

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if node.is_scalar and node.text in self._options:
            return node.text
        hint = nearest(node.text, self._options) if isinstance(node.value, str) else None
        return self.wrong(node, path, problems, hint if hint and hint.startswith("Did") else None)

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self._options)}


class Quantity(Reader):
    """A number with a unit, such as a duration: read by a function of `units`, which refuses more than `most`."""

    def __init__(
        self,
        expected: str,
        parse: Callable[[Any], float],
        pattern: str,
        *,
        zero: bool = False,
        most: float | None = None,
    ) -> None:
        self.expected = expected
        self._parse, self._pattern, self._zero, self._most = parse, pattern, zero, most

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if not node.is_scalar or node.value is None:
            return self.wrong(node, path, problems)
        try:
            amount = self._parse(node.value)
        except ValueError as error:
            problems.add(str(error), node=node, path=path)
            return INVALID
        return amount if amount or self._zero else self.wrong(node, path, problems)

    def schema(self) -> dict[str, Any]:
        least = {"minimum": 0} if self._zero else {"exclusiveMinimum": 0}
        number = {"type": "number"} | least | _schema_bounds(None, self._most)
        return {"anyOf": [number, {"type": "string", "pattern": self._pattern}]}


class ListOf(Reader):
    """A list, which becomes a tuple."""

    def __init__(self, item: Reader, expected: str, *, least: int = 0) -> None:
        self._item, self._least = item, least
        self.expected = expected

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if not isinstance(node.value, list) or len(node.value) < self._least:
            hint = f"Write [{node.text}]." if node.is_scalar and self._item.accepts(node) else None
            return self.wrong(node, path, problems, hint)
        values = [self._item.read(each, join(path, str(i)), problems) for i, each in enumerate(node.value)]
        return INVALID if any(value is INVALID for value in values) else tuple(values)

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self._item.schema()} | ({"minItems": 1} if self._least else {})


class MapOf(Reader):
    """A mapping with names of the user's own choosing."""

    def __init__(
        self,
        item: Reader,
        expected: str,
        *,
        names: str = r"[\s\S]*\S[\s\S]*",
        reserved: Sequence[str] = (),
        least: int = 0,
    ) -> None:
        self._item, self._names, self._reserved, self._least = item, names, reserved, least
        self.expected = expected

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if not isinstance(node.value, dict) or len(node.value) < self._least:
            return self.wrong(node, path, problems)
        before = len(problems)
        values = {}
        for name, each in node.value.items():
            if not re.fullmatch(self._names, name):
                problems.add(f"{name!r} cannot be a name here", node=each, path=path)
            elif name in self._reserved:
                hint = f"Every result has the columns {', '.join(self._reserved)}: choose another name."
                problems.add("this name is reserved", node=each, path=join(path, name), hint=hint)
            else:
                values[name] = self._item.read(each, join(path, name), problems)
        return INVALID if len(problems) > before else values

    def schema(self) -> dict[str, Any]:
        names: dict[str, Any] = {"pattern": f"^(?:{self._names})$"}
        if self._reserved:
            names["not"] = {"enum": list(self._reserved)}
        least = {"minProperties": self._least} if self._least else {}
        return {"type": "object", "additionalProperties": self._item.schema(), "propertyNames": names} | least


DURATION = Quantity("a duration above 0 such as 90s, 30m or 2h", units.seconds, units.DURATION_PATTERN)
LATENCY = Quantity("a duration such as 20ms", units.seconds, units.DURATION_PATTERN, zero=True)
SHARE = Quantity("a share such as 1%", units.share, units.SHARE_PATTERN, zero=True, most=1)
SIZE = Quantity("a size above 0 such as 512MiB or 4GiB", units.size, units.SIZE_PATTERN)


def _within(value: float, least: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


def _bounds(least: float | None, most: float | None) -> str:
    if least is not None and most is not None:
        return f" from {least} to {most}"
    return f" of at least {least}" if least is not None else ""


def _schema_bounds(least: float | None, most: float | None) -> dict[str, Any]:
    bounds = {"minimum": least, "maximum": most}
    return {name: bound for name, bound in bounds.items() if bound is not None}


class OneOf(Reader):
    """A value that may be written in several ways: the first reader that takes it reads it."""

    def __init__(self, expected: str, *readers: Reader) -> None:
        self.expected = expected
        self._readers = readers

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        for reader in self._readers:
            if reader.accepts(node):
                return reader.read(node, path, problems)
        if isinstance(node.value, dict):  # Its keys are known: what is wrong with them says more.
            for reader in self._readers:
                if isinstance(reader, Record):
                    return reader.read(node, path, problems)
        return self.wrong(node, path, problems)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [reader.schema() for reader in self._readers]}


class Several(Reader):
    """One value, or a list of them; a tuple either way."""

    def __init__(self, item: Reader, expected: str) -> None:
        self._item = item
        self._list = ListOf(item, expected, least=1)
        self.expected = expected

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if isinstance(node.value, list):
            return self._list.read(node, path, problems)
        value = self._item.read(node, path, problems)
        return value if value is INVALID else (value,)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self._item.schema(), self._list.schema()]}


class Normalization(Reader):
    """A name, or the mean and the deviation of each channel."""

    expected = f"one of {', '.join(NORMALIZATIONS)}, or {{mean: [...], std: [...]}}"
    _numbers = Several(Number(), "a number for each channel")
    _spreads = Several(Number(above=0), "a number above 0 for each channel")

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if node.is_scalar and node.text in NORMALIZATIONS:
            return NORMALIZATIONS[node.text]
        if not isinstance(node.value, dict) or set(node.value) != {"mean", "std"}:
            return self.wrong(node, path, problems)
        mean = self._numbers.read(node.value["mean"], f"{path}.mean", problems)
        spread = self._spreads.read(node.value["std"], f"{path}.std", problems)
        if mean is INVALID or spread is INVALID:
            return INVALID
        return tuple(map(float, mean)), tuple(map(float, spread))

    def schema(self) -> dict[str, Any]:
        both = {
            "mean": self._numbers.schema() | {"description": "What is taken away from each channel."},
            "std": self._spreads.schema() | {"description": "What each channel is divided by."},
        }
        pair = {"type": "object", "properties": both, "required": ["mean", "std"]}
        return {"anyOf": [{"enum": list(NORMALIZATIONS)}, pair | {"additionalProperties": False}]}

"""Values that may be written in more than one way: a word or a mapping, one value or a list of them.

What a kind of file asks for is not here.
"""

from __future__ import annotations

from typing import Any

from shoal.spec.nodes import Node
from shoal.spec.problems import Problems
from shoal.spec.reader import INVALID, Reader
from shoal.spec.readers import ListOf, Number
from shoal.spec.records import Record

NORMALIZATIONS = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "half": ((0.5,), (0.5,)),
    "none": ((0.0,), (1.0,)),
}
"""Named ones: the mean and the deviation of each channel, for values from 0 to 1."""


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

"""What reads one type of value: how it is read, what was expected, and its JSON schema.

The types themselves are in `readers`, mappings with fixed keys in `records`.
"""

from __future__ import annotations

from typing import Any, Final

from shoal.spec.nodes import Node, describe, resolve
from shoal.spec.problems import Problems

INVALID: Final = object()
"""What a reader gives for a value that it noted a problem for."""


class Reader:
    """One type of value. `read` never raises for what a user wrote: it notes a problem and gives INVALID."""

    expected: str

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        raise NotImplementedError

    def schema(self) -> dict[str, Any]:
        """The JSON schema of what `read` accepts."""
        raise NotImplementedError

    def wrong(self, node: Node, path: str, problems: Problems, hint: str | None = None) -> Any:
        """Note that something else was expected."""
        if hint is None and isinstance(node.value, str) and not isinstance(resolve(node.text), str):
            hint = "Remove the quotes." if self.accepts(Node(resolve(node.text), node.text)) else None
        problems.add(f"expected {self.expected}, found {describe(node)}", node=node, path=path, hint=hint)
        return INVALID

    def accepts(self, node: Node) -> bool:
        """Whether the value would be read without a problem."""
        return node.value is not None and self.read(node, "", Problems()) is not INVALID


def join(path: str, name: str) -> str:
    """`trials` and `repeat` give `trials.repeat`."""
    return f"{path}.{name}" if path and name else path or name

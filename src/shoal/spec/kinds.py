"""The kinds of files there are, by name. Each is loaded late: a run pays only for its own."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from shoal.errors import nearest

from .nodes import Node, describe
from .problems import Problems

if TYPE_CHECKING:
    from .workload import Spec

_CLASSES: Final = {"sweep": "Sweep", "infer": "Infer", "cluster": "Cluster"}

KINDS: Final = tuple(_CLASSES)
"""Every kind of file: workloads and the cluster."""
WORKLOADS: Final = tuple(kind for kind in KINDS if kind != "cluster")
"""The kinds that can be run."""
ANY: Final = "any"
"""Asks for whatever kind the file is of."""


def section_of(kind: str) -> type[Spec]:
    """The dataclass of a kind; KeyError when there is none."""
    found: type[Spec] = getattr(import_module(f".{kind}", __package__), _CLASSES[kind])
    return found


def kind_of(entries: dict[str, Node], wanted: str | None, problems: Problems) -> str | None:
    """The kind that a file says it is, or None with a problem noted. `wanted` None is any workload."""
    node = entries.get("kind")
    options = {None: WORKLOADS, ANY: KINDS}.get(wanted, (wanted or "",))
    if node is None or node.value is None:
        hint = f"Start with kind: {options[0]}" + (
            f", or one of {', '.join(options[1:])}." if options[1:] else "."
        )
        problems.add("missing", path="kind", hint=hint)
    elif node.value in options:
        return str(node.value)
    elif node.value in KINDS:
        expected = "a workload" if wanted is None else repr(wanted)
        problems.add(f"expected {expected}, found {node.value!r}", node=node, path="kind", hint=_advice(node))
    elif isinstance(node.value, str):
        problems.add(
            f"unknown kind {node.value!r}", node=node, path="kind", hint=nearest(node.value, options)
        )
    else:
        expected = f"expected one of {', '.join(options)}"
        problems.add(f"{expected}, found {describe(node)}", node=node, path="kind")
    return None


def _advice(node: Node) -> str:
    if node.value == "cluster":
        return "A cluster file goes with --cluster, beside a workload file."
    return "This is a workload: give it to shoal run."

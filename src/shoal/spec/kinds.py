"""Which kind a file is of, and what such a file says. Each kind is loaded late: a run pays only for its own."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from shoal.errors import nearest
from shoal.kinds import KINDS, workloads

from .nodes import Node, describe
from .problems import Problems

if TYPE_CHECKING:
    from .workload import Spec

ANY: Final = "any"
"""Asks for whatever kind the file is of."""


def section_of(kind: str) -> type[Spec]:
    """The dataclass of a kind; KeyError when there is none."""
    module, _, name = KINDS[kind].section.partition(":")
    found: type[Spec] = getattr(import_module(module), name)
    return found


def kind_of(entries: dict[str, Node], wanted: str | None, problems: Problems) -> str | None:
    """The kind that a file says it is, or None with a problem noted. `wanted` None is any workload."""
    node = entries.get("kind")
    options = {None: workloads(), ANY: tuple(KINDS)}.get(wanted, (wanted or "",))
    if node is None or node.value is None:
        hint = f"Start with kind: {options[0]}" + (
            f", or one of {', '.join(options[1:])}." if options[1:] else "."
        )
        problems.add("missing", path="kind", hint=hint)
    elif node.value in options:
        return str(node.value)
    elif node.value in tuple(KINDS):
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
    if node.value not in workloads():
        return "A cluster file goes with --cluster, beside a workload file."
    return "This is a workload: give it to shoal run."

"""`--set trials.repeat=3`: values that are given beside the file, and put into its tree before it is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from shoal.spec.nodes import SET, Node, Problems, describe, resolve, usable
from shoal.spec.yaml_reader import compose

_SEGMENT = r'(?:"[^"]*"|[^.="]+)'
_PATH = re.compile(rf"({_SEGMENT}(?:\.{_SEGMENT})*)=(.*)", re.DOTALL)
_LONGEST_SHOWN = 100
AUTO = "auto"
STANDS_FOR = {("output",): "path"}
"""Sections that may be written as one text, by their path, and the key that the text is."""


class Override(NamedTuple):
    """Where a value goes, and the value. A list is entered by index: `nodes.0.cpu`."""

    path: tuple[str, ...]
    value: Node


class _NoSuchPlaceError(Exception):
    """The path leads through something that holds no such thing."""


def apply(root: Node, sets: Sequence[str], problems: Problems) -> Node:
    """The tree with each override put in, in order. The tree given is not changed."""
    for text in sets:
        override = read(text, problems)
        if override is None:
            continue
        try:
            root = _put(root, override.path, override.value, ())
        except _NoSuchPlaceError as error:
            problems.add(str(error), node=override.value, path=".".join(override.path))
    return root


def read(text: str, problems: Problems) -> Override | None:
    """One `PATH=VALUE`, or None with a problem noted."""
    shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
    origin = f"{SET}{shown}"
    match = _PATH.fullmatch(text)
    if not usable(text):
        problems.add("text with a NUL or half a character cannot be used", node=Node(None, origin=origin))
        return None
    if match is None:
        hint = "Write --set trials.repeat=3; a name with dots goes in double quotes."
        problems.add("expected PATH=VALUE", node=Node(None, origin=origin), hint=hint)
        return None
    value = _value(match[2], origin, problems)
    path = tuple(part.strip('"') for part in re.findall(_SEGMENT, match[1]))
    return Override(path, value) if value is not None else None


def _value(text: str, origin: str, problems: Problems) -> Node | None:
    """Quoted text, lists and maps are read as YAML; anything else is one plain scalar, whatever is in it."""
    text = text.strip()
    if text.startswith(("[", "{", '"', "'")):
        return compose(text, problems, origin=origin, lines=False)
    return Node(resolve(text), text, origin=origin)


def _put(node: Node | None, path: tuple[str, ...], value: Node, above: tuple[str, ...]) -> Node:
    if not path:
        return value
    head, rest = path[0], path[1:]
    if node is not None and isinstance(node.value, str) and above in STANDS_FOR:
        node = node.holding({STANDS_FOR[above]: node})
    if node is None or node.value in (None, AUTO):  # To say one thing is to leave the rest to Shoal.
        node = Node({}, origin=value.origin)
    if isinstance(node.value, dict):
        return node.holding({**node.value, head: _put(node.value.get(head), rest, value, (*above, head))})
    if isinstance(node.value, list):
        items = list(node.value)
        index = _index(head, items, above)
        items[index : index + 1] = [
            _put(items[index] if index < len(items) else None, rest, value, (*above, head))
        ]
        return node.holding(items)
    raise _NoSuchPlaceError(f"{'.'.join(above)} is {describe(node)}, so it has no {head!r}")


def _index(text: str, items: Sequence[Node], above: tuple[str, ...]) -> int:
    """Where in the list; one past the end appends."""
    if not re.fullmatch("[0-9]{1,9}", text):
        raise _NoSuchPlaceError(f"{'.'.join(above)} is a list: expected a number after it, found {text!r}")
    if int(text) > len(items):
        last = f"the last is {len(items) - 1}" if items else "it is empty"
        raise _NoSuchPlaceError(f"{'.'.join(above)} has no entry {text}, {last}")
    return int(text)

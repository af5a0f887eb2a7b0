"""YAML text to a tree of nodes with line numbers, safely: nothing is constructed, aliases are bounded.

PyYAML's parser gives the events; what scalars mean is decided here, by YAML 1.2. Validation is elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import yaml

from shoal.spec.nodes import DEEPEST, Node, resolve, usable
from shoal.spec.problems import Problems

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CORE = "tag:yaml.org,2002:"
_TAGGED: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "seq": (list,),
    "map": (dict,),
}
_MOST_ALIASED = 10_000
_QUOTING = "Text that contains ': ' or ' #', or starts with one of [ ] { } & * ! | > % @ `, needs quotes."


class _UnreadableError(Exception):
    """The rest of the text cannot be understood; the problem is already noted."""


def compose(text: str, problems: Problems, *, origin: str, lines: bool = True) -> Node | None:
    """The tree of the one document in `text`, or None when it is empty or not YAML (then a problem is noted).

    Without `lines` the nodes only know their origin: that is for text which is not a file.
    """
    composer = _Composer(yaml.parse(text, Loader=_LOADER), problems, origin, lines)
    try:
        return composer.document()
    except yaml.YAMLError as error:
        _note(error, text, problems, origin, lines)
    except _UnreadableError:
        pass
    return None


class _Composer:
    def __init__(self, events: Iterator[Any], problems: Problems, origin: str, lines: bool) -> None:
        self._events = events
        self._problems = problems
        self._origin = origin
        self._lines = lines
        self._anchors: dict[str, tuple[Node, int] | None] = {}
        self._made = self._aliased = 0

    def document(self) -> Node | None:
        next(self._events)  # the stream starts
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        root = self._node(next(self._events), 0)
        next(self._events)  # the document ends
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            self._problem(after, "expected one document, found a second one", "Put it in a file of its own.")
        return root

    def _node(self, event: Any, depth: int) -> Node:
        if depth > DEEPEST:
            self._stop(event, f"nested more than {DEEPEST} levels deep")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        before = self._made + self._aliased
        self._made += 1
        if event.anchor:
            self._anchors[event.anchor] = None
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = Node(list(self._items(depth)), origin=self._origin, line=self._line(event))
        else:
            node = Node(self._entries(depth), origin=self._origin, line=self._line(event))
        self._check_tag(event, node)
        if event.anchor:
            self._anchors[event.anchor] = (node, self._made + self._aliased - before)
        return node

    def _scalar(self, event: Any) -> Node:
        text = event.value
        if not usable(text):
            self._problem(event, "text with a NUL or half a character cannot be used")
        tag = event.tag or ""
        plain = tag.removeprefix(_CORE) in _TAGGED if tag else event.implicit[0]
        return Node(resolve(text) if plain else text, text, origin=self._origin, line=self._line(event))

    def _items(self, depth: int) -> Iterator[Node]:
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            yield self._node(event, depth + 1).at(self._line(event))

    def _entries(self, depth: int) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            value = self._node(next(self._events), depth + 1).at(self._line(event))
            if not key.is_scalar:
                self._problem(event, "expected a name before the colon, found a list or mapping", _QUOTING)
            elif key.text in entries:
                first = f", first on line {entries[key.text].line}" if self._lines else ""
                self._problem(event, f"the key {key.text!r} is given twice{first}")
            else:
                entries[key.text] = value
        return entries

    def _alias(self, event: Any) -> Node:
        if event.anchor not in self._anchors:
            self._stop(event, f"the alias *{event.anchor} has no anchor &{event.anchor} before it")
        target = self._anchors[event.anchor]
        if target is None:
            self._stop(event, f"the alias *{event.anchor} is inside of what it stands for")
        node, size = target
        self._aliased += size
        if self._aliased > _MOST_ALIASED:
            self._stop(event, f"aliases stand for more than {_MOST_ALIASED:,} values")
        return node

    def _check_tag(self, event: Any, node: Node) -> None:
        tag = event.tag
        if tag in (None, "!", f"{_CORE}str"):
            return
        core = tag.removeprefix(_CORE)
        types = _TAGGED.get(core) if tag.startswith(_CORE) else None
        if types is None:
            shown = f"!!{core}" if tag.startswith(_CORE) else tag
            self._problem(
                event, f"the tag {shown!r} is not allowed", "Values are plain text, numbers, lists and maps."
            )
        elif type(node.value) not in types:
            self._problem(event, f"tagged !!{core}, which {node.text!r} is not")

    def _line(self, event: Any) -> int:
        return event.start_mark.line + 1 if self._lines else 0

    def _problem(self, event: Any, message: str, hint: str | None = None) -> None:
        self._problems.add(message, node=Node(None, origin=self._origin, line=self._line(event)), hint=hint)

    def _stop(self, event: Any, message: str) -> NoReturn:
        self._problem(event, message)
        raise _UnreadableError


def _note(error: yaml.YAMLError, text: str, problems: Problems, origin: str, lines: bool) -> None:
    """Say in one sentence what the parser did not like, and where."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        line = text.count("\n", 0, getattr(error, "position", 0) or 0) + 1
        message, hint = "not valid YAML: a control character that text files cannot hold", None
    else:
        line = mark.line + 1
        message, hint = f"not valid YAML: {getattr(error, 'problem', None) or error}", _QUOTING
        rows = text.splitlines()
        row = rows[mark.line] if mark.line < len(rows) else ""
        if "\t" in row[: len(row) - len(row.lstrip())] or row[mark.column : mark.column + 1] == "\t":
            message, hint = "a tab where YAML only takes spaces", "Indent with spaces."
    problems.add(message, node=Node(None, origin=origin, line=line if lines else 0), hint=hint)

"""A file, text or Python data to a checked spec: YAML to nodes, overrides, the kind, validation."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

import yaml

from shoal.errors import NotFound, SpecError, nearest
from shoal.kinds import KINDS, workloads
from shoal.spec.nodes import DEEPEST, Node, Problems, describe, resolve, usable
from shoal.spec.sections import Record
from shoal.spec.workload import Spec

ANY: Final = "any"
"""Asks for whatever kind the file is of."""
_LARGEST = 8 << 20
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


def load(path: str | os.PathLike[str], sets: Sequence[str] = (), *, kind: str | None = None) -> Spec:
    """See `shoal.spec.load`."""
    label = os.fspath(path)
    text = _decode(_content(label), label)
    return loads(text, folder=os.path.dirname(os.path.abspath(label)), label=label, sets=sets, kind=kind)


def loads(text: str, *, folder: str, label: str, sets: Sequence[str] = (), kind: str | None = None) -> Spec:
    """See `shoal.spec.loads`."""
    problems = Problems(label)
    root = compose(text, problems, origin=label)
    if root is None or root.value is None:
        if not problems:
            first = workloads()[0]
            problems.add(
                "the file is empty", hint=f"Start with kind: {first}, or let shoal init write an example."
            )
        problems.raise_any()
    assert root is not None
    stem = os.path.splitext(os.path.basename(label))[0]
    return _build(root, problems, folder=folder, source=text, sets=sets, kind=kind, name=stem)


def parse(data: Mapping[str, Any], *, folder: str, sets: Sequence[str] = (), kind: str | None = None) -> Spec:
    """See `shoal.spec.parse`."""
    from shoal.spec.python_nodes import from_python, to_text

    problems = Problems()
    root = from_python(data, problems)
    problems.raise_any()
    return _build(root, problems, folder=folder, source=to_text(root), sets=sets, kind=kind)


def _build(
    root: Node,
    problems: Problems,
    *,
    folder: str,
    source: str,
    sets: Sequence[str],
    kind: str | None,
    name: str = "",
) -> Spec:
    if sets:
        from shoal.spec.overrides import apply

        root = apply(root, sets, problems)
    root = Node(root.value, origin=root.origin)
    if not isinstance(root.value, dict):
        problems.add("expected keys such as kind and name at the top, found something else", node=root)
        problems.raise_any()
        raise AssertionError
    found = _kind_of(root.value, kind, problems)
    spec: Spec | None = None
    if found is not None:
        extra = {"folder": os.path.abspath(folder), "source": source, "sets": tuple(sets)}
        extra["name"] = _made_valid(name) or found
        spec = Record(section_of(found)).read(root, "", problems, **extra)
    problems.raise_any()
    assert spec is not None
    return spec


def section_of(kind: str) -> type[Spec]:
    """The dataclass of a kind; KeyError when there is none."""
    module, _, name = KINDS[kind].section.partition(":")
    found: type[Spec] = getattr(import_module(module), name)
    return found


def _kind_of(entries: dict[str, Node], wanted: str | None, problems: Problems) -> str | None:
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


def _made_valid(stem: str) -> str:
    """A name from that of a file: lower-case, with what a name cannot hold replaced."""
    return re.sub(r"[^a-z0-9._-]", "-", stem.lower()).lstrip("._-")[:63]


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(_LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise NotFound(f"There is no file {path!r}.", hint=_nearby(path)) from None
    except IsADirectoryError:
        raise NotFound(
            f"{path!r} is a folder, expected a file.", hint=_nearby(os.path.join(path, ""))
        ) from None
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror or error}.") from None
    if len(content) > _LARGEST:
        hint = "Put the values in a table, and name it in the file."
        raise SpecError(f"{path}: larger than {_LARGEST >> 20} MiB.", hint=hint)
    return content


def _nearby(path: str) -> str | None:
    """The hint for a file that is not there: the nearest name in the folder, or what there is."""
    folder, name = os.path.split(path)
    try:
        names = [each for each in os.listdir(folder or ".") if each.endswith((".yaml", ".yml"))]
    except (OSError, ValueError):
        return f"The folder {folder!r} cannot be read."
    return (
        nearest(name, names)
        if names
        else "No .yaml file is in that folder; shoal init KIND writes an example."
    )


def _decode(content: bytes, path: str) -> str:
    try:
        return content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        if content.startswith(b"PK\x03\x04"):
            hint = (
                "This is an Excel sheet or archive: write a .yaml file that names it as trials: {table: ...}."
            )
        else:
            hint = "Save it as UTF-8."
        message = f"{path}:{line}: not UTF-8 text, found the byte 0x{content[error.start]:02x}"
        raise SpecError(message, hint=hint) from None


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

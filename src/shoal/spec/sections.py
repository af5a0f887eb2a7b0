"""Sections of a file: frozen dataclasses whose fields say what is read into them, and the rules between keys.

Python generates the methods of each dataclass anew at every start, half a millisecond a class. A run of Shoal
starts in a tenth of a second, so sections take theirs from one base class; in use there is no difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, TypeVar, dataclass_transform

from shoal.errors import nearest
from shoal.spec.nodes import Node, Problems, describe, resolve

T = TypeVar("T", bound="Section")
INVALID: Final = object()
"""What a reader gives for a value that it noted a problem for."""


class Key(NamedTuple):
    """One key of a file: its name there, the field it fills, and what may stand behind it."""

    name: str
    field: str
    reader: Reader
    help: str
    required: bool
    default: Any


def key(reader: Reader, help: str, *, name: str = "", default: Any = MISSING, factory: Any = MISSING) -> Any:  # noqa: A002
    """A dataclass field that is read from the file, under its own name or the one given."""
    metadata = {"reader": reader, "help": help, "name": name}
    if factory is not MISSING:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def keys_of(of: type[Section]) -> dict[str, Key]:
    """The keys that a section takes, by their names in the file."""
    found = {}
    for each in fields(of):  # type: ignore[arg-type]
        if reader := each.metadata.get("reader"):
            name = each.metadata["name"] or each.name
            required = each.default is MISSING and each.default_factory is MISSING
            found[name] = Key(name, each.name, reader, each.metadata["help"], required, each.default)
    return found


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(key, field))
def section(cls: type[T]) -> type[T]:
    """Make a subclass of Section a frozen dataclass with fields that are given by keyword."""
    return dataclass(init=False, repr=False, eq=False, kw_only=True)(cls)


class Section:
    """A mapping in the file; subclasses are frozen dataclasses with `key` fields and, where needed, rules."""

    exactly_one: ClassVar[Sequence[str]] = ()
    """Keys of which one must be given and the others must not."""
    at_most_one: ClassVar[Sequence[str]] = ()
    """Keys that exclude each other."""
    only_with: ClassVar[Mapping[str, str]] = {}
    """Keys that make no sense without another one."""
    needs: ClassVar[Mapping[str, str]] = {}
    """Keys that require another one."""
    short_forms: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Keys that are short for a key of a section inside this one."""

    @classmethod
    def check(cls, found: Found) -> None:
        """Rules between values. May change `found.values`; called even if some are missing or wrong."""

    def __init__(self, **values: Any) -> None:
        for each in fields(self):  # type: ignore[arg-type]
            if each.name in values:
                value = values.pop(each.name)
            elif each.default is not MISSING:
                value = each.default
            elif each.default_factory is not MISSING:
                value = each.default_factory()
            else:
                raise TypeError(f"{type(self).__name__} needs {each.name!r}")
            object.__setattr__(self, each.name, value)
        if values:
            raise TypeError(f"{type(self).__name__} has no {next(iter(values))!r}")

    def __repr__(self) -> str:
        shown = [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")


class Found:
    """What a section's mapping held: nodes by the names in the file, values by field."""

    def __init__(self, node: Node, path: str, nodes: Mapping[str, Node], problems: Problems) -> None:
        self.node = node
        self.path = path
        self.nodes = nodes
        self.problems = problems
        self.values: dict[str, Any] = {}

    def has(self, name: str) -> bool:
        """Whether the key is there and not null."""
        return name in self.nodes and self.nodes[name].value is not None

    def problem(self, message: str, name: str = "", *, hint: str | None = None) -> None:
        """Note a problem of one key, or of the section as a whole."""
        node = self.nodes.get(name) or self.node
        self.problems.add(message, node=node, path=join(self.path, name), hint=hint)

    def check_rules(self, of: type[Section]) -> None:
        """Note where the declared rules of the section do not hold."""
        exclusive = of.exactly_one or of.at_most_one
        given = [name for name in self.nodes if name in exclusive and self.has(name)]
        if of.exactly_one and not given:
            self.problem(f"expected one of {', '.join(exclusive)}, found none of them")
        elif len(given) > 1:
            self._too_many(given, exclusive)
        for name, other in of.only_with.items():
            if self.has(name) and not self.has(other):
                self.problem(f"only goes with {other}, which is not given", name)
        for name, other in of.needs.items():
            if self.has(name) and not self.has(other):
                self.problem(f"missing, {name} needs it", other)

    def _too_many(self, given: Sequence[str], exclusive: Sequence[str]) -> None:
        """Point at the last one given: a `--set`, if one of them is."""
        last = max(reversed(given), key=lambda name: (not self.nodes[name].line, self.nodes[name].line))
        others = [name for name in given if name != last]
        where = [f"{name} ({self.nodes[name].where})" if self.nodes[name].where else name for name in others]
        hint = f"Keep one of {', '.join(exclusive)}."
        if not self.nodes[last].line and all(self.nodes[name].line for name in others):
            hint = " ".join(
                f"Add --set {join(self.path, name)}=null to take that one out." for name in others
            )
        self.problem(f"cannot be given together with {' and '.join(where)}", last, hint=hint)


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


class Record(Reader):
    """A mapping that becomes a dataclass."""

    def __init__(self, section: type[Section]) -> None:
        self.section = section

    @property
    def expected(self) -> str:  # type: ignore[override]
        names = self.section.exactly_one or [name for name in keys_of(self.section) if name != "kind"]
        return f"a mapping with {'one' if self.section.exactly_one else 'keys'} of {', '.join(names)}"

    def read(self, node: Node, path: str, problems: Problems, **extra: Any) -> Any:
        if not isinstance(node.value, dict):
            return self.wrong(node, path, problems)
        before = len(problems)
        nodes = _expand(node.value, self.section, path, problems)
        keys = keys_of(self.section)
        found = Found(node, path, nodes, problems)
        for name in nodes:
            if name not in keys:
                known = [*keys, *self.section.short_forms]
                problems.add(
                    "unknown key", node=nodes[name], path=join(path, name), hint=nearest(name, known)
                )
        for each in keys.values():
            _read_key(each, found)
        found.check_rules(self.section)
        self.section.check(found)
        return INVALID if len(problems) > before else self.section(**extra | found.values)

    def schema(self) -> dict[str, Any]:
        from shoal.spec.json_schema import section_schema

        return section_schema(self.section)


def _read_key(each: Key, found: Found) -> None:
    if found.has(each.name):
        node = found.nodes[each.name]
        value = each.reader.read(node, join(found.path, each.name), found.problems)
        if value is not INVALID:
            found.values[each.field] = value
    elif each.required:
        found.problem(f"missing, expected {each.reader.expected}", each.name)


def _expand(
    entries: dict[str, Node], section: type[Section], path: str, problems: Problems
) -> dict[str, Node]:
    """The entries with short forms moved to where they belong."""
    for short, (name, inner) in section.short_forms.items():
        if short not in entries:
            continue
        entries = dict(entries)
        node, target = entries.pop(short), entries.get(name)
        held = target.value if target is not None else None
        if node.value is None:
            continue
        if held is None:
            entries[name] = node.holding({inner: node})
        elif isinstance(held, dict) and inner in held:
            message = f"given twice, here and as {join(join(path, name), inner)} ({held[inner].where})"
            problems.add(message.replace(" ()", ""), node=node, path=join(path, short))
        elif isinstance(held, dict) and target is not None:
            entries[name] = target.holding({**held, inner: node})
    return entries

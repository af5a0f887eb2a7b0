"""Sections of a file: frozen values whose fields say what is read into them, and the rules between keys.

They are declared like dataclasses, and are none: those are made anew at every start, half a millisecond a class,
and their module takes longer to load than a workload to be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, Self, TypeVar, dataclass_transform

from shoal.errors import nearest
from shoal.spec.nodes import Node, Problems, describe, resolve

T = TypeVar("T", bound="Section")
INVALID: Final = object()
"""What a reader gives for a value that it noted a problem for."""
MISSING: Final = object()
"""Instead of a default."""


class Field(NamedTuple):
    """What a section holds under one name, and where a file says it."""

    name: str = ""
    default: Any = MISSING
    factory: Any = MISSING
    """Makes the default."""
    is_shown: bool = True
    reader: Reader | None = None
    """None for what no file says."""
    help: str = ""
    key: str = ""
    """The name in the file, where it is another."""


def field(*, default: Any = MISSING, factory: Any = MISSING, is_shown: bool = True) -> Any:
    """A field that is not read from the file."""
    return Field(default=default, factory=factory, is_shown=is_shown)


def key(reader: Reader, help: str, *, name: str = "", default: Any = MISSING, factory: Any = MISSING) -> Any:  # noqa: A002
    """A field that is read from the file, under its own name or the one given."""
    return Field(default=default, factory=factory, reader=reader, help=help, key=name)


class Key(NamedTuple):
    """One key of a file: its name there, the field it fills, and what may stand behind it."""

    name: str
    field: str
    reader: Reader
    help: str
    required: bool
    default: Any


def keys_of(of: type[Section]) -> dict[str, Key]:
    """The keys that a section takes, by their names in the file."""
    found = {}
    for name, default, factory, _, reader, text, in_file in of.fields.values():
        if reader is not None:
            required = default is MISSING and factory is MISSING
            found[in_file or name] = Key(in_file or name, name, reader, text, required, default)
    return found


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(key, field))
def section(cls: type[T]) -> type[T]:
    """Give a subclass of Section the fields that it declares, beside those of its bases."""
    fields = dict(cls.fields)
    for name, annotation in cls.__annotations__.items():
        if annotation.startswith("ClassVar"):
            continue
        declared = cls.__dict__.get(name, MISSING)
        declared = declared if isinstance(declared, Field) else Field(default=declared)
        fields[name] = declared._replace(name=name)
        if declared.default is not MISSING:
            setattr(cls, name, declared.default)
        elif name in cls.__dict__:
            delattr(cls, name)
    cls.fields = fields
    return cls


class Section:
    """A mapping in the file; subclasses are marked by `section`, and have `key` fields and, where needed, rules."""

    fields: ClassVar[Mapping[str, Field]] = {}
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
        own = self.__dict__
        for name, each in self.fields.items():
            if name in values:
                own[name] = values.pop(name)
            elif each.default is not MISSING:
                own[name] = each.default
            elif each.factory is not MISSING:
                own[name] = each.factory()
            else:
                raise TypeError(f"{type(self).__name__} needs {name!r}")
        if values:
            raise TypeError(f"{type(self).__name__} has no {next(iter(values))!r}")

    def replaced(self, **changes: Any) -> Self:
        """The same with other values in these fields."""
        return type(self)(**{**self.__dict__, **changes})

    def __repr__(self) -> str:
        shown = [f"{name}={getattr(self, name)!r}" for name, each in self.fields.items() if each.is_shown]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"cannot assign to field {name!r}: a section is never changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"cannot delete field {name!r}: a section is never changed")


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
    """A mapping that becomes a section."""

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

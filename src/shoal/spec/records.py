"""Mappings with fixed keys, read into sections while every problem is noted."""

from __future__ import annotations

from typing import Any

from shoal.errors import nearest
from shoal.spec.nodes import Node
from shoal.spec.problems import Problems
from shoal.spec.reader import INVALID, Reader, join
from shoal.spec.sections import Found, Key, Section, keys_of


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

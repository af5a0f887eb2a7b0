"""The JSON schema (draft 2020-12) of a kind, so that editors complete its files.

It is made from the declarations that the loader reads by.
"""

from __future__ import annotations

from typing import Any

from shoal.spec.sections import Key, Section, keys_of


def file_schema(kind: str, section: type[Section]) -> dict[str, Any]:
    """The schema of a whole file."""
    schema = section_schema(section)
    schema["required"] = ["kind", *schema.get("required", [])]
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"Shoal {kind}"}
    return head | schema


def section_schema(section: type[Section]) -> dict[str, Any]:
    """The schema of one mapping: its keys, and the rules between them."""
    keys = keys_of(section)
    properties = {name: _key_schema(each) for name, each in keys.items()}
    for short, (name, inner) in section.short_forms.items():
        properties[short] = _inner(keys[name], inner)
    schema: dict[str, Any] = {
        "type": "object",
        "description": (section.__doc__ or "").partition("\n")[0],
        "properties": properties,
        "additionalProperties": False,
    }
    if required := [name for name, each in keys.items() if each.required]:
        schema["required"] = required
    return schema | _rules(section)


def _key_schema(each: Key) -> dict[str, Any]:
    schema = each.reader.schema()
    if not each.required:
        schema = _or_null(schema)
        if each.default is not None and isinstance(each.default, str | int | float) and each.default != "":
            schema["default"] = each.default
    return schema | {"description": each.help}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A key without a value counts as not given."""
    if "allOf" in schema:  # Rules between keys would hold for no null.
        return {"anyOf": [schema, {"type": "null"}]}
    kind = schema.get("type")
    if kind is None and "enum" in schema:
        return schema | {"enum": [*schema["enum"], None]}
    if kind is None:
        return schema | {"anyOf": [*schema["anyOf"], {"type": "null"}]}
    kinds = [kind] if isinstance(kind, str) else kind
    return schema | {"type": [*kinds, "null"] if "null" not in kinds else kinds}


def _inner(outer: Key, name: str) -> dict[str, Any]:
    inner: dict[str, Any] = outer.reader.schema()["properties"][name]
    return inner | {"description": f"Short for {outer.name}: {{{name}: ...}}."}


def _rules(section: type[Section]) -> dict[str, Any]:
    rules: list[dict[str, Any]] = []
    if section.exactly_one:
        rules.append({"oneOf": [_given(name) for name in section.exactly_one]})
    if section.at_most_one:
        rules.append({"not": {"allOf": [_given(name) for name in section.at_most_one]}})
    for name, other in [*section.only_with.items(), *section.needs.items()]:
        rules.append({"if": _given(name), "then": _given(other)})
    return {"allOf": rules} if rules else {}


def _given(name: str) -> dict[str, Any]:
    return {"required": [name], "properties": {name: {"not": {"type": "null"}}}}

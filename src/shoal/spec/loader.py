"""A file, text or Python data to a checked spec: read, override, find the kind, validate.

Reading that one file is the only I/O of this package.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from shoal.errors import NotFound, SpecError, nearest
from shoal.kinds import KINDS, workloads
from shoal.spec.nodes import Node, describe
from shoal.spec.problems import Problems
from shoal.spec.records import Record
from shoal.spec.workload import Spec
from shoal.spec.yaml_nodes import compose

ANY: Final = "any"
"""Asks for whatever kind the file is of."""
_LARGEST = 8 << 20


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

"""Files that an export gives, and how values become YAML: in a stable order, and read alike by every parser."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib import metadata
from platform import python_version_tuple
from typing import Any, NamedTuple

import yaml

from shoal.errors import SpecError

_PLAIN = re.compile(r"[A-Za-z/$][\w./:@$-]*[\w./-]", re.ASCII)
"""Text that no reader of YAML, of 1.1 or 1.2, takes for anything else, but for the words below."""
_WORDS = {"true", "false", "yes", "no", "on", "off", "null"}


class Document(NamedTuple):
    """One file of an export."""

    name: str
    text: str


class Exported(NamedTuple):
    """What an export gives: files, and what the person has to know or do about them."""

    documents: Sequence[Document]
    notes: Sequence[str] = ()


class Versions(NamedTuple):
    """What the containers have inside. All nodes of a cluster must agree on them."""

    python: str
    ray: str
    shoal: str
    spark: str = "4.0.0"


def installed() -> Versions:
    """The versions that run here."""
    try:
        ray = metadata.version("ray")
    except metadata.PackageNotFoundError:
        raise SpecError(
            "Ray is not installed here, so its version for the cluster is not known.",
            hint="Install it with: pip install 'shoal[ray]'.",
        ) from None
    return without_ray()._replace(ray=ray)


def without_ray() -> Versions:
    """The same for containers that have none; Spark's is the least that will do where there is none here."""
    found = Versions(".".join(python_version_tuple()[:2]), "", metadata.version("shoal"))
    try:
        return found._replace(spark=metadata.version("pyspark"))
    except metadata.PackageNotFoundError:
        return found


class _Dumper(yaml.SafeDumper):
    """Quotes everything that some parser could take for a number or a truth value; no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    if "\n" in value:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|")
    plain = _PLAIN.fullmatch(value) is not None and value.lower() not in _WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def to_yaml(values: Iterable[Any], *, comment: Sequence[str] = ()) -> str:
    """Documents as one YAML text, keys in the order they were made, after lines of comment."""
    head = "".join(f"# {line}".rstrip() + "\n" for line in comment)
    texts = [
        yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True) for value in values
    ]
    return head + "---\n".join(texts)

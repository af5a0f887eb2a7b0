"""Names that Kubernetes, Docker and the domain name system accept, made of names that people give. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from shoal.errors import Problem

LONGEST = 40
"""KubeRay adds to the name of a cluster, and the whole must fit into 63 characters."""

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_PREFIX = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*"
_ALLOWED = "letters, digits, '-', '_' and '.', at most 63, the first and the last a letter or a digit"
RESERVED = ("ray.io/", "shoal.")


def dns_name(name: str, longest: int = LONGEST) -> str:
    """A name of lower-case letters, digits and '-' that starts with a letter.

    Different names stay different: one that had to be changed ends with digits of its digest.
    """
    clean = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")
    clean = clean if clean[:1].isalpha() else f"n{clean}"
    if clean == name and len(clean) <= longest:
        return clean
    digest = hashlib.blake2b(name.encode(), digest_size=3).hexdigest()
    return f"{clean[: longest - 7].rstrip('-')}-{digest}"


def is_label_value(value: str) -> bool:
    """Whether Kubernetes and Ray take it as the value of a label."""
    return value == "" or re.fullmatch(_LABEL, value, re.ASCII) is not None


def label_problems(host: str, labels: Mapping[str, str]) -> list[Problem]:
    """What is wrong with a node's labels, in the eyes of Kubernetes and Ray."""
    found = []
    for name, value in labels.items():
        prefix, _, base = name.rpartition("/")
        known = not prefix or (len(prefix) <= 253 and re.fullmatch(_PREFIX, prefix, re.ASCII))
        if not known or not re.fullmatch(_LABEL, base, re.ASCII):
            found.append(
                Problem(f"{host}: the label {name!r} cannot be one of a container.", f"Use {_ALLOWED}.")
            )
        elif name.startswith(RESERVED):
            found.append(Problem(f"{host}: the label {name!r} is reserved.", "Give it another name."))
        if not is_label_value(value):
            found.append(
                Problem(f"{host}: {value!r} cannot be the value of the label {name!r}.", f"Use {_ALLOWED}.")
            )
    return found

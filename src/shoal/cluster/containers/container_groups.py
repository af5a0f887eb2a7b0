"""The nodes of a cluster file as groups of equal containers: their number, names, folders and cluster file.

Pure.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from typing import Any, NamedTuple

from shoal.errors import Problem, SpecError, several
from shoal.files import is_url
from shoal.spec import Cluster, ClusterNode, Workload

DEFAULT_CPU = 1.0
DEFAULT_MEMORY_BYTES = 4 << 30
"""Of a node whose file does not say: a container has no size of its own that could be measured."""
SMALL_HEAD_CPU = 2.0
"""A head with no more than this leads and does no work, where there are others: what leads all must not be starved."""
LONGEST = 40
"""KubeRay adds to the name of a cluster, and the whole must fit into 63 characters."""

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_PREFIX = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*"
_ALLOWED = "letters, digits, '-', '_' and '.', at most 63, the first and the last a letter or a digit"
RESERVED = ("ray.io/", "shoal.")
USER_ID = 1000
HOME = "/home/shoal"
WORK = f"{HOME}/work"
"""The workload's folder."""
RUNS = f"{HOME}/runs"
"""`SHOAL_HOME`: where runs are kept."""
DRIVER_FILE = "/etc/shoal/cluster.yaml"


class Kind(NamedTuple):
    """What one container has. Nodes that are equal in it are interchangeable."""

    cpu: float
    memory_bytes: int
    gpu: int
    labels: tuple[tuple[str, str], ...]


class Group(NamedTuple):
    """Equal containers."""

    name: str
    kind: Kind
    hosts: tuple[str, ...]
    """What the file calls them; fewer than `most` where the cluster may grow."""
    least: int
    most: int


class Layout(NamedTuple):
    """A cluster as groups."""

    head: Group
    workers: tuple[Group, ...]
    head_works: bool


def layout_of(cluster: Cluster) -> Layout:
    """The groups of a cluster file; raises `SpecError` with all that containers cannot have."""
    nodes = cluster.nodes or (ClusterNode(host="head", head=True),)
    _check(nodes)
    head = cluster.head or nodes[0]
    others = [node for node in nodes if node is not head]
    most, least = len(others), len(others)
    if cluster.scale is not None:  # It counts all nodes, the head among them.
        most, least = cluster.scale.max - 1, max(0, cluster.scale.min - 1)
    workers = _groups(others or [head], least, most)
    kind = kind_of(head)
    works = not workers or kind.gpu > 0 or kind.cpu > SMALL_HEAD_CPU
    return Layout(Group("head", kind, (head.host,), 1, 1), workers, works)


def _groups(nodes: Sequence[ClusterNode], least: int, most: int) -> tuple[Group, ...]:
    """The nodes of the file in their order, over again where there may be more than it names."""
    kinds = [kind_of(node) for node in nodes]
    at_most = Counter(islice(cycle(kinds), most))
    at_least = Counter(islice(cycle(kinds), least))
    names: set[str] = set()
    groups = []
    for kind in at_most:
        hosts = tuple(node.host for node in nodes if kind_of(node) == kind)
        groups.append(Group(_name(kind, names), kind, hosts, at_least[kind], at_most[kind]))
        names.add(groups[-1].name)
    return tuple(groups)


def _name(kind: Kind, taken: set[str]) -> str:
    """Such as cpu4 or cpu8-gpu1; the next one that differs only in memory or labels is cpu4-2."""
    base = f"cpu{kind.cpu:g}" + (f"-gpu{kind.gpu}" if kind.gpu else "")
    base = name = dns_name(base.replace(".", "-"), 20)
    number = 2
    while name in taken:
        name, number = f"{base}-{number}", number + 1
    return name


def kind_of(node: ClusterNode) -> Kind:
    return Kind(
        float(node.cpu if node.cpu is not None else DEFAULT_CPU),
        node.memory_bytes if node.memory_bytes is not None else DEFAULT_MEMORY_BYTES,
        int(node.gpu or 0),
        tuple(sorted(node.labels.items())),
    )


def _check(nodes: Sequence[ClusterNode]) -> None:
    problems = []
    for node in nodes:
        problems += label_problems(node.host, node.labels)
        if node.gpu is not None and node.gpu != int(node.gpu):
            problems.append(
                Problem(
                    f"{node.host}: a container has whole GPUs, found {node.gpu:g}.", "Write a whole number."
                )
            )
    if problems:
        raise several(problems)


def described(cluster: Cluster, address: str = "auto") -> dict[str, Any]:
    """For drivers that are on one of its nodes already. A storage that is a path is the same path there."""
    found: dict[str, Any] = {
        "kind": "cluster",
        "name": cluster.name,
        "provider": "ray",
        "address": address,
    }
    if cluster.storage:
        is_path = not is_url(cluster.storage)
        found["storage"] = (
            os.path.abspath(os.path.join(cluster.folder, cluster.storage)) if is_path else cluster.storage
        )
    if cluster.locations:
        found["locations"] = {
            name: ({"probe": place.probe} if place.probe else {}) | dict(place.known_s)
            for name, place in cluster.locations.items()
        }
    return found


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


def image_of(cluster: Cluster, workload: Workload | None = None) -> str:
    """The image of the containers: the workload's, else the cluster's."""
    found = (workload.image if workload is not None else None) or cluster.image
    if found is None:
        raise SpecError(
            f"No image is given for the containers of {cluster.name}.",
            hint="Make one with shoal export WORKLOAD --to image, and name it with image: in the cluster file.",
        )
    return found

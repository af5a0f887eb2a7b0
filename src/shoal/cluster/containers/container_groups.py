"""The nodes of a cluster file as groups of equal containers: how many of which, and whether the head works. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import cycle, islice
from typing import NamedTuple

from shoal.cluster.containers.legal_names import dns_name, label_problems
from shoal.errors import Problem, several
from shoal.spec import Cluster, ClusterNode

DEFAULT_CPU = 1.0
DEFAULT_MEMORY_BYTES = 4 << 30
"""Of a node whose file does not say: a container has no size of its own that could be measured."""
SMALL_HEAD_CPU = 2.0
"""A head with no more than this leads and does no work, where there are others: what leads all must not be starved."""


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

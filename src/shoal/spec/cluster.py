"""What a cluster file may say: which nodes there are, where they stand and how they are reached."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from shoal.spec.nodes import Node, Problems
from shoal.spec.readers import DURATION, LATENCY, SIZE, Choice, Flag, ListOf, MapOf, Number, Text, Whole
from shoal.spec.sections import INVALID, Found, Reader, Record, Section, field, join, key, section
from shoal.spec.workload import LABELS, Spec

_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_IPV6 = r"\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9._-]+)?\]"
_PORT = r"[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
PATTERN = rf"(?:{_NAME}|{_IPV6})(?::(?:{_PORT}))?"
EXPECTED = "what to measure the round trip to: a host and a port such as gateway.home:22, or only a host"
_HOST = Text("the name or address of a host", r"[^\s-]\S*")
_PYTHON = Text("the path or name of a Python", r"[^\s-]\S*")
_IMAGE = Text("the name of a container image", r"[a-z0-9][a-zA-Z0-9._/:@-]{0,254}")
_NAMESPACE = Text("a Kubernetes namespace such as research", r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_CONTEXT = Text("the name of a context", r"[^\s-]\S*")
_PROBE = Text(EXPECTED, PATTERN)


_ONLY_WITH_PROVIDER = {
    "address": ("ray",),
    "image": ("kubernetes", "swarm"),
    "namespace": ("kubernetes",),
    "context": ("kubernetes", "swarm"),
    "python": ("ssh",),
    "engine": ("local",),
}
"""Keys of the cluster that mean nothing to other providers."""


@section
class ClusterNode(Section):
    """One machine. What is not given is measured."""

    host: str = key(_HOST, "How the node is reached, and what it is called.")
    head: bool = key(Flag(), "Whether this is the head; without one it is the first.", default=False)
    cpu: float | None = key(Number(above=0), "Processor cores to use.", default=None)
    gpu: float | None = key(Number(least=0), "GPUs to use.", default=None)
    memory_bytes: int | None = key(SIZE, "Memory to use, such as 16GiB.", name="memory", default=None)
    labels: Mapping[str, str] = key(LABELS, "Labels such as tier and location.", factory=dict)


@section
class Location(Section):
    """A place to be close to: what to measure the round trip to, or round trips that are known."""

    probe: str | None = None
    known_s: Mapping[str, float] = field(factory=dict)


class LocationReader(Reader):
    """`{probe: "gateway.home:22"}`, or a table of other locations and their round trips."""

    expected = 'a mapping such as {probe: "gateway.home:22"} or {other-location: 20ms}'

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        if not isinstance(node.value, dict) or not node.value:
            return self.wrong(node, path, problems)
        values = {}
        for name, each in node.value.items():
            reader: Reader = _PROBE if name == "probe" else LATENCY
            values[name] = reader.read(each, join(path, name), problems)
        if any(value is INVALID for value in values.values()):
            return INVALID
        return Location(probe=values.pop("probe", None), known_s=values)

    def schema(self) -> dict[str, Any]:
        measured = _PROBE.schema() | {"description": "What to measure the round trip to."}
        known = LATENCY.schema() | {"description": "The known round trip to another location."}
        return {
            "type": "object",
            "properties": {"probe": measured},
            "additionalProperties": known,
            "minProperties": 1,
        }


@section
class Scale(Section):
    """How many nodes there may be."""

    min: int = key(Whole(0), "The fewest nodes to keep.", default=0)
    max: int = key(Whole(1), "The most nodes to have.")
    idle_s: float = key(DURATION, "How long a node may stand idle, such as 60s.", name="idle", default=60.0)

    @classmethod
    def check(cls, found: Found) -> None:
        low, high = found.values.get("min", 0), found.values.get("max")
        if high is not None and low > high:
            found.problem(f"min <= max must hold, found min {low} and max {high}")


@section
class Cluster(Spec):
    """Machines to run on."""

    kind: str = key(Choice("cluster"), "What this file describes.", default="cluster")
    provider: str = key(
        Choice("local", "ssh", "ray", "kubernetes", "swarm"), "How nodes are started and reached."
    )
    nodes: tuple[ClusterNode, ...] = key(
        ListOf(Record(ClusterNode), "a list of nodes such as [{host: node0}]"), "The machines.", default=()
    )
    locations: Mapping[str, Location] = key(
        MapOf(LocationReader(), "a mapping of locations"), "Places to be close to.", factory=dict
    )
    storage: str | None = key(
        Text("a shared path, or s3:// or hdfs://"), "Where what all nodes need is kept.", default=None
    )
    scale: Scale | None = key(Record(Scale), "How many nodes there may be.", default=None)
    address: str | None = key(
        Text("the address of a Ray cluster"),
        "The Ray cluster to connect to, such as auto or ray://head:10001.",
        default=None,
    )
    image: str | None = key(
        _IMAGE, "The container image of the nodes, with Ray and Shoal in it.", default=None
    )
    namespace: str | None = key(
        _NAMESPACE, "The Kubernetes namespace; without it, that of the context.", default=None
    )
    context: str | None = key(
        _CONTEXT, "Which context of kubectl or docker to use; without it, the current one.", default=None
    )

    python: str | None = key(
        _PYTHON, "The Python on the hosts that has Shoal, such as /opt/shoal/bin/python.", default=None
    )
    engine: str | None = key(
        Choice("ray", "embedded"),
        "With provider local: real Ray nodes, or virtual ones; without it, Ray where it is installed.",
        default=None,
    )

    @property
    def head(self) -> ClusterNode | None:
        """The node that leads: the one marked, else the first."""
        return next((node for node in self.nodes if node.head), self.nodes[0] if self.nodes else None)

    @classmethod
    def check(cls, found: Found) -> None:
        provider, nodes = found.values.get("provider"), found.values.get("nodes", ())
        if provider == "ssh" and not nodes and "nodes" not in found.nodes:
            found.problem("missing, provider ssh needs at least one node", "nodes")
        for name, providers in _ONLY_WITH_PROVIDER.items():
            if provider is not None and provider not in providers and found.has(name):
                wanted = " or ".join(providers)
                found.problem(f"only goes with provider {wanted}, found provider {provider}", name)
        _check_nodes(found, nodes)


def _check_nodes(found: Found, nodes: tuple[ClusterNode, ...]) -> None:
    given = found.nodes["nodes"].value if nodes else []
    hosts: set[str] = set()
    heads: list[str] = []
    for i, node in enumerate(nodes):
        place = given[i] if isinstance(given, list) else None
        if node.host in hosts:
            found.problems.add(f"the host {node.host!r} is given twice", node=place, path=f"nodes.{i}.host")
        hosts.add(node.host)
        heads += [node.host] if node.head else []
        if node.head and len(heads) > 1:
            found.problems.add(
                f"expected one head, found {heads[0]!r} too", node=place, path=f"nodes.{i}.head"
            )


class Probe(NamedTuple):
    """A port is connected to; a host without one is sent an echo request."""

    host: str
    port: int | None = None


def parse_probe(text: str) -> Probe:
    """An IPv6 address stands in brackets: `[2001:db8::1]:22`. What cannot be read is a ValueError with a sentence."""
    if not re.fullmatch(PATTERN, text):
        raise ValueError(f"expected {EXPECTED}, found {text!r}")
    if text.endswith("]"):
        return Probe(text[1:-1])
    host, _, port = text.rpartition(":")
    return Probe(host.strip("[]"), int(port)) if host else Probe(text)

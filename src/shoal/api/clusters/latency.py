"""How far the nodes of a cluster are from its locations: measured where that is due, remembered, and put together."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shoal.api.clusters.cluster_machines import provider_for
from shoal.api.clusters.lifecycle import load
from shoal.cluster.base import Provider
from shoal.cluster.book import Book, recall, remember, to_ask
from shoal.cluster.this_machine import Here
from shoal.cluster.virtual import is_virtual, virtual_nodes
from shoal.errors import SpecError
from shoal.model import Distance, Node
from shoal.planner import nearness
from shoal.spec import Cluster


class LatencyRow(NamedTuple):
    """One node and one location. Seconds are None where they are not known."""

    node: str
    location: str
    min_s: float | None
    median_s: float | None
    spread_s: float | None
    samples: int
    age_s: float | None
    """How long ago it was measured."""
    source: str | None
    """`measured`, `known` (the file's table), `label` (the node is there), or None: nothing is known."""
    nearest: bool
    """No other node is nearer to this location."""
    why: str


class _Found(NamedTuple):
    """What asking nodes gave."""

    nodes: Sequence[Node]
    problems: Mapping[str, str]
    """Nodes that could not be asked, and why."""


def latency(file: str, *, refresh: bool = False, here: Here | None = None) -> list[LatencyRow]:
    """Every node with every location. Asks the nodes whose measurements are missing, failed or older than an hour.

    With `refresh`, all nodes. A node that cannot be reached keeps what was measured from it before.
    """
    here = here or Here()
    cluster, file = load(file), os.path.abspath(file)
    if not cluster.locations:
        raise SpecError(
            f"{cluster.name} has no locations, so there is nothing to measure the distance to.",
            hint='Add some to the file, such as locations: {home: {probe: "gateway.home:22"}}.',
        )
    probes = {name: each.probe for name, each in cluster.locations.items() if each.probe is not None}
    book = Book(cluster.name, file)
    found = _ask(cluster, file, book, probes, refresh, here)
    measured = recall(book, probes)
    distances = nearness.distances(found.nodes, cluster.locations, measured)
    nearest = nearness.nearest(distances)
    now_s = here.now()
    return [
        _row(
            each,
            (each.node, each.location) in nearest,
            found.problems.get(each.node, "") if each.location in probes else "",
            now_s,
        )
        for each in distances
    ]


def _row(distance: Distance, nearest: bool, problem: str, now_s: float) -> LatencyRow:
    trip = distance.measured
    is_measured = trip is not None and distance.source == "measured"
    return LatencyRow(
        distance.node,
        distance.location,
        distance.round_trip_s,
        trip.median_s if trip is not None and is_measured else None,
        trip.spread_s if trip is not None and is_measured else None,
        trip.samples if trip is not None else 0,
        max(0.0, now_s - trip.measured_s) if trip is not None else None,
        distance.source,
        nearest,
        problem or distance.why,
    )


def _ask(
    cluster: Cluster, file: str, book: Book, probes: Mapping[str, str], refresh: bool, here: Here
) -> _Found:
    def due(nodes: Sequence[Node]) -> list[str]:
        hosts = [node.host for node in nodes]
        known = {} if refresh else recall(book, probes)
        return to_ask(hosts, probes, known, here.now())

    def learn(answers: Mapping[str, Any]) -> None:
        remember(book, answers, here.now())

    if is_virtual(cluster):
        from shoal.cluster.agent.round_trips import latency as measure

        nodes = virtual_nodes(cluster)
        hosts = due(nodes)
        learn(dict.fromkeys(hosts, measure(probes)) if hosts else {})  # They are all this machine.
        return _Found(nodes, {})
    provider = provider_for(cluster, file)
    if (asked := provider.hosts) is not None:
        nodes = [Node(node.host, 0, 0, 0, dict(node.labels)) for node in asked.nodes()]
        answers, problems = asked.ask_each(due(nodes), {"do": "latency", "probes": probes})
        learn(answers)
        return _Found(nodes, problems)
    return _ask_ray(provider, probes, due, learn)


def _ask_ray(provider: Provider, probes: Mapping[str, str], due: Any, learn: Any) -> _Found:
    """Nodes without an agent of ours: the same measurement, as a task on each."""
    from shoal import namespaces
    from shoal.cluster.agent.round_trips import latency as measure
    from shoal.engine.ray.connection import connect, disconnect

    joined = provider.join(lambda line: None)
    try:
        with namespaces.inside(joined.network):  # Only a thread that is in it can talk to the cluster.
            connect(joined.address, joined.ip)
            try:
                from shoal.engine.ray.connection import on_every_node
                from shoal.engine.ray.nodes import alive

                nodes = [node for _, node in alive().values()]
                if not due(nodes):
                    return _Found(nodes, {})
                answers = on_every_node(measure, {"probes": probes})
            finally:
                disconnect(joined.address)
    finally:
        joined.leave()
    learn({host: each.result for host, each in answers.items() if not each.error})
    problems = {host: each.error for host, each in answers.items() if each.error}
    return _Found([each.node for each in answers.values()], problems)

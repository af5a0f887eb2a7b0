"""A cluster of hosts that each have an agent: what the providers `local` and `ssh` share.

The head is started first; the others join it, side by side. What is known of them is in the cluster's book.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from shoal.cluster import variables
from shoal.cluster.agent import host_facts
from shoal.cluster.agent.requests import NodeFacts, NodeRequest, node_folder
from shoal.cluster.agent_calls import PATIENCE_S, Held, Hosts
from shoal.cluster.base import Door, Joined, NodeStatus, Tell
from shoal.cluster.book import Book
from shoal.cluster.containers.container_groups import described
from shoal.cluster.head_requests import Detached
from shoal.cluster.this_machine import room
from shoal.errors import ClusterError
from shoal.model import Node
from shoal.spec import Cluster, ClusterNode

AT_ONCE = 16
STRANGER = "it is no longer in the file, and ends with the next `shoal cluster up`"
START_S = 10.0
"""What a start is thought to take before one was seen."""


class HostedProvider(ABC):
    """Keeps `Provider`; the way to the head is each one's own."""

    is_here = False
    is_started = True
    driven_from_inside = False

    def __init__(self, cluster: Cluster, file: str, hosts: Hosts) -> None:
        self.cluster = cluster
        self.book = Book(cluster.name, file)
        self._hosts = hosts

    @property
    def hosts(self) -> HostedProvider:
        return self

    @abstractmethod
    def door(self) -> Door:
        """A way to run commands on the head."""

    # Up and down.

    def up(self, tell: Tell, hosts: Sequence[str] | None = None) -> Mapping[str, str]:
        state = self.book.open()
        self._end_strangers(state, tell)
        head = self._head()
        address = self._start_head(head, state, tell)
        wanted = self.wanted() if hosts is None else hosts
        rest = [node for node in self.nodes() if node.host in wanted and node.host != head.host]
        failed = self._each(rest, lambda node: self._start(node, state["id"], address, tell))
        for host, problem in failed.items():
            tell(f"{host}: {problem}")
        return failed

    def _start_head(self, head: ClusterNode, state: Mapping[str, Any], tell: Tell) -> str:
        try:
            facts = self._start(head, state["id"], None, tell)
        except ClusterError as error:
            raise ClusterError(f"The head {head.host} did not come up: {error}", hint=error.hint) from error
        with self.book.change() as changed:
            changed.update(
                address=facts.address, dashboard=facts.dashboard, network=facts.network, head=head.host
            )
        return facts.address

    def _start(self, node: ClusterNode, cluster: str, address: str | None, tell: Tell) -> NodeFacts:
        requested_s = time.time()
        known = self.book.read().get("hosts", {}).get(node.host, {})
        if known.get("ready_s") is None:
            tell(f"{node.host}: starting")
            self.book.note(node.host, requested_s=requested_s, ready_s=None, problem=None)
        try:
            request = self._request(node, cluster, address)
            facts = NodeFacts(**self._ask(node.host, {"do": "start", **request._asdict()}))
        except ClusterError as error:
            self.book.note(node.host, problem=str(error))
            raise
        if known.get("problem"):
            self.book.note(node.host, problem=None)
        if known.get("started_s") != facts.started_s:
            ready_s = time.time()
            times = {"requested_s": requested_s, "ready_s": ready_s, "started_s": facts.started_s}
            self.book.note(node.host, **times, ip=facts.ip, problem=None)
            self._learn(node.host, facts.has)
            tell(f"{node.host}: up after {ready_s - requested_s:.1f} s")
        return facts

    def down(self, tell: Tell, hosts: Sequence[str] | None = None) -> None:
        state = self.book.read()
        if "id" not in state:
            tell(f"{self.cluster.name} is not up.")
            return
        known = list(state.get("hosts", {}))
        going = known if hosts is None else [host for host in known if host in hosts]
        head = str(state.get("head"))
        rest = [host for host in going if host != head]
        failed = self._each_host(rest, lambda host: self._stop(host, state["id"], tell))
        if hosts is None and head in going:
            failed |= self._each_host([head], lambda host: self._stop(host, state["id"], tell))
        names = {node.host for node in self.nodes()}
        for host in failed.keys() - names:
            tell(
                f"{host} is no longer in the file, and cannot be reached: what runs there is left. {failed[host]}"
            )
        lines = "; ".join(f"{host}: {failed[host]}" for host in failed.keys() & names)
        if lines:
            raise ClusterError(
                f"Not everything could be ended. {lines}",
                hint="Run `shoal cluster down` again; a host that is gone for good, take out of the file first.",
            )
        if hosts is None:
            self.book.close()

    def _stop(self, host: str, cluster: str, tell: Tell) -> None:
        self._ask(host, {"do": "stop", "cluster": cluster, "host": host})
        with self.book.change() as state:
            state.get("hosts", {}).pop(host, None)
        tell(f"{host}: down")

    def _end_strangers(self, state: Mapping[str, Any], tell: Tell) -> None:
        """Nodes that were started for this file and are no longer in it."""
        names = {node.host for node in self.nodes()}
        gone = [host for host in state["hosts"] if host not in names]
        for host, problem in self._each_host(gone, lambda host: self._stop(host, state["id"], tell)).items():
            tell(f"{host} is no longer in the file, and could not be ended: {problem}")

    # Looking.

    def nodes(self) -> Sequence[ClusterNode]:
        """The nodes of the file, the head first."""
        head = self._head()
        return [head, *(node for node in self.cluster.nodes if node.host != head.host)]

    def wanted(self) -> list[str]:
        """The nodes that should be there without anybody asking for more: all, or as few as `scale` says."""
        names = [node.host for node in self.nodes()]
        return names if self.cluster.scale is None else names[: max(1, self.cluster.scale.min)]

    def status(self) -> list[NodeStatus]:
        state = self.book.read()
        known = state.get("hosts", {})
        names = {node.host for node in self.nodes()}
        strangers = [ClusterNode(host=host) for host in known if host not in names]
        asked = [*(node for node in self.nodes() if node.host in known), *strangers]
        looks: dict[str, Any] = {}

        def look(node: ClusterNode) -> None:
            request = {"do": "look", "cluster": state["id"], "host": node.host}
            looks[node.host] = self._ask(node.host, request)

        problems = self._each(asked, look)
        let_go = (looks.get(self._head().host) or {}).get("let_go", {})
        found = [
            self._status_of(node, state, looks.get(node.host), problems.get(node.host, ""), let_go)
            for node in (*self.nodes(), *strangers)
        ]
        return [
            each if each.host in names else each._replace(why=f"{STRANGER}. {each.why}".rstrip(". "))
            for each in found
        ]

    def _status_of(
        self, node: ClusterNode, state: Mapping[str, Any], found: Any, problem: str, let_go: Mapping[str, Any]
    ) -> NodeStatus:
        known = state.get("hosts", {}).get(node.host)
        measured_s = state.get("inventory", {}).get(node.host, {}).get("measured_s")
        status = NodeStatus(
            node.host, "down", self._node(node, state), node.host == self._head().host, measured_s=measured_s
        )
        if known is None:
            return status
        status = status._replace(requested_s=known.get("requested_s"), ready_s=known.get("ready_s"))
        if found is not None and found["address"] == state.get("address", found["address"]):
            return status._replace(state="up")
        problem = problem or known.get("problem") or ""
        if known.get("ready_s") is None and not problem:
            if time.time() - (known.get("requested_s") or 0) < PATIENCE_S:
                return status._replace(state="starting")
            problem = "whoever started it did not wait for it"
        gone = let_go.get(node.host)
        if gone is not None and gone["at"] > (known.get("ready_s") or 0):
            return status._replace(why=f"let go: {gone['why']}")
        return status._replace(state="lost", why=problem or "its Ray is not running any more")

    def inventory(self) -> list[Node]:
        unknown = [node for node in self.nodes() if not self._is_known(node)]
        failed = self._each(
            unknown, lambda node: self._learn(node.host, self._ask(node.host, {"do": "probe"}))
        )
        head = self._head().host
        if head in failed:
            raise ClusterError(f"The head {head} cannot be started: {failed[head]}")
        state = self.book.read()
        return [self._node(node, state) for node in self.nodes() if node.host not in failed]

    def refresh(self) -> Mapping[str, str]:
        """Measure again what every host has, up or not. What went wrong, by host."""
        return self._each(
            self.nodes(), lambda node: self._learn(node.host, self._ask(node.host, {"do": "probe"}))
        )

    def ask_each(
        self, hosts: Sequence[str], request: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """The same question to the agents of these hosts, up or not: the answers, and what went wrong, by host."""
        answers: dict[str, Any] = {}

        def one(host: str) -> None:
            answers[host] = self._ask(host, request)

        return answers, self._each_host(hosts, one)

    def known_nodes(self) -> list[Node]:
        """The nodes of the file as far as they are known; asks nobody."""
        state = self.book.read()
        return [self._node(node, state) for node in self.nodes()]

    def start_s(self) -> float:
        """How long a node takes to come up, as far as is known from the others."""
        times = [
            entry["ready_s"] - entry["requested_s"]
            for entry in self.book.read().get("hosts", {}).values()
            if entry.get("ready_s") is not None
        ]
        return sum(times) / len(times) if times else START_S

    def _is_known(self, node: ClusterNode) -> bool:
        given = node.cpu is not None and node.memory_bytes is not None
        return given or node.host in self.book.read().get("inventory", {})

    def _learn(self, host: str, facts: Mapping[str, Any]) -> None:
        with self.book.change() as state:
            state.setdefault("inventory", {})[host] = {**facts, "measured_s": time.time()}

    def _node(self, node: ClusterNode, state: Mapping[str, Any]) -> Node:
        has = state.get("inventory", {}).get(node.host, {})
        return Node(
            node.host,
            float(node.cpu or room(has.get("cpu", 1.0))),
            int(node.memory_bytes or has.get("memory_bytes", 0)),
            int(node.gpu if node.gpu is not None else len(has.get("devices", ()))),
            dict(node.labels),
            speed=float(has.get("speed", 1.0)),
        )

    # Joining.

    def join(self, tell: Tell) -> Joined:
        state = self.book.read()
        if "address" not in state:
            raise ClusterError(f"{self.cluster.name} is not up.", hint=f"shoal cluster up {self.book.file}")
        unset = variables.set_for_ray(self.book.token_path)
        try:
            found = self._join(state, tell)
        except BaseException:
            unset()
            raise

        def leave() -> None:
            found.leave()
            unset()

        return found._replace(leave=leave)

    def _join(self, state: Mapping[str, Any], tell: Tell) -> Joined:
        here = self._node_here(state["id"])
        if here is not None:
            return Joined(state["address"], here.ip, state.get("network"), lambda: None)
        tell(f"joining {self.cluster.name} as a driver")
        name = f"driver-{os.getpid()}-{os.urandom(2).hex()}"
        request = NodeRequest(state["id"], name, self.book.token(), state["address"], driver=True, speed=1.0)
        held = Held(request._asdict())
        return Joined(state["address"], held.facts["ip"], None, held.leave)

    def _node_here(self, cluster: str) -> NodeFacts | None:
        """A node of the cluster that runs on this very machine."""
        for node in self.nodes():
            facts = host_facts.node_facts(node_folder(cluster, node.host))
            if facts is not None:
                return facts
        return None

    def detached(self) -> Detached:
        state = self.book.read()
        return Detached(
            os.path.basename(self.book.folder),
            self.door(),
            described(self.cluster, state.get("address", "")),
            {"cluster": state.get("id"), "host": self._head().host},
            is_here=self.is_here,
        )

    # The rest.

    def _head(self) -> ClusterNode:
        assert self.cluster.head is not None
        return self.cluster.head

    def _request(self, node: ClusterNode, cluster: str, address: str | None) -> NodeRequest:
        return NodeRequest(
            cluster,
            node.host,
            self.book.token(),
            address,
            cpu=node.cpu,
            memory_bytes=node.memory_bytes,
            gpu=node.gpu,
            labels=dict(node.labels),
            alone=self.is_here,
            versions=_versions(),
        )

    def _ask(self, host: str, request: Mapping[str, Any]) -> Any:
        return self._hosts.ask(host, request)

    def _each(self, nodes: Sequence[ClusterNode], do: Any) -> dict[str, str]:
        by_host = {node.host: node for node in nodes}
        return self._each_host(list(by_host), lambda host: do(by_host[host]))

    def _each_host(self, hosts: Sequence[str], do: Any) -> dict[str, str]:
        """Side by side; what went wrong, by host."""
        failed: dict[str, str] = {}

        def one(host: str) -> None:
            try:
                do(host)
            except ClusterError as error:
                failed[host] = f"{error} {error.hint or ''}".strip()

        if hosts:
            with ThreadPoolExecutor(min(AT_ONCE, len(hosts))) as pool:
                list(pool.map(one, hosts))
        return failed


def _versions() -> dict[str, str]:
    """What the nodes need to have in common with this machine."""
    facts = host_facts.host_facts(known_speed=1.0)
    if facts.ray is None:
        raise ClusterError("Clusters need Ray, which is not installed here.", hint="pip install 'shoal[ray]'")
    return {"python": facts.python, "shoal": facts.shoal, "ray": facts.ray}

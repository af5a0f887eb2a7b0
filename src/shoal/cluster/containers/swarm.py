"""The provider `swarm`: a stack of Docker Swarm with one service a node, through the docker command line.

The hosts have to be in the swarm already. Swarm restarts what dies; this module deploys, looks and removes.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from shoal.cluster.base import Door, Joined, NodeStatus, Tell
from shoal.cluster.containers import inside
from shoal.cluster.containers.container_groups import image_of, kind_of, layout_of
from shoal.cluster.containers.docker import Docker, SwarmDoor
from shoal.cluster.containers.documents import to_yaml
from shoal.cluster.containers.pods import node_of
from shoal.cluster.containers.stack import ray_labels, secret_name, service_name, stack, stack_name
from shoal.cluster.head_requests import Detached
from shoal.errors import ClusterError
from shoal.model import Node
from shoal.spec import Cluster, ClusterNode

READY_TIMEOUT_S = 600.0
GONE_TIMEOUT_S = 180.0
LOOK_EVERY_S = 0.5
STARTING = ("new", "allocated", "pending", "assigned", "accepted", "preparing", "ready", "starting")
"""States of a task on its way. With a health check it is `running` only when that has passed."""


class SwarmProvider:
    """Implements `Provider`."""

    is_here = False
    is_started = True
    driven_from_inside = True
    hosts = None

    def __init__(
        self,
        cluster: Cluster,
        file: str,
        *,
        docker: Docker | None = None,
        ready_timeout_s: float = READY_TIMEOUT_S,
        gone_timeout_s: float = GONE_TIMEOUT_S,
    ) -> None:
        self._cluster = cluster
        self._file = file
        self._name = stack_name(cluster)
        self._docker = docker or Docker(cluster.context)
        self._nodes = cluster.nodes or (ClusterNode(host="head", head=True),)
        self._head = cluster.head or self._nodes[0]
        self._layout = layout_of(cluster)
        self._ready_timeout_s = ready_timeout_s
        self._gone_timeout_s = gone_timeout_s

    def up(self, tell: Tell, hosts: Sequence[str] | None = None) -> Mapping[str, str]:
        document = stack(self._cluster, image_of(self._cluster))
        running = {status.host for status in self.status() if status.state != "down"}
        for node in self._nodes:
            wanted = hosts is None or node is self._head or node.host in hosts or node.host in running
            document["services"][service_name(node.host)]["deploy"]["replicas"] = int(wanted)
        self._ensure_secret(tell)
        self._docker.do(
            "deploy the stack", "stack", "deploy", "-c", "-", self._name, stdin=to_yaml([document]).encode()
        )
        tell(f"{self._name}: deployed the stack.")
        self._wait_for_head(tell)
        return {status.host: status.why for status in self.status() if status.state == "lost" or status.why}

    def down(self, tell: Tell, hosts: Sequence[str] | None = None) -> None:
        services = self._services()
        if hosts is not None:
            leaving = [f"{each['Spec']['Name']}=0" for host, each in services.items() if host in hosts]
            if leaving:
                self._docker.do("stop services", "service", "scale", "--detach", *leaving)
            return
        if services:
            self._docker.do("remove the stack", "stack", "rm", self._name)
            tell(
                f"{self._name}: removed the stack. Runs on the head are kept in its volume {self._name}_runs."
            )
        self._wait_until_gone()
        if self._docker.call("secret", "inspect", secret_name(self._cluster)).code == 0:
            self._docker.do("remove the secret", "secret", "rm", secret_name(self._cluster))

    def status(self) -> list[NodeStatus]:
        services = self._services()
        tasks = self._tasks([each["ID"] for each in services.values()])
        return [self._status_of(node, services.get(node.host), tasks) for node in self._nodes]

    def inventory(self) -> list[Node]:
        return [status.node for status in self.status() if status.state != "lost"]

    def join(self, tell: Tell) -> Joined:
        return inside.join(self._name, "a swarm", "swarm")

    def detached(self) -> Detached:
        return inside.detached(self._name, self._cluster, self.door())

    def door(self) -> Door:
        service = self._services().get(self._head.host)
        task = _current(self._tasks([service["ID"]]) if service else [], service)
        if task is None or task["Status"]["State"] != "running":
            raise ClusterError(
                f"{self._name}: its head is not up.", hint=f"Use shoal cluster up {self._file}."
            )
        here = self._docker.do("say which node it is", "info", "--format", "{{.Swarm.NodeID}}")
        if task["NodeID"] != here:
            raise ClusterError(
                f"{self._name}: its head runs on {self._head.host}, and docker's engine here is another host's.",
                hint="Name a docker context of that host with context:.",
            )
        return SwarmDoor(self._docker, task["Status"]["ContainerStatus"]["ContainerID"])

    def _services(self) -> dict[str, dict[str, Any]]:
        """The stack's services, by the host of the file that each is for."""
        found = self._docker.do(
            "list services",
            *("service", "ls", "-q", "--filter", f"label=com.docker.stack.namespace={self._name}"),
        ).split()
        objects = self._docker.objects("look at services", "service", "inspect", *found) if found else []
        by_host = {each["Spec"].get("Labels", {}).get("shoal.host"): each for each in objects}
        return {host: each for host, each in by_host.items() if host is not None}

    def _tasks(self, services: Sequence[str]) -> list[dict[str, Any]]:
        if not services:
            return []
        found = self._docker.do("list tasks", "service", "ps", "-q", "--no-trunc", *services).split()
        return self._docker.objects("look at tasks", "inspect", "--type", "task", *found) if found else []

    def _status_of(
        self, node: ClusterNode, service: dict[str, Any] | None, tasks: Sequence[dict[str, Any]]
    ) -> NodeStatus:
        head = node is self._head
        kind = kind_of(node)
        value = node_of(node.host, kind, kind.cpu if not head or self._layout.head_works else 0.0)
        value = value._replace(labels=ray_labels(node))
        if service is None or service["Spec"]["Mode"]["Replicated"]["Replicas"] == 0:
            return NodeStatus(node.host, "down", value, head)
        task = _current(tasks, service)
        if task is None:
            return NodeStatus(node.host, "starting", value, head)
        state, why = task["Status"]["State"], task["Status"].get("Err", "")
        if state == "running":
            ready = _seconds(task["Status"]["Timestamp"])
            return NodeStatus(node.host, "up", value, head, _seconds(task["CreatedAt"]), ready)
        found = "starting" if state in STARTING else "lost"
        why = why or _last_error(tasks, service)
        return NodeStatus(node.host, found, value, head, _seconds(task["CreatedAt"]), why=why)

    def _ensure_secret(self, tell: Tell) -> None:
        """The token is made once, here, handed over as input, and is nowhere but in the secret."""
        name = secret_name(self._cluster)
        if self._docker.call("secret", "inspect", name).code == 0:
            return
        label = f"shoal.cluster={self._name}"
        token = secrets.token_hex(32).encode()
        self._docker.do("make the secret", "secret", "create", "--label", label, name, "-", stdin=token)
        tell(f"{self._name}: made a token, in the secret {name}.")

    def _wait_for_head(self, tell: Tell) -> None:
        deadline, said = time.monotonic() + self._ready_timeout_s, ""
        while True:
            head = next(status for status in self.status() if status.head)
            if head.state == "up":
                tell(f"{self._name}: the head is up.")
                return
            if head.why and head.why != said:
                tell(f"{self._name}: waiting for the head: {head.why}.")
                said = head.why
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{self._name}: its head does not come up: {head.why or said or head.state}.",
                    hint=f"Look with: docker service logs {self._name}_{service_name(self._head.host)}",
                )
            time.sleep(LOOK_EVERY_S)

    def _wait_until_gone(self) -> None:
        """A stack is removed in the background; its network goes when the last container has."""
        label = f"label=com.docker.stack.namespace={self._name}"
        deadline = time.monotonic() + self._gone_timeout_s
        while (
            self._services()
            or self._docker.do("list containers", "ps", "-aq", "--filter", label)
            or self._docker.do("list networks", "network", "ls", "-q", "--filter", label)
        ):
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{self._name}: some of the stack does not go.",
                    hint="Look with: docker stack ps. Try again.",
                )
            time.sleep(LOOK_EVERY_S)


def _of_service(tasks: Sequence[dict[str, Any]], service: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Newest first."""
    ours = [task for task in tasks if service is not None and task["ServiceID"] == service["ID"]]
    return sorted(ours, key=lambda task: str(task["CreatedAt"]), reverse=True)


def _current(tasks: Sequence[dict[str, Any]], service: dict[str, Any] | None) -> dict[str, Any] | None:
    """The task that should run; earlier ones that failed are kept beside it for a while."""
    ours = _of_service(tasks, service)
    wanted = [task for task in ours if task.get("DesiredState") in ("running", "ready")]
    return next(iter(wanted or ours), None)


def _last_error(tasks: Sequence[dict[str, Any]], service: dict[str, Any]) -> str:
    return next(
        (str(task["Status"]["Err"]) for task in _of_service(tasks, service) if task["Status"].get("Err")), ""
    )


def _seconds(text: str) -> float:
    """Docker writes nanoseconds, which Python does not read."""
    base, _, rest = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{base}+00:00").timestamp() + float(f"0.{rest[:6] or '0'}")

"""The pods of a cluster as its nodes: which is which, what state each is in, and why. Pure: values of the API in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.cluster.base import NodeStatus
from shoal.cluster.containers.container_groups import Group, Kind, Layout
from shoal.model import Node

CLUSTER = "ray.io/cluster"
GROUP = "ray.io/group"
TYPE = "ray.io/node-type"
"""Labels that KubeRay puts on pods."""
HOPELESS = ("InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError")
"""Reasons that no waiting mends."""


def statuses(layout: Layout, pods: Sequence[Any], replicas: Mapping[str, int] | None) -> list[NodeStatus]:
    """Every node of the file, then pods that are more than those.

    `replicas` is how many of each group are asked for, None where the cluster is not there.
    """
    found = []
    for group in (layout.head, *layout.workers):
        is_head = group is layout.head
        ours = [pod for pod in pods if _is_of(pod, group, is_head)]
        asked = 0 if replicas is None else 1 if is_head else replicas.get(group.name, 0)
        cpu = group.kind.cpu if not is_head or layout.head_works else 0.0
        found += _of_group(group, ours, asked, cpu, is_head)
    return found


def _of_group(group: Group, pods: Sequence[Any], asked: int, cpu: float, head: bool) -> list[NodeStatus]:
    pods = sorted(pods, key=_age)
    found = []
    hosts = group.hosts[: group.most]
    for index in range(max(len(hosts), len(pods))):
        pod = pods[index] if index < len(pods) else None
        host = hosts[index] if index < len(hosts) else pod.metadata.name  # type: ignore[union-attr]
        node = node_of(host, group.kind, cpu)
        if pod is not None:
            found.append(_of_pod(node, pod, head))
        elif index < asked:
            found.append(NodeStatus(host, "starting", node, head, why="KubeRay has not made its pod yet"))
        else:
            found.append(NodeStatus(host, "down", node, head))
    return found


def names_of(layout: Layout, pods: Sequence[Any], hosts: Sequence[str]) -> dict[str, list[str]]:
    """The pods that are these hosts now, by group; the head is none of them."""
    found = {}
    for group in layout.workers:
        ours = sorted((pod for pod in pods if _is_of(pod, group, False)), key=_age)
        named = zip(group.hosts[: group.most], ours, strict=False)
        of_file = {pod.metadata.name for host, pod in named if host in hosts}
        found[group.name] = [
            pod.metadata.name for pod in ours if pod.metadata.name in of_file or pod.metadata.name in hosts
        ]
    return found


def _age(pod: Any) -> tuple[Any, str]:
    return pod.metadata.creation_timestamp, pod.metadata.name


def node_of(host: str, kind: Kind, cpu: float) -> Node:
    return Node(host, cpu, kind.memory_bytes, kind.gpu, dict(kind.labels))


def _of_pod(node: Node, pod: Any, head: bool) -> NodeStatus:
    why = trouble(pod)
    state = "up" if is_ready(pod) else "lost" if pod.status.phase in ("Failed", "Succeeded") else "starting"
    ready = next((each for each in pod.status.conditions or [] if each.type == "Ready"), None)
    ready_s = (
        ready.last_transition_time.timestamp()
        if state == "up" and ready and ready.last_transition_time
        else None
    )
    asked_s = pod.metadata.creation_timestamp.timestamp()
    return NodeStatus(node.host, state, node, head, asked_s, ready_s, why or f"pod {pod.metadata.name}")


def _is_of(pod: Any, group: Group, head: bool) -> bool:
    labels = pod.metadata.labels or {}
    if head or labels.get(TYPE) == "head":
        return bool(head and labels.get(TYPE) == "head")
    return bool(labels.get(GROUP) == group.name)


def is_ready(pod: Any) -> bool:
    if pod.metadata.deletion_timestamp is not None:
        return False
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions or [])


def trouble(pod: Any) -> str:
    """Why a pod is not ready, in the words of Kubernetes; empty where nothing is said."""
    if is_ready(pod):
        return ""
    for container in pod.status.container_statuses or []:
        state = container.state
        if (
            state
            and state.waiting
            and state.waiting.reason not in (None, "ContainerCreating", "PodInitializing")
        ):
            return _words(state.waiting.reason, state.waiting.message)
        if state and state.terminated:
            return _words(state.terminated.reason, state.terminated.message)
    for condition in pod.status.conditions or []:
        if condition.type == "PodScheduled" and condition.status == "False":
            return _words(condition.reason, condition.message)
    return _words(pod.status.reason, pod.status.message)


def is_hopeless(pod: Any) -> bool:
    return trouble(pod).split(":")[0] in HOPELESS


def _words(reason: str | None, message: str | None) -> str:
    return ": ".join(part for part in (reason, message) if part)

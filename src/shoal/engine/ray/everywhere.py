"""One function on every node of the Ray cluster that this process is connected to. For looking, not for work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shoal.engine.ray.nodes import alive
from shoal.model import Node

PATIENCE_S = 30.0
"""A node has to start a process for it, and Python in that."""


class Answer(NamedTuple):
    """What one node gave, or why it gave nothing."""

    node: Node
    result: Any = None
    error: str = ""


def on_every_node(
    function: Callable[..., Any], arguments: Mapping[str, Any], timeout_s: float = PATIENCE_S
) -> dict[str, Answer]:
    """By host. The function is imported there, so it has to be one of Shoal's."""
    task = ray.remote(num_cpus=0, max_retries=0)(function)
    nodes = alive()
    asked = {
        host: task.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=identity, soft=False)
        ).remote(**arguments)
        for host, (identity, _) in nodes.items()
    }
    if not asked:
        return {}
    ready, late = ray.wait(list(asked.values()), num_returns=len(asked), timeout=timeout_s)
    for each in late:
        ray.cancel(each, force=True)
    return {host: _answer(nodes[host][1], each, each in ready, timeout_s) for host, each in asked.items()}


def _answer(node: Node, reference: Any, is_ready: bool, timeout_s: float) -> Answer:
    if not is_ready:
        return Answer(node, error=f"{node.host} did not answer within {timeout_s:g} s")
    try:
        return Answer(node, ray.get(reference))
    except RayError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return Answer(node, error=f"{node.host}: {lines[-1] if lines else type(error).__name__}")

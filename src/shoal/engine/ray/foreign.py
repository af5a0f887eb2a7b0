"""What is left for Shoal on nodes that other Ray programs use, too: pure bookkeeping between Ray's view and ours."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from shoal.engine.ray.nodes import Free
from shoal.model import Node, Place

LASTING_S = 1.0
"""Use that lasts this long is another program's; before, it may be our own that came or went just now."""


def left_for_us(nodes: Sequence[Node], held: Iterable[Place], free: Mapping[str, Free]) -> list[Node]:
    """The nodes as large as what Shoal holds there and what Ray has free there, together."""
    held = list(held)
    return [_shrunk(node, [place for place in held if place.host == node.host], free) for node in nodes]


def _shrunk(node: Node, held: Sequence[Place], free: Mapping[str, Free]) -> Node:
    cpu, gpu, memory_bytes = free.get(node.host, Free(0.0, 0.0, 0))
    cpu += sum(place.need.cpu for place in held)
    memory_bytes += sum(place.need.memory_bytes for place in held)
    names = node.devices or tuple(str(index) for index in range(node.gpu))
    ours = {name for place in held for name in place.devices}
    others = [name for name in names if name not in ours][: int(gpu)]
    devices = tuple(name for name in names if name in ours or name in others)
    return node._replace(
        cpu=min(node.cpu, cpu),
        memory_bytes=min(node.memory_bytes, memory_bytes),
        gpu=len(devices),
        devices=devices,
    )


class Lasting:
    """The nodes less what other programs have used for a while: what shares are made of.

    Ray shows what changed a moment later than the table does; nobody should be asked to give back for that.
    """

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, float]]] = {}

    def left(self, nodes: Sequence[Node], seen: Sequence[Node], now: float) -> list[Node]:
        """`seen` is `left_for_us` of the same nodes now."""
        return [
            node._replace(cpu=node.cpu - self._used(node.host, node.cpu - now_left.cpu, now))
            for node, now_left in zip(nodes, seen, strict=True)
        ]

    def _used(self, host: str, used: float, now: float) -> float:
        """The least that others used there within the window; none while it was not watched that long."""
        samples = self._seen.setdefault(host, deque())
        samples.append((now, used))
        while len(samples) > 1 and samples[1][0] <= now - LASTING_S:
            samples.popleft()
        if samples[0][0] > now - LASTING_S:
            return 0.0
        return min(amount for _, amount in samples)

"""Ray's own autoscaler (KubeRay, `ray up`): whether a cluster has one, and what it is asked for.

Who asks is the arbiter, for all drivers: a request takes the place of the one before it, whoever made that.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

import ray

from shoal.engine.claims import SLACK, Claim
from shoal.engine.ray.groups import resources
from shoal.model import Need, Node

_log = logging.getLogger(__name__)

GROUP_LABEL = "ray.io/node-group"
STATUS_S = 10
AGAIN_S = 60.0
"""After so long, what the autoscaler refused is asked for again: it may be allowed more nodes by now."""


def is_there() -> bool:
    """Whether something may add nodes to the cluster that this process is connected to.

    Elsewhere Ray has a monitor that only watches. It ignores requests, so an answer that is wrong does no harm.
    """
    from ray.autoscaler._private.util import format_readonly_node_type
    from ray.autoscaler.v2.utils import is_autoscaler_v2

    try:
        nodes = [entry for entry in ray.nodes() if entry["Alive"]]
        if is_autoscaler_v2(fetch_from_server=True):
            return any((entry.get("Labels") or {}).get(GROUP_LABEL) for entry in nodes)
        return bool(_node_types() - {format_readonly_node_type(entry["NodeID"]) for entry in nodes})
    except Exception as error:  # noqa: BLE001 - parts of Ray that may change; no run fails over it
        _log.debug("It is not known whether the cluster has an autoscaler: %s", error)
        return False


def _node_types() -> set[str]:
    """As the first version of the autoscaler reports them; a monitor that only watches names them by their nodes."""
    from ray._private.ray_constants import DEBUG_AUTOSCALING_STATUS
    from ray.experimental.internal_kv import _internal_kv_get

    status = _internal_kv_get(DEBUG_AUTOSCALING_STATUS)
    report: Mapping[str, Any] = (json.loads(status).get("autoscaler_report") or {}) if status else {}
    return set(report.get("active_nodes") or ())


class Requests:
    """What the autoscaler is asked for, one request at a time. For the one process that asks."""

    def __init__(self) -> None:
        self._choice = Choice()
        self._last: Sequence[Need] = ()
        self._since = 0
        """The version of the cluster's state that the last request is part of; 0 once it is known what came of it."""
        self._refused_at = 0.0

    @property
    def stands(self) -> bool:
        """Whether something was asked for, and not withdrawn."""
        return bool(self._last)

    def make(self, held: Sequence[Need], wished: Sequence[Need]) -> None:
        """Have the cluster be as large as both together need it; where nothing is wished for, withdraw what was asked
        for: what is held stays anyway."""
        self._hear()
        if not wished:
            held, self._choice = (), Choice()
        needs = self._choice.of(held, wished)
        if needs != self._last:
            self._since = _request(needs)
            self._last = needs

    def _hear(self) -> None:
        now = time.monotonic()
        if self._since and (possible := _is_possible(self._since)) is not None:
            self._since = 0
            self._choice.heard(possible=possible)
            self._refused_at = self._refused_at if possible else now
        if now - self._refused_at > AGAIN_S:
            self._choice.forget_refusals()


class Choice:
    """Which of the places that are wished for are asked for.

    An autoscaler that cannot have room for all of a request adds no node at all, and says no more than that. So
    everything is asked for at first; after a refusal ever more, of one sort of need at a time, as long as that works.
    """

    def __init__(self) -> None:
        self._sizes: dict[str, Size] | None = None
        """Of each sort of need, those that were tried last at the end; None while nothing was refused."""
        self._tried: tuple[str, int] | None = None

    def of(self, held: Sequence[Need], wished: Sequence[Need]) -> list[Need]:
        """What is held, and as much as may be of what is wished for."""
        self._tried = None
        if self._sizes is None:
            return [*held, *wished]
        least = Counter(map(_sort, held))
        sorts: dict[str, list[Need]] = {}
        for need in wished:
            sorts.setdefault(_sort(need), []).append(need)
        chosen = list(held)
        for sort in sorted(sorts, key=[*self._sizes, *sorts].index):
            size = self._sizes.setdefault(sort, Size())
            known, more = size.of(least[sort], least[sort] + len(sorts[sort]))
            if more > known and self._tried is None:
                self._tried, known = (sort, more), more
            chosen += sorts[sort][: known - least[sort]]
        return chosen

    def heard(self, *, possible: bool) -> None:
        """What the autoscaler said to what was chosen last."""
        if self._sizes is not None and self._tried is not None:
            sort, count = self._tried
            size = self._sizes.pop(sort)
            size.heard(count, possible=possible)
            self._sizes[sort] = size
        elif not possible:
            self._sizes = {}  # Even what was possible before is not: it is found out again.

    def forget_refusals(self) -> None:
        for size in (self._sizes or {}).values():
            size.refused = inf


class Size:
    """How many places of one sort can be had."""

    def __init__(self) -> None:
        self.refused = inf
        self._possible = 0
        self._step = 1

    def of(self, least: int, most: int) -> tuple[int, int]:
        """How many are known to be possible, and how many to try next."""
        known = min(most, max(least, self._possible))
        return known, max(known, int(min(most, known + self._step, self.refused - 1)))

    def heard(self, count: int, *, possible: bool) -> None:
        if possible:
            self._possible = max(self._possible, count)
            self._step *= 2
        else:
            self.refused = count
            self._possible = min(self._possible, count - 1)
            self._step = 1


def _sort(need: Need) -> str:
    """Equal for needs that any node which has room for one has room for the other."""
    return repr(need._replace(node=None))


def _request(needs: Sequence[Need]) -> int:
    """The version of the cluster's state that has the request; 0 where none is refused as a whole."""
    from ray.autoscaler.sdk import request_resources
    from ray.autoscaler.v2.utils import is_autoscaler_v2

    second = is_autoscaler_v2()  # The first version adds as many nodes as it may, and knows no labels.
    needs = [need for need in needs if second or not need.labels]
    request_resources(
        bundles=[resources(need) for need in needs],
        bundle_label_selectors=[dict(need.labels) for need in needs],
    )
    return int(_status().cluster_resource_state.cluster_resource_state_version) if second else 0


def _is_possible(since: int) -> bool | None:
    """Whether the autoscaler can do what it is asked for; None where it has not looked at that version yet."""
    state = _status().autoscaling_state
    seen = state.last_seen_cluster_resource_state_version >= since
    return not state.infeasible_cluster_resource_constraints if seen else None


def _status() -> Any:
    from ray.core.generated.autoscaler_pb2 import GetClusterStatusReply
    from ray.experimental.internal_kv import internal_kv_get_gcs_client

    status = internal_kv_get_gcs_client().get_cluster_status(timeout_s=STATUS_S)
    return GetClusterStatusReply.FromString(status)


def held_by(claims: Iterable[Claim]) -> list[Need]:
    return [hold.place.need for claim in claims for hold in claim.holds.values()]


def used_by_others(nodes: Sequence[Node], left: Sequence[Node]) -> list[Need]:
    """The CPUs of each node that are missing in what is left of it for Shoal."""
    used = (node.cpu - rest.cpu for node, rest in zip(nodes, left, strict=True))
    return [Need(cpu=cpu) for cpu in used if cpu > SLACK]

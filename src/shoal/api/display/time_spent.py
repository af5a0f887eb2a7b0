"""Where the time of a run's workers went, as rows of a table: the same at the end of a run and in its report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shoal.units import format_seconds

if TYPE_CHECKING:
    from shoal.model.record import WorkerUse

COLUMNS = ("worker", "node", "start-up", "work", "idle", "items")
WORKERS_SHOWN = 16


def rows(uses: Sequence[WorkerUse]) -> list[dict[str, Any]]:
    """One for each worker, those beyond the first few together, and all of them together."""
    found = [_row(str(n), use.node, [use]) for n, use in enumerate(uses[:WORKERS_SHOWN], 1)]
    if len(uses) > WORKERS_SHOWN:
        rest = uses[WORKERS_SHOWN:]
        found.append(_row(f"{len(rest)} more", "", rest))
    if len(uses) > 1:
        found.append(_row("all", "", uses))
    return found


def _row(name: str, node: str, uses: Sequence[WorkerUse]) -> dict[str, Any]:
    return {
        "worker": name,
        "node": node,
        "start-up": format_seconds(sum(use.startup_s for use in uses)),
        "work": format_seconds(sum(use.work_s for use in uses)),
        "idle": format_seconds(sum(use.idle_s for use in uses)),
        "items": sum(use.items for use in uses),
    }

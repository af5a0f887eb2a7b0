"""Looking at the output of an inference: its rows, its summary in words. Reads through the run's own record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from shoal.errors import NotFound

if TYPE_CHECKING:
    from shoal.spec import Infer
    from shoal.store import RunInfo, RunStore


def rows(store: RunStore, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """Rows of the output, in the order of its parts, as they are read. `NotFound` when another run has the folder."""
    from shoal.work.infer import outputs

    spec = _spec(store)
    _ensure_there(store, spec)
    return outputs.rows(spec.output, spec.folder, limit)


def rows_of(store: RunStore, seq: int) -> Iterator[dict[str, Any]]:
    """Rows of the output that came of one item."""
    from shoal.work.infer import outputs

    spec = _spec(store)
    return outputs.rows_of_part(spec.output, spec.folder, seq)


def table(store: RunStore) -> Any:
    """All rows of the output as a pyarrow table."""
    from shoal.work.infer import outputs

    spec = _spec(store)
    _ensure_there(store, spec)
    return outputs.table(spec.output, spec.folder)


def gone(store: RunStore) -> str | None:
    """A sentence, where parts of items that are done are not there; None where all are."""
    from shoal.work.infer import outputs

    spec = _spec(store)
    there = outputs.parts_there(spec.output, spec.folder)
    done = {record.item.seq for record in store.items(("done",))}
    if done <= there:
        return None
    return (
        f"{len(done - there):,} of {len(done):,} parts that {store.run} wrote to {spec.output.path} are gone."
        " Run the workload again to make them anew."
    )


def inputs_before(store: RunStore, info: RunInfo) -> int:
    """Inputs that earlier sessions of an inference were done with; 0 for other kinds."""
    return int(store.sum_of("rows", "errors")) if info.kind == "infer" and info.turn > 1 else 0


def in_words(store: RunStore) -> list[str]:
    """What the run came to, as lines; none before its first session has ended."""
    document = store.kept().document
    if not document:
        return []
    from shoal.work.infer.summary import in_words as worded

    return worded(document)


def decisions(store: RunStore) -> list[dict[str, Any]]:
    """What was found out while it ran: name, choice, why."""
    found: list[dict[str, Any]] = (store.kept().document or {}).get("decisions", [])
    return found


def so_far(store: RunStore, seconds: float) -> dict[str, Any]:
    """What the items that are done come to, as the document of a run whose session has not summed it up."""
    from shoal.work.infer.items import FACTS
    from shoal.work.infer.outputs import total
    from shoal.work.infer.summary import summary

    done = (record.metrics.get(FACTS) for record in store.items(("done",)))
    return summary(total(facts for facts in done if facts), listing_s=0.0, seconds=seconds)


def _ensure_there(store: RunStore, spec: Infer) -> None:
    """An output is one run's at a time: rows of another must not be taken for those of this one."""
    from shoal.work.infer import outputs

    owner = outputs.owner(spec.output, spec.folder)
    if owner is not None and owner != store.run:
        raise NotFound(
            f"What {store.run} wrote to {spec.output.path} is gone: run {owner} has that folder now.",
            hint="Give runs that are to be kept outputs of their own: --set output.path=FOLDER.",
        )


def _spec(store: RunStore) -> Infer:
    from shoal import spec as specs
    from shoal.api.running import workload_folder

    document = store.document
    found = specs.loads(
        store.spec_text,
        folder=workload_folder(document["path"]),
        sets=document["sets"],
        kind="infer",
    )
    assert isinstance(found, specs.Infer)
    return found

"""What others know of batch inference: its output, what it came to, and how that is said."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from shoal import words
from shoal.errors import NotFound
from shoal.work.kind import Excerpt, Extra, Kind, workload_of

if TYPE_CHECKING:
    from shoal.spec import Infer, Workload
    from shoal.store import RunInfo, RunStore
    from shoal.work.infer.job import InferJob
    from shoal.work.pages import Page

ROWS_SHOWN = 10
PREPARING = ("reading_s", "decoding_s", "preprocessing_s")
"""What happens to an input before the model gets it."""
CHOICES = ("batch", "workers", "threads", "runtime")
"""Decisions of a run that are worth a column."""
COMPARED = ("rows_per_second", "rows_per_second_without_listing", "prepared_per_second")
"""What people compare runs by first."""


class InferKind(Kind):
    """Its results are the rows of its output. What is in an item is cut as it goes, so people count inputs."""

    noun = "inference"
    unit = "input"
    counted_by = ("rows", "errors")
    has_output = True
    code = "model"
    extras: Mapping[str, Extra] = {
        "numpy": Extra("numpy", "images and model files", "infer"),
        "PIL": Extra("Pillow", "images", "infer"),
        "simplejpeg": Extra("simplejpeg", "decoding JPEGs faster", "infer"),
        "onnxruntime": Extra("onnxruntime", "ONNX models", "onnx", "pip install onnxruntime-gpu"),
        "onnx": Extra("onnx", "running TorchScript models by ONNX Runtime", "onnx"),
        "openvino": Extra("openvino", "a runtime that is often faster on processors", "openvino"),
        "torch": Extra(
            "torch",
            "TorchScript models, and your own PyTorch trials",
            "torch",
            "install a build of torch with CUDA",
        ),
    }

    def samples(self) -> Mapping[str, str]:
        from shoal.work.infer.samples import SAMPLES

        return SAMPLES

    def prepare(self, spec: Workload, *, limit: int | None = None) -> InferJob:
        from shoal.work.infer.job import prepare

        return prepare(_as_infer(spec), limit=limit)

    def written_to(self, spec: Workload, folder: str) -> list[str]:
        output = _as_infer(spec).output
        kept = {"preserve_order": output.preserve_order, "json": output.json}
        return [f"output={json.dumps({'path': folder, **{key: each for key, each in kept.items() if each}})}"]

    def uses_gpu(self, module: str) -> bool:
        from shoal.work.models.libraries import knows_cuda

        return knows_cuda(module)

    # Results.

    def rows(self, store: RunStore, limit: int | None = None) -> Iterator[dict[str, Any]]:
        """In the order of the parts. `NotFound` when another run has the folder."""
        from shoal.work import outputs

        spec = _spec_of_owner(store)
        return outputs.rows(spec.output, spec.folder, limit)

    def rows_of(self, store: RunStore, item: str) -> Iterator[dict[str, Any]]:
        from shoal.work import outputs

        spec = _as_infer(workload_of(store))
        return outputs.rows_of_part(spec.output, spec.folder, store.item(item).item.seq)

    def table(self, store: RunStore) -> Any:
        from shoal.work import outputs

        spec = _spec_of_owner(store)
        return outputs.table(spec.output, spec.folder)

    def missing(self, store: RunStore) -> str | None:
        from shoal.work import outputs

        spec = _as_infer(workload_of(store))
        there = outputs.parts_there(spec.output, spec.folder)
        done = {record.item.seq for record in store.items(("done",))}
        if done <= there:
            return None
        return (
            f"{len(done - there):,} of {len(done):,} parts that {store.run} wrote to {spec.output.path} are gone."
            " Run the workload again to make them anew."
        )

    # What is said of a run.

    def in_words(self, document: Mapping[str, Any]) -> list[str]:
        from shoal.work.infer.summary import in_words

        return in_words(document)

    def measures(self, document: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        phases = {f"{phase}_s": spent for phase, spent in document.get("phase_seconds", {}).items()}
        numbers = {**super().measures(document, seconds), **phases}
        preparing = sum(numbers.get(name, 0.0) for name in PREPARING)
        if preparing > 0 and "rows" in numbers:
            numbers["prepared_per_second"] = numbers["rows"] / preparing
        first = {name: numbers[name] for name in COMPARED if name in numbers}
        made = {decision["name"]: decision["choice"] for decision in document.get("decisions") or ()}
        chosen = {name: str(made[name]) for name in CHOICES if made.get(name) is not None}
        return {**first, **numbers, **chosen}

    def counts(self, items: Mapping[str, int], document: Mapping[str, Any]) -> str:
        """`60 rows, 2 errors`, and the items that are not simply done."""
        done = [words.some(document.get("rows", 0), "row")]
        if document.get("errors"):
            done.append(words.some(document["errors"], "error"))
        others = words.counts({state: count for state, count in items.items() if state != "done"})
        return ", ".join([*done, f"items {others}"] if others else done)

    def excerpt(self, store: RunStore) -> Excerpt:
        document = self.document(store) or {}
        after = [*(self.in_words(document) if document else ()), *_chosen(store.run, document)]
        try:
            rows = list(self.rows(store, ROWS_SHOWN + 1))
        except NotFound as error:
            return Excerpt((), (), before=[str(error)], after=after)
        gone = self.missing(store)
        return Excerpt(
            list(rows[0]) if rows else (),
            rows[:ROWS_SHOWN],
            f"the first {ROWS_SHOWN} rows" if len(rows) > ROWS_SHOWN else "",
            before=[f"Note: {gone}"] if gone is not None else (),
            after=after,
        )

    def page(self, store: RunStore, info: RunInfo) -> Page:
        from shoal.work.infer.page import page

        kept = self.document(store)
        is_final = kept is not None and info.state.has_ended
        document = kept if kept is not None and is_final else _so_far(store, info.seconds)
        return page(info, document, (kept or {}).get("curves") or {}, is_final=is_final)


KIND = InferKind("infer")


def _chosen(run: str, document: Mapping[str, Any]) -> list[str]:
    """What the tuner settled on, in one line for each kind of node; nothing where nothing was done."""
    kinds: dict[str, dict[str, Any]] = {}
    for decision in document.get("decisions", ()):
        name, _, kind = decision["name"].partition(" on ")
        kinds.setdefault(kind, {})[name] = decision["choice"]
    if not document.get("rows"):
        return []
    return [
        f"Chosen{f' on {kind}' if kind else ''}: {_point(chosen)}; why: shoal show {run} --why"
        for kind, chosen in kinds.items()
    ]


def _point(chosen: Mapping[str, Any]) -> str:
    """`onnxruntime, batch 16, 2 workers with 1 thread, 96.4 MiB each`."""
    parts = [str(chosen.get("runtime", "")), f"batch {chosen.get('batch')}"]
    workers, threads = chosen.get("workers"), chosen.get("threads")
    parts.append(f"{words.some(workers, 'worker')} with {words.some(threads, 'thread')}")
    if chosen.get("memory") is not None:
        parts.append(f"{words.choice('memory', chosen['memory'])} each")
    return ", ".join(part for part in parts if part)


def _so_far(store: RunStore, seconds: float) -> dict[str, Any]:
    """What the items that are done come to, as the document of a run whose session has not summed it up."""
    from shoal.work.infer.item_fields import FACTS
    from shoal.work.infer.summary import summary
    from shoal.work.outputs import total

    done = (record.metrics.get(FACTS) for record in store.items(("done",)))
    return summary(total(facts for facts in done if facts), listing_s=0.0, seconds=seconds)


def _as_infer(spec: Workload) -> Infer:
    from shoal.spec import Infer

    assert isinstance(spec, Infer)
    return spec


def _spec_of_owner(store: RunStore) -> Infer:
    """An output is one run's at a time: rows of another must not be taken for those of this one."""
    from shoal.work import outputs

    spec = _as_infer(workload_of(store))
    owner = outputs.owner(spec.output, spec.folder)
    if owner is not None and owner != store.run:
        raise NotFound(
            f"What {store.run} wrote to {spec.output.path} is gone: run {owner} has that folder now.",
            hint="Give runs that are to be kept outputs of their own: --set output.path=FOLDER.",
        )
    return spec

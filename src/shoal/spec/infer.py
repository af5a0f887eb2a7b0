"""What an inference file may ask for: inputs, a model, what happens before and after it, an output, and how to tune."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from shoal import units
from shoal.errors import nearest
from shoal.spec.nodes import Node, Problems
from shoal.spec.readers import (
    SIZE,
    Choice,
    Flag,
    ListOf,
    Number,
    OneOf,
    Plain,
    Quantity,
    Several,
    Text,
    Whole,
)
from shoal.spec.sections import Found, Record, Section, key, section
from shoal.spec.shared_sections import FUNCTION, ImagePreparation, Input, ModelFile, Output
from shoal.spec.workload import Limits, Workload, check_gpus

SHARE = Quantity("a share such as 1%", units.share, units.SHARE_PATTERN, zero=True, most=1)
RUNTIMES = ("auto", "as-given", "frozen", "onnxruntime", "openvino")
LABELS_NAMED = 10
"""Of more labels than these a problem names only the nearest."""
FAILED_ITEMS = 3
"""So many end a run that was not told how many may fail: a wrong model fails everywhere."""


@section
class Preprocess(Section):
    """What happens to an input before the model gets it."""

    image: ImagePreparation | None = key(Record(ImagePreparation), "The input is an image.", default=None)
    function: str | None = key(FUNCTION, "A function that is called with each input.", default=None)

    exactly_one: ClassVar = ("image", "function")


@section
class Postprocess(Section):
    """What becomes of what the model gives: columns of the output."""

    softmax: bool = key(Flag(), "Turn scores into probabilities.", default=False)
    labels: tuple[str, ...] = key(
        ListOf(Plain(), "a list of labels such as [off, on]", least=1), "The name of each class.", default=()
    )
    top: int | None = key(
        Whole(1), "How many classes to name; with more than 1, labels and probs.", default=None
    )
    prob_of: tuple[str, ...] = key(
        Several(Plain(), "a label, or a list of them"),
        "Adds the probability of this class as prob_LABEL.",
        default=(),
    )
    function: str | None = key(
        FUNCTION, "A function that is called with what the model gives for a batch.", default=None
    )

    @classmethod
    def check(cls, found: Found) -> None:
        others = [name for name in ("softmax", "labels", "top", "prob_of") if found.has(name)]
        if found.has("function") and others:
            hint = "Keep one or the other: the function gives its columns itself."
            found.problem(f"cannot be given together with {' and '.join(others)}", "function", hint=hint)
        for label, count in Counter(found.values.get("labels", ())).items():
            if count > 1:
                times = "twice" if count == 2 else f"{count} times"
                hint = "Name each class of the model once, in its order."
                found.problem(f"{label!r} stands there {times}", "labels", hint=hint)
        if not found.has("labels") or "labels" in found.values:
            _check_prob_of(found, found.values.get("labels", ()))


def _check_prob_of(found: Found, labels: tuple[str, ...]) -> None:
    for label in found.values.get("prob_of", ()):
        if not labels:
            hint = "Add labels: [...], the name of each class of the model, in its order."
            found.problem(f"without labels, no class is called {label!r}", "prob_of", hint=hint)
        elif label not in labels:
            hint = nearest(label, labels)
            if len(labels) > LABELS_NAMED and not hint.startswith("Did"):
                hint = f"There are {len(labels)} labels, from {labels[0]!r} to {labels[-1]!r}."
            found.problem(f"{label!r} is none of the labels", "prob_of", hint=hint)


class OutputReader(OneOf):
    """A path alone, or the section."""

    def __init__(self) -> None:
        super().__init__("a folder or a URL, or {path: ..., preserve_order: true}", Text(), Record(Output))

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        value = super().read(node, path, problems)
        return Output(path=value) if isinstance(value, str) else value


@section
class Tune(Section):
    """What is not to be tuned: each of these that is given stays as it is."""

    batch: int | None = key(Whole(1, 1_000_000), "Inputs that the model gets at once.", default=None)
    workers: int | None = key(Whole(1), "Workers on each node.", default=None)
    threads: int | None = key(Whole(1), "Threads of each worker.", default=None)
    item: int | None = key(Whole(1), "Inputs in each item, and so rows in each part.", default=None)
    runtime: str = key(Choice(*RUNTIMES), "What runs the model.", default="auto")


class TuneReader(OneOf):
    """`auto`, or the section."""

    def __init__(self) -> None:
        super().__init__(
            "auto, or a mapping such as {batch: 8, workers: 2, threads: 1}", Choice("auto"), Record(Tune)
        )

    def read(self, node: Node, path: str, problems: Problems) -> Any:
        value = super().read(node, path, problems)
        return Tune() if value == "auto" else value


@section
class InferResources(Section):
    """What one worker holds. Without it, each worker has a core, and a share of a GPU where there is one."""

    cpu: float | None = key(Number(above=0), "Processor cores.", default=None)
    gpu: float | None = key(Number(least=0), "GPUs; a fraction below 1 is a share of one.", default=None)
    memory_bytes: int | None = key(SIZE, "Memory, such as 4GiB.", name="memory", default=None)

    @classmethod
    def check(cls, found: Found) -> None:
        check_gpus(found)


@section
class InferLimits(Limits):
    """When to stop trying."""

    errors: float = key(
        SHARE, "The share of inputs that may be unreadable before the run counts as failed.", default=0.0
    )
    retries: int = key(
        Whole(0), "How often an item whose worker died, or that timed out, is tried again.", default=8
    )
    stop_after: int | None = key(
        Whole(1),
        "Stop the run early after this many failed items; without it, 3, or one more than failures allows.",
        default=FAILED_ITEMS,
    )

    @classmethod
    def check(cls, found: Found) -> None:
        """What may fail does not end the run."""
        if not found.has("stop_after"):
            found.values["stop_after"] = max(FAILED_ITEMS, found.values.get("failures", 0) + 1)


@section
class Infer(Workload):
    """Batch inference: one row of output for each input, once."""

    kind: str = key(Choice("infer"), "What this file describes.", default="infer")
    input: Input = key(Record(Input), "What is to be predicted on.")
    model: ModelFile = key(Record(ModelFile), "The model.")
    preprocess: Preprocess | None = key(Record(Preprocess), "What happens before the model.", default=None)
    postprocess: Postprocess = key(
        Record(Postprocess), "What becomes of what the model gives.", factory=Postprocess
    )
    output: Output = key(OutputReader(), "Where the predictions go.")
    tune: Tune = key(TuneReader(), "auto, or what is to stay as it is.", factory=Tune)
    runtime: str | None = key(Choice(*RUNTIMES), "Short for tune: {runtime: ...}.", default=None)
    resources: InferResources = key(  # type: ignore[assignment]
        Record(InferResources), "What each worker holds.", factory=InferResources
    )
    limits: InferLimits = key(Record(InferLimits), "When to stop trying.", factory=InferLimits)

    @classmethod
    def check(cls, found: Found) -> None:
        _move_runtime(found)
        _check_ways(found)


def _move_runtime(found: Found) -> None:
    """`runtime:` is short for a key of `tune:`, which may be a word."""
    runtime = found.values.pop("runtime", None)
    if runtime is None:
        return
    tune = found.values.get("tune", Tune())
    if tune.runtime not in ("auto", runtime):
        message = f"given twice, here as {runtime} and as tune.runtime: {tune.runtime}"
        found.problem(message, "runtime", hint="Leave out one of them.")
    found.values["tune"] = tune.replaced(runtime=runtime)


def _check_ways(found: Found) -> None:
    """Combinations that cannot work."""
    model: ModelFile | None = found.values.get("model")
    source: Input | None = found.values.get("input")
    if model is not None:
        _check_runtime(found, model)
        if model.device == "cuda" and found.values.get("resources", InferResources()).gpu == 0:
            hint = "Leave out gpu, or set model.device to cpu."
            found.problem("gpu is 0, and model.device is cuda", "resources", hint=hint)
    if source is not None:
        _check_preprocess(found, source, is_function=model is None or model.kind == "function")


def _check_runtime(found: Found, model: ModelFile) -> None:
    runtime = found.values.get("tune", Tune()).runtime
    where = "runtime" if found.has("runtime") else "tune"
    if model.kind == "function" and runtime not in ("auto", "as-given"):
        hint = "Leave out runtime."
        found.problem(
            f"a model that is a function can only be run as-given, found {runtime}", where, hint=hint
        )
    if model.kind == "onnx" and runtime == "frozen":
        hint = "Leave out runtime, or choose from: as-given, onnxruntime, openvino."
        found.problem("frozen is a way to run TorchScript, and the model is ONNX", where, hint=hint)


def _check_preprocess(found: Found, source: Input, *, is_function: bool) -> None:
    preprocess: Preprocess | None = found.values.get("preprocess")
    if preprocess is None:
        if not found.has("preprocess") and not is_function and source.kind in _MISSING:
            message = f"missing: the model needs arrays, not {source.kind}"
            found.problem(message, "preprocess", hint=_MISSING[source.kind])
    elif preprocess.image is not None and source.kind == "text":
        hint = "Use preprocess: {function: mine:prepare}, or input: {images: ...}."
        found.problem("a line of text is no image", "preprocess", hint=hint)
    elif preprocess.image is not None and source.kind != "images" and len(source.column) != 1:
        message = "preprocess.image needs the one column that holds the images"
        found.problem(message, "input", hint="Add column: NAME.")


_MISSING = {
    "images": "Add preprocess: {image: {size: 224}}, with the size that the model takes.",
    "text": "Add preprocess: {function: mine:prepare}.",
}

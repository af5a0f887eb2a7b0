"""Sections of files that several kinds have: inputs, models, image preparation, outputs."""

from __future__ import annotations

from typing import ClassVar

from shoal.spec.readers import NORMALIZATIONS, Choice, Flag, Normalization, Number, Several, Text, Whole
from shoal.spec.sections import Found, Section, key, section

FUNCTION = Text(
    "a function or class such as mine:Predictor",
    r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*",
)
PATH = Text("a path, a pattern or a URL")


@section
class Input(Section):
    """What is to be predicted on. Exactly one of `images`, `parquet`, `jsonl` and `text` is set."""

    images: str | None = key(PATH, "Image files: a folder, a pattern, s3:// or hdfs://.", default=None)
    parquet: str | None = key(PATH, "Parquet files: a row is an input.", default=None)
    jsonl: str | None = key(PATH, "Files with a JSON object on each line: a line is an input.", default=None)
    text: str | None = key(PATH, "Text files: a line is an input.", default=None)
    endpoint: str | None = key(Text("an address"), "The address of the S3 server.", default=None)
    column: tuple[str, ...] = key(
        Several(Text("the name of a column"), "the name of a column, or a list of them"),
        "What of a row goes to the model; without it, all but the key.",
        default=(),
    )
    key: tuple[str, ...] = key(
        Several(Text("the name of a column"), "the name of a column, or a list of them"),
        "Columns that are in the output as they are; without it, path and row.",
        default=(),
    )

    exactly_one: ClassVar = ("images", "parquet", "jsonl", "text")

    @property
    def kind(self) -> str:
        return next(name for name in self.exactly_one if getattr(self, name) is not None)

    @property
    def target(self) -> str:
        """The path, pattern or URL."""
        return str(getattr(self, self.kind))

    @classmethod
    def check(cls, found: Found) -> None:
        for name in ("column", "key"):
            for kind in ("images", "text"):
                if found.has(name) and found.has(kind):
                    found.problem(f"only goes with parquet and jsonl: {kind} has no columns", name)


@section
class ModelFile(Section):
    """The model. Exactly one of `onnx`, `torchscript` and `function` is set."""

    onnx: str | None = key(Text("the path of a file"), "An ONNX file.", default=None)
    torchscript: str | None = key(Text("the path of a file"), "A TorchScript file.", default=None)
    function: str | None = key(
        FUNCTION, "A class as module:name: made once, then called with batches.", default=None
    )
    device: str = key(
        Choice("auto", "cpu", "cuda"), "Where it runs; auto is a GPU if the worker has one.", default="auto"
    )
    precision: str = key(Choice("float32", "float16", "bfloat16"), "What it computes in.", default="float32")

    exactly_one: ClassVar = ("onnx", "torchscript", "function")

    @property
    def kind(self) -> str:
        return next(name for name in self.exactly_one if getattr(self, name) is not None)


@section
class ImagePreparation(Section):
    """From an image to what a model takes: float32, channels first, from 0 to 1, then normalised."""

    size: tuple[int, ...] = key(
        Several(Whole(1, 65_535), "a number of pixels, or [height, width]"),
        "What the model takes: N for N x N, or [height, width].",
    )
    mode: str = key(Choice("RGB", "L"), "Three channels, or one (grey).", default="RGB")
    resize: str = key(
        Choice("stretch", "shorter", "affine", "none"),
        "stretch to the size; shorter: keep the shape and crop the middle; affine: as grid_sample; none.",
        default="stretch",
    )
    resize_to: int | None = key(
        Whole(1, 65_535), "With shorter: the shorter side before the crop, such as 256.", default=None
    )
    filter: str = key(
        Choice("nearest", "bilinear", "bicubic", "lanczos", "box", "hamming"),
        "How Pillow resizes.",
        default="bilinear",
    )
    scale: float = key(Number(above=0), "What pixel values are divided by.", default=255)
    normalize: tuple[tuple[float, ...], tuple[float, ...]] = key(
        Normalization(), "Mean and deviation to take away.", default=NORMALIZATIONS["none"]
    )
    decode: str = key(
        Choice("exact", "scaled"),
        "scaled reads large JPEGs at a half, a quarter or an eighth: faster, not the same pixels.",
        default="exact",
    )
    most_pixels: int = key(Whole(1), "Larger images are errors, not decoded.", default=89_478_485)

    @property
    def height(self) -> int:
        return self.size[0]

    @property
    def width(self) -> int:
        return self.size[-1]

    @property
    def channels(self) -> int:
        return 3 if self.mode == "RGB" else 1

    @classmethod
    def check(cls, found: Found) -> None:
        numbers = len(found.values.get("size", ()))
        if numbers > 2:
            found.problem(f"expected one number, or a height and a width, found {numbers} numbers", "size")
        way = found.values.get("resize", None if found.has("resize") else "stretch")
        if found.has("resize_to") and way not in (None, "shorter"):
            hint = "Add resize: shorter, or leave out resize_to."
            found.problem(f"only goes with resize: shorter, found {way}", "resize_to", hint=hint)
        _check_channels(found)


def _check_channels(found: Found) -> None:
    mode = found.values.get("mode", "RGB")
    channels = 3 if mode == "RGB" else 1
    wrong = [len(part) for part in found.values.get("normalize", ()) if len(part) not in (1, channels)]
    if wrong:
        hint = f"Give one number each, or {'mode: RGB' if channels == 1 else 'one for each channel'}."
        found.problem(f"has {wrong[0]} channels, and mode: {mode} has {channels}", "normalize", hint=hint)


@section
class Output(Section):
    """Where the predictions go: Parquet parts in a folder."""

    path: str = key(Text("a folder or a URL"), "A folder, s3:// or hdfs://.")
    endpoint: str | None = key(Text("an address"), "The address of the S3 server.", default=None)
    preserve_order: bool = key(
        Flag(), "Parts and rows in the order of the inputs (files by their names).", default=False
    )
    json: tuple[str, ...] = key(
        Several(Text("the name of a column"), "the name of a column, or a list of them"),
        "Columns of the model that are kept as JSON text, such as dicts that differ from row to row.",
        default=(),
    )

"""Small images, small models, and inferences with them: what the tests that break inferences share."""

from __future__ import annotations

import io
import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

LABELS = ("dark", "light")
SIZE = 16
"""Pixels on each side of what the models here take."""
KINDS = 200
"""How many different images a large folder has; the others are links to them."""
BROKEN_EVERY = 400
"""In a large folder, every so-manieth file is none that can be read."""


def picture(seed: int, size: int = 24, form: str = "JPEG", mode: str = "RGB") -> bytes:
    """The bytes of an image that differs from those of other seeds."""
    from PIL import Image

    chance = random.Random(seed)
    image = Image.new("RGB", (size, size), tuple(chance.randrange(256) for _ in range(3)))
    for _ in range(8):
        image.putpixel((chance.randrange(size), chance.randrange(size)), (chance.randrange(256),) * 3)
    buffer = io.BytesIO()
    image.convert(mode).save(buffer, form)
    return buffer.getvalue()


def name_of(number: int) -> str:
    return f"{number // 1000:03d}/{number:06d}.jpg"


def is_broken(number: int) -> bool:
    return number % BROKEN_EVERY == BROKEN_EVERY - 1


def fill(folder: Path, count: int) -> list[str]:
    """So many images in folders of a thousand, most of them links to a few; which of them cannot be read.

    Only the driver's work grows with their number: each is listed, handed out and read like any other.
    """
    kinds = folder.parent / f"{folder.name}-kinds"
    kinds.mkdir(parents=True)
    sources = [kinds / str(number) for number in range(KINDS)]
    for number, source in enumerate(sources):
        source.write_bytes(picture(number))
    broken = kinds / "broken"
    broken.write_bytes(sources[0].read_bytes()[:200])
    for number in range(count):
        path = folder / name_of(number)
        if number % 1000 == 0:
            path.parent.mkdir(parents=True)
        os.link(broken if is_broken(number) else sources[number % KINDS], path)
    return [name_of(number) for number in range(count) if is_broken(number)]


def write_model(path: Path, *, size: int = SIZE, work: int = 0, nan_below: float | None = None) -> None:
    """An ONNX model with two classes: what is bright on average is light.

    `work` adds that many channels of convolution, which cost time and change nothing. Below a mean of `nan_below` it
    gives NaN.
    """
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def constant(name: str, values: Any) -> Any:
        return numpy_helper.from_array(np.asarray(values, np.float32), name)

    nodes, constants, data = [], [], "input"
    if work:
        chance = np.random.default_rng(0)
        constants += [
            constant("wide", chance.normal(size=(work, 3, 3, 3)) * 1e-12),
            constant("deep", chance.normal(size=(work, work, 3, 3)) * 1e-12),
            constant("narrow", np.zeros((3, work, 1, 1))),
        ]
        nodes += [
            helper.make_node("Conv", ["input", "wide"], ["w"], pads=[1, 1, 1, 1]),
            helper.make_node("Conv", ["w", "deep"], ["d"], pads=[1, 1, 1, 1]),
            helper.make_node("Conv", ["d", "narrow"], ["n"]),
            helper.make_node("Add", ["input", "n"], ["a"]),
        ]
        data = "a"
    constants += [constant("weight", [[-4, 4], [-5, 5], [-6, 6]]), constant("bias", [7, -7])]
    nodes += [
        helper.make_node("GlobalAveragePool", [data], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Gemm", ["flat", "weight", "bias"], ["score"]),
    ]
    if nan_below is not None:
        constants += [constant("least", [nan_below]), constant("nan", [float("nan")])]
        nodes += [
            helper.make_node("ReduceMean", ["flat"], ["whole"], axes=[1], keepdims=1),
            helper.make_node("Less", ["whole", "least"], ["low"]),
            helper.make_node("Where", ["low", "nan", "score"], ["output"]),
        ]
    else:
        nodes += [helper.make_node("Identity", ["score"], ["output"])]
    given = helper.make_tensor_value_info("input", TensorProto.FLOAT, ["n", 3, size, size])
    gives = helper.make_tensor_value_info("output", TensorProto.FLOAT, ["n", 2])
    graph = helper.make_graph(nodes, "bright", [given], [gives], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())


def write_slow_class(path: Path) -> None:
    """A module with a `Model` that takes 10 ms for each input, however busy the machine is, and says what is light."""
    path.write_text(
        "import time\n"
        "class Model:\n"
        "    def __call__(self, batch):\n"
        "        time.sleep(0.01 * len(batch))\n"
        "        bright = batch.mean((1, 2, 3)) > 0.5\n"
        "        return {'label': ['light' if each else 'dark' for each in bright]}\n"
    )


def inference(place: Any, *, name: str = "i", **changed: Any) -> str:
    """A workload file of this name that classifies `in/` with `model.onnx`; a key that is None is left out."""
    document: dict[str, Any] = {
        "kind": "infer",
        "name": name,
        "input": {"images": "in/"},
        "model": {"onnx": "model.onnx"},
        "preprocess": {"image": {"size": SIZE}},
        "postprocess": {"softmax": True, "labels": list(LABELS)},
        "output": "out/",
        "tune": {"runtime": "as-given"},
        **changed,
    }
    document = {key: value for key, value in document.items() if value is not None}
    (place.folder / f"{name}.yaml").write_text(json.dumps(document))  # JSON is YAML.
    return f"{name}.yaml"


class Output(NamedTuple):
    """What a folder of parts holds."""

    rows: dict[str, dict[str, Any]]
    """By path."""
    errors: dict[str, str]
    """Reasons by path."""
    parts: int


def output(path: str | Path, endpoint: str | None = None) -> Output:
    """Read the parts; fails where a path is there twice, or both as a row and as an error."""
    from pyarrow import parquet

    from shoal.files import open_storage

    storage = open_storage(str(path), endpoint=endpoint)
    rows: dict[str, dict[str, Any]] = {}
    errors: dict[str, str] = {}
    parts = 0
    for entry in storage.list():
        with storage.open(entry.key) as opened, parquet.ParquetFile(opened) as file:
            table = file.read().to_pylist()
        if entry.key == "errors.parquet":
            errors = {row["path"]: row["reason"] for row in table}
            assert len(errors) == len(table), "an error is there twice"
            continue
        assert entry.key.startswith("part-"), entry.key
        parts += 1
        for row in table:
            assert row["path"] not in rows, f"{row['path']} is there twice"
            rows[row["path"]] = row
    assert not rows.keys() & errors.keys()
    return Output(rows, errors, parts)


def assert_same_predictions(found: Output, expected: Output) -> None:
    """The same inputs with the same labels; probabilities to the precision that batches of other sizes leave."""
    assert found.rows.keys() == expected.rows.keys()
    for path, row in found.rows.items():
        other = expected.rows[path]
        assert row["label"] == other["label"], path
        assert abs(row["prob"] - other["prob"]) < 1e-5, (path, row, other)


def done(place: Any) -> int:
    """How many items are recorded as done; none while there is no run."""
    return int(place.counts().get("done", 0)) if place.runs() else 0


def parents(pids: Sequence[int]) -> dict[int, int]:
    """The parent of each process that is still there."""
    found = {}
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        found[pid] = int(status.rpartition(")")[2].split()[1])
    return found


def workers(place: Any, driver: int) -> list[int]:
    """The processes that predict for this driver: children of what it forks them from."""
    above = parents(place.alive())
    return sorted(pid for pid, parent in above.items() if above.get(parent) == driver)

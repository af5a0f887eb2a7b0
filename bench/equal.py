"""What this checkout computes against what another one does: the same trials, metrics, keys, labels and probabilities.

python bench/equal.py OTHER [--pictures 300]

OTHER is the folder of another checkout, such as `git worktree add ../before COMMIT`; both are run by the interpreter
that runs this, on the same generated files. When something started, how long it took and on which node are left out;
all else has to be equal. With `tune: auto` probabilities may be apart by 1e-5. Exit code 1 where something differs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from math import inf, isfinite
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from ground import QUICK, Ground
from infer_data import picture
from workbench import HERE, PYTHON, Workbench

PROGRAM = """\
import os, sys, shoal

assert shoal.__file__.startswith(os.environ["PYTHONPATH"]), "another checkout runs this"

def train(lr, layers):
    for step in range(1, 6):
        shoal.report(accuracy=1 - abs(lr - 0.01) ** 0.5 - 0.3 / step - 0.01 * layers, step=step)
    return {"size": lr * layers}

def area(batch):
    return [{"area": row["width"] * row["height"], "tall": row["height"] > 2} for row in batch]

if __name__ == "__main__":
    lr, epochs = float(sys.argv[1]), int(sys.argv[2])
    for epoch in range(1, epochs + 1):
        print(f"epoch {epoch} loss {1 / (1 + lr * epoch * 10):.6f}")
    sys.exit("it broke" if (lr, epochs) == (0.01, 4) else 0)
"""
COMMAND = """run: {command: "python program.py {lr} {epochs}"}\nmetrics: {loss: 'loss ([0-9.]+)'}"""
SEARCH = "search: {lr: {log: [1e-4, 0.1]}, layers: {int: [1, 4]}}, count: 20, seed: 7, sampler: random"
TRAIN = "run: {function: program:train}\nobjective: {metric: accuracy, goal: max}"
SWEEPS = {
    "grid-of-commands": f"trials: {{grid: {{lr: [0.1, 0.01], epochs: [2, 4, 6]}}, repeat: 2}}\n{COMMAND}",
    "grid-of-functions": f"trials: {{grid: {{lr: [0.1, 0.01], layers: [1, 2, 3]}}}}\n{TRAIN}",
    "random-search": f"trials: {{{SEARCH}}}\n{TRAIN}",
}
FILES, TABLE = "images: pictures/", "parquet: table.parquet, key: id, column:"
ONNX, TORCH = "onnx: small.onnx", "torchscript: small.pt"
PINNED = "{batch: 1, workers: 1, threads: 1, runtime: as-given}"
"""Each input by itself: the last bits depend on the batch, and those at the end of an item on how fast it went."""
INFERENCES = {
    "onnx": (FILES, ONNX, PINNED),
    "torchscript": (FILES, TORCH, PINNED),
    "torchscript-frozen": (FILES, TORCH, PINNED.replace("as-given", "frozen")),
    "images-in-a-table": (f"{TABLE} image", ONNX, PINNED),
    "table": (f"{TABLE} [width, height]", "function: program:area", PINNED.replace("1", "16", 1)),
    "onnx-auto": (FILES, ONNX, "auto"),
    "torchscript-auto": (FILES, TORCH, "auto"),
}
OF_IMAGES = "preprocess: {image: {size: 224, normalize: imagenet}}\npostprocess: {softmax: true, top: 3}\n"


def fill(bench: Workbench, count: int) -> Path:
    """The folder with all workloads, and what they name: pictures, some of them damaged, models, a table, a program."""
    ground = Ground(bench, bench.folder / "cache", "small", QUICK, cpus=1)
    ground.prepare()
    folder = shutil.copytree(ground.model.parent, bench.folder / "files")
    pictures = [picture(number, seed=1) for number in range(count)]
    pictures[7:9] = pictures[7][:900], b"no picture"
    (folder / "pictures").mkdir()
    for number, content in enumerate(pictures):
        (folder / "pictures" / f"{number:04d}.jpg").write_bytes(content)
    rows = [(f"row {n}", n / 7, n * 37 % 101 / 9, pictures[n % 50]) for n in range(400)]
    table = pa.table(list(map(list, zip(*rows, strict=True))), ["id", "width", "height", "image"])
    parquet.write_table(table, folder / "table.parquet", row_group_size=64)
    (folder / "program.py").write_text(PROGRAM)
    for name, text in SWEEPS.items():
        (folder / f"{name}.yaml").write_text(f"kind: sweep\n{text}\nlimits: {{concurrent: 1, failures: 2}}\n")
    for name, (given, model, tune) in INFERENCES.items():
        around = "" if model.startswith("function") else OF_IMAGES
        output = f"output: {{path: {name}/, preserve_order: true}}\nlimits: {{errors: 10%}}\n"
        asked = f"kind: infer\ninput: {{{given}}}\nmodel: {{{model}}}\ntune: {tune}\n{around}{output}"
        (folder / f"{name}.yaml").write_text(asked)
    return folder


def results(bench: Workbench, source: Path, files: Path) -> dict[str, list[Any]]:
    """What one checkout makes of all workloads; in the same place as the other one, so that all paths are equal."""
    place = shutil.copytree(files, bench.folder / "place")
    environment, found = bench.environment() | {"PYTHONPATH": str(source)}, {}
    for name in (*SWEEPS, *INFERENCES):
        bench.call([PYTHON, "-m", "shoal", "run", f"{name}.yaml"], place, environment)
        asked = [PYTHON, "-m", "shoal", "results", name, "--format", "json"]
        rows = json.loads(bench.call(asked, place, environment))
        kept = [{key: row[key] for key in row if key not in ("started", "seconds", "node")} for row in rows]
        found[name] = [*kept, *(beside(place / name) if name in INFERENCES else ())]
    shutil.rmtree(place)
    return found


def beside(folder: Path) -> Iterator[dict[str, Any]]:
    """The types of an inference's columns, and its errors."""
    yield {"columns": str(parquet.read_schema(min(folder.glob("part-*.parquet"))).remove_metadata())}
    for path in folder.glob("errors.parquet"):
        yield from parquet.read_table(path).to_pylist()


def apart(ours: Any, others: Any) -> float:
    """The largest difference of any number with a fraction; infinite where anything else differs."""
    if isinstance(ours, dict) and isinstance(others, dict):
        return apart([*ours, *ours.values()], [*others, *others.values()])
    if isinstance(ours, list) and isinstance(others, list) and len(ours) == len(others):
        return max(map(apart, ours, others), default=0.0)
    if type(ours) is type(others) is float and isfinite(ours - others):
        return float(abs(ours - others))
    return 0.0 if type(ours) is type(others) and ours == others else inf


def main() -> int:
    parser = argparse.ArgumentParser(description="What this checkout computes against what another one does.")
    parser.add_argument("other", type=Path, help="the folder of the other checkout")
    parser.add_argument("--pictures", type=int, default=300, help="more leave tune: auto more time to try")
    arguments = parser.parse_args()
    sources = (HERE.parent / "src", arguments.other.resolve() / "src")
    bench, different = Workbench(), 0
    try:
        files = fill(bench, arguments.pictures)
        ours, others = (results(bench, source, files) for source in sources)
    finally:
        bench.close()
    for name, rows in ours.items():
        largest, allowed = apart(rows, others[name]), 1e-5 if name.endswith("-auto") else 0.0
        different += largest > allowed
        print(f"{name:20}{len(rows):5} rows, {'equal' if largest == 0 else f'apart by {largest:.1g}'}")
        unlike = [pair for pair in zip(rows, others[name], strict=False) if apart(*pair) > allowed]
        print(*(f"  here  {mine}\n  there {its}\n" for mine, its in unlike[:3]), sep="", end="")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

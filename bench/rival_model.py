"""The model as other frameworks get it: TorchScript as given, as the group had it. No framework here.

Classes and functions are made inside functions, so that frameworks send them to their workers by value: this folder
cannot be on the path of those, as files in it have names of packages.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Plan(NamedTuple):
    """What a rival is asked to do."""

    model: str
    """Of the TorchScript file, without its ending."""
    files: str
    """A folder that `infer_data` made, with exactly so many `images`."""
    output: str
    ready: str
    """A folder in which each copy of the model notes when it was loaded."""
    images: int
    cpus: int
    batch: int = 8
    workers: int = 1
    """Copies of the model. Each gets its share of the CPUs as threads."""
    blocks: int | None = None
    """Read parallelism, where there is such a thing."""

    @property
    def threads(self) -> int:
        return max(1, self.cpus // self.workers)


def read_plan(file: str) -> Plan:
    plan = Plan(**json.loads(Path(file).read_text()))
    Path(plan.ready).mkdir(parents=True, exist_ok=True)
    return plan


def preprocess() -> Callable[[Any], Any]:
    """A function from 224 x 224 x 3 bytes, or N of them, to normalised float32 with the channels first."""

    def normalised(pixels: Any) -> Any:
        import numpy as np

        mean, spread = np.float32((0.485, 0.456, 0.406)), np.float32((0.229, 0.224, 0.225))
        scaled = pixels * (1 / (255 * spread)) - mean / spread
        return np.ascontiguousarray(np.moveaxis(scaled, -1, -3), np.float32)

    return normalised


def predictor() -> type:
    """A class that loads the model when it is made, and gives classes and probabilities of normalised batches."""

    class Predictor:
        def __init__(self, model: str, threads: int, ready: str) -> None:
            import os
            import time
            import uuid
            import warnings

            import torch

            torch.set_num_threads(threads)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.model = torch.jit.load(f"{model}.pt", map_location="cpu").eval()
            note = os.path.join(ready, uuid.uuid4().hex)
            with open(f"{note}.making", "w", encoding="utf-8") as file:
                file.write(str(time.time()))
            os.rename(f"{note}.making", f"{note}.time")

        def predict(self, images: Any) -> tuple[Any, Any]:
            import numpy as np
            import torch

            with torch.inference_mode():
                probabilities = self.model(torch.from_numpy(images)).softmax(1)
                sure, labels = probabilities.max(1)
            return labels.numpy().astype(np.int64), sure.numpy()

    return Predictor


def told(plan: Plan, began: float, rows: int) -> str:
    """What a rival prints at its end: `seconds` are those since its first model was ready, in its favour."""
    ended = time.time()
    notes = [float(note.read_text()) for note in Path(plan.ready).glob("*.time")]
    answer = {"images": plan.images, "rows": rows, "whole_s": ended - began, "seconds": ended - min(notes)}
    return json.dumps(answer)


def count_rows(folder: str) -> int:
    """Rows in all Parquet files of a folder."""
    from pyarrow import parquet

    return sum(parquet.ParquetFile(path).metadata.num_rows for path in Path(folder).rglob("*.parquet"))

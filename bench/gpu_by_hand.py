"""A loop for a GPU as one would write it by hand: processes that decode, each with a copy of the model on the GPU.

python -P bench/gpu_by_hand.py '{"model": PATH, "files": FOLDER, "output": FOLDER, "processes": 16, "batch": 128,
                                 "frozen": false, "most": 60000}'

torch is imported once and the processes are forked, so that they start quickly. Prints one line of JSON: how many
images there were, and images a second once all had loaded the model. Knows nothing of Shoal.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

import numpy as np
import pyarrow as pa
import torch
from pyarrow import parquet

import infer_data

try:
    import simplejpeg
except ImportError:
    simplejpeg = None
    import io

    from PIL import Image

MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
AHEAD = 3
"""Batches that are being decoded while one is used."""


def _decoded(path: str) -> Any:
    with open(path, "rb") as file:
        data = file.read()
    if simplejpeg is not None:
        return simplejpeg.decode_jpeg(data, "RGB")
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def _batches(paths: list[str], batch: int, threads: int) -> Iterator[Any]:
    """Arrays of pictures, in order."""
    with ThreadPoolExecutor(threads) as pool:
        groups = iter([paths[start : start + batch] for start in range(0, len(paths), batch)])
        waiting: list[Any] = []
        for group in groups:
            waiting.append([pool.submit(_decoded, path) for path in group])
            if len(waiting) > AHEAD:
                yield np.stack([future.result() for future in waiting.pop(0)])
        for futures in waiting:
            yield np.stack([future.result() for future in futures])


def load(path: str, *, frozen: bool) -> Any:
    """The model in half precision on the GPU."""
    model = torch.jit.load(path).cuda().half().eval().to(memory_format=torch.channels_last)
    return torch.jit.optimize_for_inference(torch.jit.freeze(model)) if frozen else model


def _work(plan: dict[str, Any], number: int, paths: list[str], told: Any) -> None:
    """One process: decodes on its cores, normalises and predicts on the GPU, writes its rows."""
    torch.set_num_threads(1)
    batch = plan["batch"]
    threads = max(1, (os.cpu_count() or 1) // plan["processes"])
    model = load(plan["model"], frozen=plan["frozen"])
    mean, spread = (
        torch.tensor(values, device="cuda", dtype=torch.half).view(1, 3, 1, 1) * 255
        for values in (MEAN, SPREAD)
    )
    labels, probabilities = [], []
    began = time.monotonic()
    with torch.inference_mode():
        for pictures in _batches(paths, batch, threads):
            images = torch.from_numpy(pictures).pin_memory().cuda(non_blocking=True)
            images = (images.permute(0, 3, 1, 2).half() - mean) / spread
            best = model(images.contiguous(memory_format=torch.channels_last)).softmax(-1).max(-1)
            labels.append(best.indices.cpu())
            probabilities.append(best.values.float().cpu())
    seconds = time.monotonic() - began
    columns = {"path": paths, "label": torch.cat(labels).numpy(), "prob": torch.cat(probabilities).numpy()}
    parquet.write_table(pa.table(columns), Path(plan["output"]) / f"part-{number}.parquet")
    told.put((len(paths), seconds))


def main() -> int:
    plan = json.loads(sys.argv[1])
    paths = infer_data.list_pictures(Path(plan["files"]))[: plan.get("most")]
    Path(plan["output"]).mkdir(parents=True)
    context = multiprocessing.get_context("fork")
    told = context.Queue()
    processes = [
        context.Process(target=_work, args=(plan, number, paths[number :: plan["processes"]], told))
        for number in range(plan["processes"])
    ]
    for process in processes:
        process.start()
    ended = [told.get(timeout=600) for _ in processes]
    for process in processes:
        process.join()
    print(json.dumps({"images": sum(n for n, _ in ended), "rate": sum(n / s for n, s in ended)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

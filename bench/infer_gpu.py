"""Inference on a GPU: what `tune: auto` finds against fixed batches, and end to end against loops written by hand.

python bench/infer_gpu.py [--images 60000] [--folder build/gpu] [--json FILE]

Needs torch with a GPU. Prints ratios: the model alone at the batch that was found against the best fixed batch, and
images a second from JPEG files against the best of several hand-written loops with the same cores.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import infer_data
import infer_models

BATCHES = (8, 32, 128, 256, 512, 1024)
MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
WORKLOAD = """\
kind: infer
name: gpu
input: {{images: "{pictures}"}}
model: {{torchscript: "{model}", precision: float16}}
preprocess: {{image: {{size: 224, normalize: imagenet}}}}
postprocess: {{softmax: true}}
output: {output}
tune: {tune}
"""


def say(*parts: object) -> None:
    print(*parts, flush=True)


# The model alone.


def model_alone(path: Path, batches: tuple[int, ...] = BATCHES) -> dict[int, float]:
    """Images a second in half precision, by batch."""
    import torch

    model = _model(str(path), frozen=True)
    rates = {}
    with torch.inference_mode():
        for batch in batches:
            images = torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.half)
            images = images.to(memory_format=torch.channels_last)
            for _ in range(5):
                model(images)
            torch.cuda.synchronize()
            began, count = time.perf_counter(), 0
            while time.perf_counter() - began < 1.5:
                for _ in range(4):
                    model(images)
                torch.cuda.synchronize()
                count += 4 * batch
            rates[batch] = count / (time.perf_counter() - began)
    del model
    torch.cuda.empty_cache()
    return rates


# By hand.


def _decoded(path: str) -> Any:
    import numpy as np

    with open(path, "rb") as file:
        data = file.read()
    try:
        import simplejpeg

        return simplejpeg.decode_jpeg(data, "RGB")
    except ImportError:
        import io

        from PIL import Image

        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def _batches(paths: list[str], batch: int, threads: int) -> Iterator[Any]:
    """Arrays of pictures, the next two batches being decoded while one is used."""
    import numpy as np

    with ThreadPoolExecutor(threads) as pool:
        groups = [paths[start : start + batch] for start in range(0, len(paths), batch)]
        waiting: list[Any] = []
        for group in groups[:3]:
            waiting.append([pool.submit(_decoded, path) for path in group])
        following = iter(groups[3:])
        while waiting:
            yield np.stack([future.result() for future in waiting.pop(0)])
            group = next(following, None)
            if group is not None:
                waiting.append([pool.submit(_decoded, path) for path in group])


def _model(path: str, frozen: bool) -> Any:
    import torch

    model = torch.jit.load(path).cuda().half().eval().to(memory_format=torch.channels_last)
    return torch.jit.optimize_for_inference(torch.jit.freeze(model)) if frozen else model


def _loop(
    model_path: str, paths: list[str], batch: int, threads: int, frozen: bool, told: Any, go: Any
) -> None:
    """One process: decodes on its cores, normalises and predicts on the GPU."""
    import torch

    torch.set_num_threads(1)
    model = _model(model_path, frozen)
    mean = torch.tensor(MEAN, device="cuda", dtype=torch.half).view(1, 3, 1, 1) * 255
    spread = torch.tensor(SPREAD, device="cuda", dtype=torch.half).view(1, 3, 1, 1) * 255
    with torch.inference_mode():
        warm = torch.zeros(batch, 3, 224, 224, device="cuda", dtype=torch.half)
        for _ in range(3):
            model(warm.to(memory_format=torch.channels_last))
        torch.cuda.synchronize()
        told.put("ready")
        go.wait()
        labels = []
        for pictures in _batches(paths, batch, threads):
            images = torch.from_numpy(pictures).pin_memory().cuda(non_blocking=True)
            images = (images.permute(0, 3, 1, 2).half() - mean) / spread
            scores = model(images.contiguous(memory_format=torch.channels_last))
            labels.append(scores.softmax(-1).max(-1).indices.cpu())
    told.put(sum(len(part) for part in labels))


def by_hand(model: Path, paths: list[str], processes: int, batch: int, frozen: bool) -> tuple[float, float]:
    """Images a second: of the whole, and without the start of its processes."""
    context = multiprocessing.get_context("spawn")
    told, go = context.Queue(), context.Event()
    threads = max(1, (os.cpu_count() or 1) // processes)
    workers = [
        context.Process(
            target=_loop, args=(str(model), paths[n::processes], batch, threads, frozen, told, go)
        )
        for n in range(processes)
    ]
    whole = time.perf_counter()
    for worker in workers:
        worker.start()
    for _ in workers:
        assert told.get(timeout=300) == "ready"
    began = time.perf_counter()
    go.set()
    count = sum(told.get(timeout=600) for _ in workers)
    seconds = time.perf_counter() - began
    for worker in workers:
        worker.join()
    assert count == len(paths)
    return count / (time.perf_counter() - whole), count / seconds


# Shoal.


def by_shoal(folder: Path, pictures: Path, model: Path, name: str, tune: str) -> dict[str, Any]:
    """One run: the document that it prints, and images a second of the whole."""
    place = folder / name
    (place / ".shoal").mkdir(parents=True, exist_ok=True)
    text = WORKLOAD.format(pictures=pictures.resolve(), model=model.resolve(), output="out/", tune=tune)
    (place / "infer.yaml").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "shoal", "run", "infer.yaml", "--json"],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        say(done.stdout[-3000:], done.stderr[-3000:])
        raise SystemExit("the run failed")
    document: dict[str, Any] = json.loads(done.stdout)
    document["rate"] = document["infer"]["rows"] / document["seconds"]
    return document


def chosen(document: dict[str, Any]) -> dict[str, Any]:
    return {decision["name"]: decision["choice"] for decision in document["infer"]["decisions"]}


def pinned(ways: list[str], folder: Path, pictures: Path, model: Path) -> int:
    """Runs with these values of `tune:`, one after the other."""
    for number, tune in enumerate(ways):
        document = by_shoal(folder, pictures, model, f"pinned-{number}", tune)
        say(f"shoal, {tune}: {document['rate']:.0f} images/s, {document['infer']['phase_seconds']}")
        say(f"  {chosen(document)}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=60_000)
    parser.add_argument("--folder", type=Path, default=Path("build/gpu"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--pinned", nargs="*", default=[], help="only runs with these values of tune:")
    options = parser.parse_args()
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {}
    distinct = infer_data.make_distinct(folder, 1000)
    pictures = infer_data.multiply(folder, distinct, options.images)
    paths = infer_data.list_pictures(pictures)
    infer_models.export(
        infer_models.make("large", infer_models.load_pictures(distinct[:16])), folder, "large"
    )
    model = folder / "large.pt"
    if options.pinned:
        return pinned(options.pinned, folder, pictures, model)
    figures["model_alone"] = rates = model_alone(model)
    say("model alone, images/s by batch:", {batch: round(rate) for batch, rate in rates.items()})
    figures["by_hand"] = hand = {}
    for processes, batch in ((8, 256), (16, 128)):
        for frozen in (False, True) if (processes, batch) == (16, 128) else (False,):
            name = f"{processes} processes, batch {batch}, {'frozen' if frozen else 'as given'}"
            hand[name] = by_hand(model, paths, processes, batch, frozen)
            say(f"by hand, {name}: {hand[name][0]:.0f} images/s, {hand[name][1]:.0f} without start-up")
    first = by_shoal(folder, pictures, model, "auto", "auto")
    again = by_shoal(folder, pictures, model, "auto", "auto")
    for name, document in (("auto", first), ("auto again", again)):
        say(f"shoal, {name}: {document['rate']:.0f} images/s")
        say(f"  chosen: {chosen(document)}")
    figures["shoal"] = [first, again]
    batch = int(chosen(again)["batch"])
    at_chosen = rates.get(batch) or model_alone(model, (batch,))[batch]
    best_whole = max(whole for whole, _ in hand.values())
    say(
        f"model alone at the batch that was found ({batch}) against the best: {at_chosen / max(rates.values()):.2f}"
    )
    say(f"end to end against the best by hand, start-up included: {first['rate'] / best_whole:.2f},")
    say(f"  {again['rate'] / best_whole:.2f} with what the first run learned")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Inference as an expert writes it by hand for one machine, without a framework: the loop that Shoal is held against.

Processes share a counter, take files from it a batch at a time, decode into arrays that are made once (in a thread of
their own, where that is asked for), predict, and write one Parquet file each at the end.

python -P bench/by_hand.py PLAN.json, which prints one JSON document. A plan is for one setting of runtime, processes
and threads. With `seconds` it measures each of its `batches` for so long, after warm-up; without, it goes through all
files once and writes.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).parent))  # Last: files here have names of packages.

from infer_data import list_pictures

WARM_BATCHES = 2
BUFFERS = 3
SIDE = 224


class Plan(NamedTuple):
    """One setting, and what to do with it."""

    model: str
    files: str
    runtime: str
    processes: int
    threads: int
    batches: Sequence[int]
    decoder: str = "pillow"
    prefetch: int = 0
    variant: int = 0
    seconds: float | None = None
    output: str | None = None


def decoder(name: str) -> Callable[[bytes, Any], None]:
    """A function that decodes a JPEG into an array of 224 x 224 x 3 bytes, resizing it where it has another size."""
    import numpy as np
    from PIL import Image

    def pillow(data: bytes, into: Any) -> None:
        with Image.open(io.BytesIO(data)) as image:
            picture = image.convert("RGB")
            if picture.size != (SIDE, SIDE):
                picture = picture.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
            into[:] = np.asarray(picture)

    if name == "pillow":
        return pillow
    import simplejpeg

    def fast(data: bytes, into: Any) -> None:
        height, width, *_ = simplejpeg.decode_jpeg_header(data)
        if (height, width) == (SIDE, SIDE):
            simplejpeg.decode_jpeg(data, "RGB", buffer=into)
        else:
            pillow(data, into)

    return fast


class Reading(NamedTuple):
    """How one process gets at its batches."""

    paths: Sequence[str]
    counter: Any
    batch: int
    decode: Callable[[bytes, Any], None]
    endless: bool
    """Begin again after the last file: for measuring."""

    def take(self) -> Sequence[str]:
        """The next files; none when all are taken."""
        with self.counter.get_lock():
            start = self.counter.value
            self.counter.value += self.batch
        if self.endless:
            start %= max(1, len(self.paths) - self.batch)
        return self.paths[start : start + self.batch]

    def fill(self, names: Sequence[str], buffer: Any) -> None:
        for number, name in enumerate(names):
            descriptor = os.open(name, os.O_RDONLY)
            try:
                data = os.read(descriptor, 1 << 24)
            finally:
                os.close(descriptor)
            self.decode(data, buffer[number])


def batches(reading: Reading, prefetch: bool) -> Iterator[tuple[Sequence[str], Any]]:
    """Names and pixels, until there are no more. The pixels are valid until the next ones are asked for."""
    import numpy as np

    shape = (reading.batch, SIDE, SIDE, 3)
    if not prefetch:
        buffer = np.zeros(shape, np.uint8)
        while names := reading.take():
            reading.fill(names, buffer)
            yield names, buffer
        return
    free: queue.SimpleQueue[Any] = queue.SimpleQueue()
    full: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for _ in range(BUFFERS):
        free.put(np.zeros(shape, np.uint8))

    def ahead() -> None:
        while (buffer := free.get()) is not None and (names := reading.take()):
            reading.fill(names, buffer)
            full.put((names, buffer))
        full.put(None)

    thread = threading.Thread(target=ahead, daemon=True)
    thread.start()
    try:
        while (entry := full.get()) is not None:
            yield entry
            free.put(entry[1])
    finally:
        free.put(None)
        thread.join()


def _whole(plan: Plan, paths: Sequence[str], counter: Any, number: int) -> dict[str, Any]:
    """One process's share of a whole run, with its Parquet file."""
    from hand_models import best_class, load

    (batch,) = plan.batches
    predict = load(plan.runtime, Path(plan.model), plan.threads, batch, plan.variant)
    reading = Reading(paths, counter, batch, decoder(plan.decoder), endless=False)
    names: list[str] = []
    labels, probabilities = [], []
    for taken, pixels in batches(reading, bool(plan.prefetch)):
        found, sure = best_class(predict(pixels)[: len(taken)])
        names += taken
        labels.append(found)
        probabilities.append(sure)
    if plan.output is not None:
        _write(Path(plan.output) / f"part-{number}.parquet", names, labels, probabilities)
    return {"images": len(names)}


def _write(path: Path, names: list[str], labels: list[Any], probabilities: list[Any]) -> None:
    import numpy as np
    import pyarrow
    from pyarrow import parquet

    columns = {
        "path": pyarrow.array(names, pyarrow.string()),
        "label": pyarrow.array(np.concatenate(labels) if labels else [], pyarrow.int64()),
        "prob": pyarrow.array(np.concatenate(probabilities) if labels else [], pyarrow.float32()),
    }
    parquet.write_table(pyarrow.table(columns), path)


def _measured(plan: Plan, paths: Sequence[str], counter: Any, together: Any) -> dict[str, Any]:
    """Images a second of one process for each batch size, all processes at the same time."""
    from hand_models import best_class, load

    assert plan.seconds is not None
    rates = {}
    for batch in plan.batches:
        predict = load(plan.runtime, Path(plan.model), plan.threads, batch, plan.variant)
        reading = Reading(paths, counter, batch, decoder(plan.decoder), endless=True)
        began, images, last = None, 0, 0.0
        for number, (taken, pixels) in enumerate(batches(reading, bool(plan.prefetch))):
            best_class(predict(pixels))
            if number < WARM_BATCHES:
                continue
            if began is None:
                together.wait()
                began = time.perf_counter()
                continue
            images += len(taken)
            last = time.perf_counter()
            if last - began >= plan.seconds:
                break
        together.wait()  # Nobody loads the next model while another still measures.
        rates[batch] = images / (last - (began or 0.0))
    return {"rates": rates}


def _process(plan: Plan, paths: Sequence[str], counter: Any, together: Any, number: int, told: Any) -> None:
    """What each process does. Nothing heavy is imported before it begins, so forking is safe."""
    try:
        if plan.seconds is None:
            told.send(_whole(plan, paths, counter, number))
        else:
            told.send(_measured(plan, paths, counter, together))
    except BaseException as error:
        together.abort()
        told.send({"error": f"{type(error).__name__}: {error}"})
        raise


def go(plan: Plan) -> dict[str, Any]:
    """Do what a plan says, with processes of its own."""
    os.environ["OMP_NUM_THREADS"] = str(plan.threads)  # Read when the runtimes are imported.
    paths = list_pictures(Path(plan.files))
    if plan.output is not None:
        Path(plan.output).mkdir(parents=True)
    context = multiprocessing.get_context("fork")
    counter, together = context.Value("q", 0), context.Barrier(plan.processes)
    started = []
    for number in range(plan.processes):
        hear, tell = context.Pipe(duplex=False)
        process = context.Process(target=_process, args=(plan, paths, counter, together, number, tell))
        process.start()
        tell.close()
        started.append((process, hear))
    answers = []
    for process, hear in started:
        try:
            answers.append(hear.recv())
        except EOFError:
            answers.append({"error": "a process ended without a word"})
        process.join()
    errors = [answer["error"] for answer in answers if "error" in answer]
    if errors:
        return {"error": errors[0]}
    if plan.seconds is None:
        return {"images": sum(answer["images"] for answer in answers)}
    rates = {batch: sum(answer["rates"][batch] for answer in answers) for batch in plan.batches}
    return {"rates": rates}


if __name__ == "__main__":
    print(json.dumps(go(Plan(**json.loads(Path(sys.argv[1]).read_text())))))

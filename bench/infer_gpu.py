"""Inference on a GPU: what `tune: auto` finds against fixed batches, and end to end against a loop written by hand.

python bench/infer_gpu.py [--images 600000] [--only model,whole,memory] [--left 14] [--folder build/gpu] [--json FILE]

Needs torch with a GPU. `model`: the model alone, by batch. `whole`: images a second from JPEG files, start included,
against the best of several loops with the same cores. `memory`: a run beside somebody who takes most of the GPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))

import infer_data

HERE = Path(__file__).resolve().parent
PARTS = ("model", "whole", "memory")
BATCHES = (8, 32, 128, 256, 512, 1024)
BY_HAND = [(8, 256), (16, 128), (16, 256)]
"""Processes and batch."""
SEARCH_IMAGES = 60_000
IN_FULL = 3
"""How many of the best loops are run over all pictures."""
DISTINCT = 1000
LEFT_GIB = 14
"""What is left of the GPU's memory for a run that shall run out of it."""
WORKLOAD = """\
kind: infer
name: gpu
input: {{images: "{pictures}"}}
model: {{torchscript: "{model}", precision: float16}}
preprocess: {{image: {{size: 224, normalize: imagenet}}}}
postprocess: {{softmax: true}}
output: out/
tune: {tune}
"""


class Bench:
    """Pictures, a model, and what was found out about them."""

    def __init__(self, folder: Path, images: int, left_gib: float = LEFT_GIB) -> None:
        import infer_models

        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.images = images
        self.left_bytes = int(left_gib * (1 << 30))
        self.figures: dict[str, Any] = {}
        self._distinct = infer_data.make_distinct(folder, DISTINCT)
        calibration = infer_models.load_pictures(self._distinct[:16])
        infer_models.export(infer_models.make("large", calibration), folder, "large")
        self.model = (folder / "large.pt").resolve()
        self._numbers = 0

    def say(self, text: str) -> None:
        print(text, flush=True)

    def pictures(self, count: int) -> Path:
        return infer_data.multiply(self.folder, self._distinct, count).resolve()

    def scratch(self, what: str) -> Path:
        """A folder that nobody has used."""
        self._numbers += 1
        return self.folder.resolve() / f"{what}-{time.time_ns()}-{self._numbers}"

    # The model alone.

    def model_alone(self, batches: tuple[int, ...] = BATCHES) -> dict[int, float]:
        """Images a second in half precision, by batch."""
        import torch

        from gpu_by_hand import load

        model = load(str(self.model), frozen=True)
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
        del model, images
        torch.cuda.empty_cache()
        return rates

    def by_model(self) -> None:
        rates = self.figures["model_alone"] = self.model_alone()
        self.say(f"model alone, images/s by batch: { {batch: round(rate) for batch, rate in rates.items()} }")

    # From files.

    def by_hand(self, processes: int, batch: int, *, frozen: bool, most: int | None = None) -> dict[str, Any]:
        """One run of the loop: images a second of the whole program, and once its models were loaded."""
        plan = {
            "model": str(self.model),
            "files": str(self.pictures(self.images)),
            "output": str(self.scratch("by-hand")),
            "processes": processes,
            "batch": batch,
            "frozen": frozen,
            "most": most,
        }
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-P", HERE / "gpu_by_hand.py", json.dumps(plan)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        seconds = time.perf_counter() - began
        told = json.loads(done.stdout.splitlines()[-1])
        name = f"{processes} processes, batch {batch}, {'frozen' if frozen else 'as given'}"
        found = {"name": name, "seconds": seconds, "whole": told["images"] / seconds, **told}
        self.say(f"by hand, {name}: {found['whole']:.0f} images/s, {told['rate']:.0f} once loaded")
        return found

    def by_shoal(self, images: int, tune: str, home: Path | None = None) -> dict[str, Any]:
        """One run. In the same home, it knows what was learned there before."""
        place = home or self.scratch("shoal")
        (place / ".shoal").mkdir(parents=True, exist_ok=True)
        text = WORKLOAD.format(pictures=self.pictures(images), model=self.model, tune=tune)
        (place / "infer.yaml").write_text(text)
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "shoal", "run", "infer.yaml", "--json"],
            cwd=place,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - began
        if done.returncode != 0:
            raise SystemExit(f"the run failed: {done.stdout[-3000:]}")
        document: dict[str, Any] = json.loads(done.stdout)
        rows = document["infer"]["rows"]
        if rows != images:
            raise SystemExit(f"there are {rows} rows for {images} images")
        document |= {"wall_s": seconds, "whole": rows / seconds}
        self.say(f"shoal, tune: {tune}: {document['whole']:.0f} images/s, {rows} images in {seconds:.1f} s")
        for decision in document["infer"]["decisions"]:
            self.say(f"  {decision['name']} {decision['choice']}: {decision['why']}")
        return document

    def by_files(self) -> None:
        searched = []
        for (processes, batch), frozen in product(BY_HAND, (False, True)):
            found = self.by_hand(processes, batch, frozen=frozen, most=SEARCH_IMAGES)
            start_s = found["seconds"] - found["images"] / found["rate"]
            expected_s = start_s + self.images / found["rate"]
            searched.append((expected_s, processes, batch, frozen))
        best = sorted(searched)[:IN_FULL]
        loops = [self.by_hand(processes, batch, frozen=frozen) for _, processes, batch, frozen in best]
        hand = max(loops, key=lambda loop: loop["whole"])
        home = self.scratch("shoal")
        runs = [self.by_shoal(self.images, "auto", home) for _ in range(2)]
        self.figures |= {"by_hand": loops, "searched": searched, "shoal": runs}
        for name, ran in zip(("the first time", "with what was learned"), runs, strict=True):
            ratio = ran["whole"] / hand["whole"]
            self.say(f"end to end against the best loop by hand, {name}: {ratio:.2f}")
        if "model_alone" in self.figures:
            self._model_at_chosen(runs[-1])

    def _model_at_chosen(self, ran: dict[str, Any]) -> None:
        rates = self.figures["model_alone"]
        batch = int(chosen(ran)["batch"])
        at_chosen = rates.get(batch) or self.model_alone((batch,))[batch]
        share = self.figures["model_at_chosen"] = at_chosen / max(rates.values())
        self.say(f"the model alone at the batch that was found ({batch}), against its best: {share:.2f}")

    # Memory.

    def by_memory(self) -> None:
        """All but a little of the GPU's memory is taken; batches that are pinned large run out of the rest."""
        import torch

        free, _ = torch.cuda.mem_get_info()
        taken = torch.empty(free - self.left_bytes, dtype=torch.uint8, device="cuda")
        left, _ = torch.cuda.mem_get_info()
        self.say(f"{left >> 20} MB of the GPU's memory are left")
        self.figures["memory"] = [
            self.by_shoal(SEARCH_IMAGES, tune) for tune in ("{batch: 1024, workers: 8}", "auto")
        ]
        del taken
        torch.cuda.empty_cache()


def chosen(document: dict[str, Any]) -> dict[str, Any]:
    return {decision["name"]: decision["choice"] for decision in document["infer"]["decisions"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--images", type=int, default=600_000)
    parser.add_argument("--only", default=",".join(PARTS), help="which parts, such as model,whole")
    parser.add_argument("--folder", type=Path, default=Path("build/gpu"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--left", type=float, default=LEFT_GIB, help="GiB of the GPU's memory for `memory`")
    parser.add_argument("--pinned", nargs="*", default=[], help="also runs with these values of tune:")
    options = parser.parse_args()
    bench = Bench(options.folder, options.images, options.left)
    parts = {"model": bench.by_model, "whole": bench.by_files, "memory": bench.by_memory}
    try:
        for name in options.only.split(","):
            parts[name]()
        for tune in options.pinned:
            bench.by_shoal(options.images, tune)
    finally:
        if options.json:
            options.json.write_text(json.dumps(bench.figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())

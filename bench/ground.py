"""What the contenders of the benchmark of inference stand on: pictures, models, folders, sizes and child processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import infer_data
from workbench import HERE, PYTHON, Workbench

KEPT_OUT = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
LAST_WORDS = 1500


class Broken(Exception):  # noqa: N818 - a fact about a contender
    """A contender did not do what it was asked, and what it said."""


class Sizes(NamedTuple):
    """How much is measured. Seconds are of work, without starting."""

    seconds: float = 120.0
    """What the hand-written loop takes at least for the whole set."""
    point_s: float = 5.0
    """For each point of a grid."""
    finalist_s: float = 20.0
    """For each of the best points of a grid, again."""
    rival_s: float = 60.0
    """For each figure of another framework that counts."""
    distinct: int = infer_data.DISTINCT
    batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    ray_batches: tuple[int, ...] = (1, 8, 32)
    ray_blocks: tuple[int, ...] = (2, 8, 32, 128)
    rival_batches: tuple[int, ...] = (8, 32)
    crowding: int = 2
    """Up to how many threads a core the hand-written loop tries."""
    runtimes: tuple[str, ...] = ("torch", "frozen", "onnxruntime", "openvino")
    """In grids, where they are installed."""


QUICK = Sizes(3.0, 0.3, 0.3, 0.2, 40, (8,), (8,), (2,), (8,), 1, ("torch", "onnxruntime"))


class Child(NamedTuple):
    """A process that ended well: what it printed, and its whole wall time, from its start."""

    output: str
    seconds: float


class Ground:
    """Folders and processes for one model. One thing runs at a time."""

    def __init__(self, bench: Workbench, cache: Path, model: str, sizes: Sizes, cpus: int) -> None:
        self.bench = bench
        self.cache = cache
        self.name = model
        self.sizes = sizes
        self.cpus = cpus
        self._numbers = 0
        self._began = time.monotonic()
        self._distinct: list[Path] = []

    @property
    def model(self) -> Path:
        """Without its ending."""
        return self.cache / "models" / self.name

    def say(self, what: str) -> None:
        """A line of progress."""
        print(f"{time.monotonic() - self._began:7.0f} s  {self.name}: {what}", file=sys.stderr, flush=True)

    def prepare(self) -> None:
        """Pictures that differ, and the model; what is there already is kept."""
        self._distinct = infer_data.make_distinct(self.cache, self.sizes.distinct)
        if not all(self.model.with_suffix(ending).exists() for ending in (".pt", ".onnx")):
            self.say("is made")
            making = self.cache / f"models-{self.name}.making"
            shutil.rmtree(making, ignore_errors=True)
            program = HERE / "infer_models.py"
            command = [PYTHON, "-P", program, making, self._distinct[0].parent, "--model", self.name]
            self.call(list(map(str, command)), limit_s=900)
            self.model.parent.mkdir(exist_ok=True)
            for made in making.iterdir():
                made.rename(self.model.parent / made.name)
            making.rmdir()

    def files(self, count: int) -> Path:
        """A folder with exactly so many pictures."""
        return infer_data.multiply(self.cache, self._distinct, count)

    def scratch(self, what: str) -> Path:
        """A path of its own that does not exist yet, on the disk that is measured."""
        self._numbers += 1
        return self.bench.folder.resolve() / f"{self.name}-{what}-{self._numbers}"

    def program(self, name: str, plan: Mapping[str, Any], limit_s: float) -> tuple[dict[str, Any], float]:
        """Run one of the programs beside this file with a plan: what it told, and its whole wall time."""
        path = self.scratch("plan").with_suffix(".json")
        path.write_text(json.dumps(plan))
        # -P: what lies beside the program (ray.py) must not be taken for packages.
        child = self.call([PYTHON, "-P", str(HERE / name), str(path)], limit_s)
        lines = child.output.splitlines()
        told = json.loads(lines[-1]) if lines else {"error": "it printed nothing"}
        if "error" in told:
            raise Broken(f"{name}: {told['error']}")
        return told, child.seconds

    def call(
        self, command: Sequence[str], limit_s: float, environment: Mapping[str, str] | None = None
    ) -> Child:
        """Run a command to its end. One that fails or takes too long is `Broken`, and its processes are ended."""
        given = os.environ if environment is None else environment
        kept = {name: value for name, value in given.items() if name not in KEPT_OUT}
        said = self.scratch("said")
        with open(said, "w+", encoding="utf-8", errors="replace") as errors:
            began = time.perf_counter()
            process = subprocess.Popen(
                command,
                cwd=self.bench.folder,
                env=kept,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
            try:
                output, _ = process.communicate(timeout=limit_s)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                if isinstance(error, subprocess.TimeoutExpired):
                    raise Broken(f"{' '.join(command[:4])} took longer than {limit_s:.0f} s") from None
                raise
            seconds = time.perf_counter() - began
        if process.returncode != 0:
            words = f"{output[-LAST_WORDS:]}{said.read_text()[-LAST_WORDS:]}"
            raise Broken(f"{' '.join(command[:4])} exited with {process.returncode}:\n{words}")
        said.unlink()
        return Child(output, seconds)


def powers_of_two(most: int) -> list[int]:
    """1, 2, 4 ... and `most` itself."""
    return sorted({*(1 << power for power in range(most.bit_length()) if 1 << power <= most), most})

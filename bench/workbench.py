"""Folders, workload files and child processes for the benchmarks. Measures nothing itself."""

from __future__ import annotations

import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
PYTHON = sys.executable
SHOAL = str(Path(sys.executable).with_name("shoal"))


class Driven(NamedTuple):
    """One run of a workload, as its own driver saw it."""

    first_started: float
    last_durable: float
    done: int

    @property
    def seconds(self) -> float:
        """From the first trial starting to the last one durable."""
        return self.last_durable - self.first_started


class Spread(NamedTuple):
    """Several measurements of the same thing."""

    median: float
    least: float
    most: float
    times: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values), len(values))

    def words(self, form: str = ".3f", unit: str = "") -> str:
        return f"{self.median:{form}}{unit} ({self.least:{form}} to {self.most:{form}}, {self.times} times)"


class Workbench:
    """A folder of its own, with a table of leases of its own, so that no other run on the machine takes a share."""

    def __init__(self, within: str | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="shoal-bench-", dir=within))
        self._homes = 0
        self.nodes(1, cpu=2)
        self.nodes(3, cpu=1)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def environment(self, home: str | None = None) -> dict[str, str]:
        """As a user has it: bytecode is cached, and no setting of ours; without a `home`, a fresh one."""
        dropped = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONPATH")
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in dropped and not name.startswith("SHOAL_")
        }
        if home is None:
            self._homes += 1
            home = f"home-{self._homes}"
        return kept | {
            "SHOAL_HOME": str(self.folder / home),
            "SHOAL_LEASES": str(self.folder / "leases.json"),
        }

    def nodes(self, count: int, *, cpu: int) -> Path:
        """The cluster file of so many virtual nodes."""
        path = self.folder / f"nodes-{count}.yaml"
        entries = "".join(f"  - {{host: node{number}, cpu: {cpu}}}\n" for number in range(count))
        path.write_text(
            f"kind: cluster\nname: bench{count}\nprovider: local\nengine: embedded\nnodes:\n{entries}"
        )
        return path

    def workload(self, name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], run: str) -> Path:
        """A sweep in a folder of its own: a CSV table, and `run` as in `function: trials:nothing`."""
        folder = self.folder / name
        folder.mkdir()
        shutil.copy(HERE / "trials.py", folder)
        with open(folder / "table.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(rows)
        path = folder / "sweep.yaml"
        path.write_text(f"kind: sweep\nname: {name}\ntrials: {{table: table.csv}}\nrun: {{{run}}}\n")
        return path

    def drive(self, workload: Path, *, nodes: int = 1) -> Driven:
        """Run a workload to its end in a driver process of its own, with a fresh home."""
        command = [PYTHON, str(HERE / "drive.py"), str(workload), str(self.folder / f"nodes-{nodes}.yaml")]
        told = self.call(command, workload.parent, self.environment())
        return Driven(**json.loads(told))

    def call(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
        """Run a command; its output. One that fails ends the benchmark with what it said."""
        ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if ended.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} exited with {ended.returncode}:\n{ended.stderr}")
        return ended.stdout

    def sync_seconds(self) -> float:
        """What making a few bytes durable takes in this folder, as a note on the disk."""
        measured = []
        with open(self.folder / "sync", "wb") as file:
            for _ in range(9):
                file.write(b"x" * 4096)
                file.flush()
                began = time.perf_counter()
                os.fsync(file.fileno())
                measured.append(time.perf_counter() - began)
        return statistics.median(measured)

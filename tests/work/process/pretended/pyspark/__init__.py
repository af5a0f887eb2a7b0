"""As much of PySpark as a process run uses: tasks are done by another process, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import cloudpickle

EXECUTOR = """
import cloudpickle, sys
task, parts = cloudpickle.load(sys.stdin.buffer)
cloudpickle.dump([each for part in parts for each in task(iter(part))], sys.stdout.buffer)
"""


class SparkConf(dict[str, str]):
    def setAll(self, pairs: Iterable[tuple[str, str]]) -> SparkConf:  # noqa: N802
        self.update(pairs)
        return self


class SparkContext:
    """Its settings go to a file beside the workload."""

    defaultParallelism = 2  # noqa: N815

    def __init__(self, conf: SparkConf, environment: Mapping[str, str]) -> None:
        if conf["spark.app.name"] == "refused":
            raise RuntimeError("An error occurred.\n: org.apache.spark.SparkException: not today.\n\tat java")
        Path("conf.txt").write_text("".join(f"{name}={value}\n" for name, value in conf.items()))
        given = os.environ.keys() - {
            "MARK"
        }  # Executors have the variables of their machine, not the driver's.
        self._environment = {**{name: os.environ[name] for name in given}, **environment}
        self._executor: subprocess.Popen[bytes] | None = None

    def parallelize(self, items: list[Any], parts: int) -> SparkContext:
        assert parts == len(items)
        self._items = items
        return self

    def mapPartitions(self, task: Callable[[Iterator[Any]], Iterator[Any]]) -> SparkContext:  # noqa: N802
        self._task = task
        return self

    def collect(self) -> list[Any]:
        given = cloudpickle.dumps((self._task, [[item] for item in self._items]))
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", EXECUTOR]
            self._executor = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, env=self._environment
            )
            answer, _ = self._executor.communicate(given)
        if self._executor.returncode:
            raise RuntimeError(f"the executor ended with {self._executor.returncode}")
        return cloudpickle.loads(answer)

    def cancelAllJobs(self) -> None:  # noqa: N802
        if self._executor is not None:
            self._executor.kill()

    def stop(self) -> None:
        Path("stopped.txt").write_text("")

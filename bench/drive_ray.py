"""One driver on a Ray cluster that is up: Shoal, bare tasks, or Ray Tune. Prints the seconds it took, as JSON.

Connecting is not counted for anybody. Of Shoal, what is counted ends when the last trial is durable.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from shoal.api import workloads
from shoal.api.machines import Machines, machines
from shoal.api.runs import new_session
from shoal.cluster.this_machine import Here
from shoal.engine.base import Engine
from shoal.model import Event, Item, WorkerReady
from shoal.shape.base import Ended, Progress

WARM_TASKS = 200


class Observer:
    """Sees each trial when it is durable."""

    def __init__(self) -> None:
        self.last_durable = 0.0
        self.done = 0

    def durable(self, ended: Sequence[Ended]) -> None:
        self.last_durable = time.monotonic()
        self.done += sum(entry.outcome.state == "done" for entry in ended)

    def moment(self, progress: Progress) -> None:
        """Nothing: what matters is what is recorded."""


class Warmed:
    """An engine that passes on no work until so many workers are ready; `warm_at` is when they were."""

    def __init__(self, engine: Engine, workers: int) -> None:
        self._engine = engine
        self._cold = workers
        self._kept: list[tuple[int, Sequence[Item]]] = []
        self.warm_at = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def submit(self, worker: int, items: Sequence[Item]) -> None:
        if self._cold:
            self._kept.append((worker, items))
        else:
            self._engine.submit(worker, items)

    def wait(self, timeout_s: float) -> Sequence[Event]:
        events = self._engine.wait(timeout_s)
        if self._cold:
            self._cold -= sum(isinstance(event, WorkerReady) for event in events)
            if not self._cold:
                self.warm_at = time.monotonic()
                for worker, items in self._kept:
                    self._engine.submit(worker, items)
        return events


def warm(there: Machines, workers: int) -> list[Warmed]:
    """From now on its engine is warmed; the engine is in the list once it is made."""
    made: list[Warmed] = []
    cold = there.engine

    def engine(root: str, folder: str, session: str) -> Engine:
        made.append(Warmed(cold(root, folder, session), workers))
        return made[0]  # type: ignore[return-value]

    there.engine = engine  # type: ignore[method-assign]
    return made


def shoal(workload: str, cluster: str, count: str, workers: str = "") -> float:
    """All trials; from when the workers are up, or where none are to be, from when the process is connected to Ray."""
    from shoal import spec

    _connect(spec.load(cluster, kind="cluster").address or "auto")  # type: ignore[attr-defined]
    there = machines(cluster)
    warmed = warm(there, int(workers)) if workers else []
    observer = Observer()
    began = time.monotonic()
    session = new_session(workloads.from_file(workload), there, Here(), observer)
    session.drive()
    if observer.done != int(count):
        raise RuntimeError(f"{observer.done} of {count} trials are done")
    return observer.last_durable - (warmed[0].warm_at if warmed else began)


def tasks(address: str, count: str) -> float:
    """The same function as so many tasks: all submitted, then all got."""
    import ray

    sys.path.insert(0, os.getcwd())
    import trials

    _connect(address)
    function = ray.remote(trials.nothing)
    ray.get([function.remote(number=0, rate=0.0) for _ in range(WARM_TASKS)])
    began = time.monotonic()
    ray.get([function.remote(number=number, rate=number / 8) for number in range(int(count))])
    return time.monotonic() - began


def tune(address: str, count: str, how: str, folder: str) -> float:
    """As many trivial trials as a grid search of Ray Tune."""
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    from ray import tune as ray_tune

    _connect(address)
    tuner = ray_tune.Tuner(
        lambda config: {"x": config["x"]},
        param_space={"x": ray_tune.grid_search(list(range(int(count))))},
        tune_config=ray_tune.TuneConfig(reuse_actors=how == "reuse_actors"),
        run_config=ray_tune.RunConfig(storage_path=folder, verbose=0),
    )
    began = time.monotonic()
    results = tuner.fit()
    took = time.monotonic() - began
    if len(results) != int(count) or results.errors:
        raise RuntimeError(f"{len(results)} of {count} trials, errors: {results.errors}")
    return took


def _connect(address: str) -> None:
    import logging

    import ray

    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)


def main(mode: str, *arguments: str) -> int:
    modes = {"warm": shoal, "cold": shoal, "tasks": tasks, "tune": tune}
    print(json.dumps({"seconds": modes[mode](*arguments)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

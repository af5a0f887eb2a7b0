"""A storm: drivers and workers of one inference killed at random moments, and what has to be there afterwards."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from faults import pictures
from faults.pictures import (
    Output,
    assert_same_predictions,
    done,
    inference,
    output,
    workers,
    write_model,
    write_slow_class,
)

ALLOWED = {"errors": "5%"}
DRIVER_KILLS = 5
WORKER_KILLS = 2
"""In each session that is killed."""
SEED = 4
RUN_S = 600


def wait_for(place: Any, process: subprocess.Popen[str], goal: int) -> list[int]:
    """Until so many items are done, and there are workers: these."""
    found: list[int] = place.until(
        lambda: workers(place, process.pid) if done(place) >= goal else [], process
    )
    return found


def storm(
    place: Any, file: str, chance: random.Random, items: int, where: Sequence[str] = ()
) -> dict[str, int]:
    """Kill workers and drivers again and again, resuming each time, then let it end: how many kills hit.

    Kills are spread over the run by what is recorded as done, and each comes some random time after that.
    """
    hits = {"driver": 0, "worker": 0}
    steps = DRIVER_KILLS * (WORKER_KILLS + 1)
    goals = iter([int(items * 0.85 * (step + chance.random()) / steps) for step in range(steps)])
    for session in range(DRIVER_KILLS):
        process = place.start("resume", "i") if session else place.start("run", file, *where)
        for _ in range(WORKER_KILLS):
            wait_for(place, process, next(goals))
            time.sleep(chance.uniform(0.0, 0.2))  # The random moment; nothing is being waited for.
            os.kill(chance.choice(wait_for(place, process, 0)), signal.SIGKILL)
            hits["worker"] += 1
        wait_for(place, process, next(goals))
        time.sleep(chance.uniform(0.0, 0.3))
        place.kill(process)
        assert process.returncode == -signal.SIGKILL, f"it was over before kill {session + 1}"
        hits["driver"] += 1
    return hits


def failures(place: Any) -> list[str | None]:
    """What is recorded of the items that failed."""
    with place.store() as store:
        return [record.error for record in store.items(("failed",))]


def ended_well(place: Any, *arguments: str) -> Any:
    """What `--json` says of a run that may take long."""
    process = place.start(*arguments, "--json")
    out, err = process.communicate(timeout=RUN_S)
    assert process.returncode == 0, f"{failures(place)}\n{out}\n{err}"
    return json.loads(out)


def taken_over(place: Any, cluster: str, goal: int) -> Any:
    """Go on until so many items are done, and fall asleep; another machine takes over and ends the run, then the
    sleeper wakes. What `--json` says there."""
    [run] = [run for run in place.runs() if run.startswith("i-")]
    copies = place.folder.parent / "shared" / "runs" / run / "copies"
    sleeper = place.start("resume", "i", "--json")
    place.until(lambda: done(place) >= goal and sorted(copies.glob("*/run.db")), sleeper)
    sleeper.send_signal(signal.SIGSTOP)
    heir = place.start(
        *("resume", run, "--cluster", cluster, "--take-over", "--json"),
        env={"SHOAL_HOME": str(place.folder.parent / "elsewhere")},
    )
    out, err = heir.communicate(timeout=RUN_S)
    assert heir.returncode == 0, f"{out}\n{err}"
    sleeper.send_signal(signal.SIGCONT)
    assert "was taken over by" in place.end(sleeper, 1).stdout
    return json.loads(out)


def check_storm(
    place: Any,
    count: int,
    input_: str = "in/",
    output_: str = "out/",
    item: int = 100,
    cluster: str | None = None,
) -> Output:
    """Run undisturbed, then through a storm: the same rows, and an error for each input that is none.

    With a `cluster` that has a storage, another machine takes over at the end.
    """
    write_model(place.folder / "model.onnx")
    broken = [number for number in range(count) if pictures.is_broken(number)]
    settings = {"input": {"images": input_}, "limits": ALLOWED, "tune": {"item": item, "runtime": "as-given"}}
    calm_file = inference(place, name="calm", output=output_.rstrip("/") + "-calm/", **settings)
    file = inference(place, output=output_, **settings)
    calm = ended_well(place, "run", calm_file)
    assert calm["infer"]["rows"] == count - len(broken)
    expected = output(calm["results"])
    began = time.monotonic()
    where = () if cluster is None else ("--cluster", cluster)
    hits = storm(place, file, random.Random(SEED), count // item, where)
    assert hits == {"driver": DRIVER_KILLS, "worker": DRIVER_KILLS * WORKER_KILLS}
    if cluster is None:
        ended = ended_well(place, "resume", "i")
    else:
        ended = taken_over(place, cluster, int(count // item * 0.9))
    print(
        f"{count} inputs, kills that hit: {hits}, {time.monotonic() - began:.0f} s; calm {calm['seconds']:.0f} s"
    )
    assert ended["state"] == "succeeded"
    counted = (ended["infer"]["rows"], ended["infer"]["errors"])
    assert counted == (count - len(broken), len(broken)), f"{counted}: {ended['infer']}"
    found = output(ended["results"])
    assert len(found.rows) == count - len(broken)
    assert found.errors.keys() == expected.errors.keys()
    assert len(found.errors) == len(broken)
    assert_same_predictions(found, expected)
    return found


def slow(place: Any) -> dict[str, Any]:
    """Settings of a run that takes 10 ms for each input."""
    write_slow_class(place.folder / "slow.py")
    changed = {"model": {"function": "slow:Model"}, "postprocess": None}
    return {**changed, "limits": ALLOWED, "tune": {"item": 20, "batch": 4}}

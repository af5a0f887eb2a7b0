"""Memory of an inference: flat however many inputs there are; a worker with too little of it goes on with less."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from faults.pictures import fill, inference, output, picture, workers, write_model

MEGABYTE = 1 << 20
DRIVER_BYTES = 500 * MEGABYTE
GROWTH_BYTES = 32 * MEGABYTE
"""How much more a worker may hold late in a run than early: pieces that its allocator keeps."""
INPUTS = 200_000


class Watch:
    """Samples the memory of a driver and its workers until the driver ends."""

    def __init__(self, place, process):
        self.driver_peak = 0
        self.samples: dict[int, list[tuple[float, int]]] = {}
        """Of each worker: when, and how much it held."""
        self._place, self._process = place, process
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def join(self):
        self._thread.join()

    def _run(self):
        while self._process.poll() is None:
            self.driver_peak = max(self.driver_peak, status(self._process.pid, "VmHWM"))
            for pid in workers(self._place, self._process.pid):
                held = status(pid, "VmRSS")
                if held:
                    self.samples.setdefault(pid, []).append((time.monotonic(), held))
            time.sleep(0.2)  # Between samples; nothing is being waited for.


def status(pid, field):
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return 1024 * max((int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), default=0)


def growth(samples):
    """From the second fifth of a worker's life, when it has its model, to the last: medians."""
    fifth = len(samples) // 5
    early, late = (
        sorted(held for _, held in part)[fifth // 2]
        for part in (samples[fifth : 2 * fifth], samples[-fifth:])
    )
    return early, late


@pytest.mark.long
@pytest.mark.timeout(600)
def test_two_hundred_thousand_inputs_need_no_more_memory_than_few(place):
    fill(place.folder / "in", INPUTS)
    write_model(place.folder / "model.onnx")
    process = place.start("run", inference(place, limits={"errors": "1%"}), "--json")
    watch = Watch(place, process)
    out, err = process.communicate(timeout=280)
    watch.join()
    assert process.returncode == 0, out + err
    assert f'"rows": {INPUTS - INPUTS // 400}' in out
    grown = {pid: growth(samples) for pid, samples in watch.samples.items() if len(samples) >= 25}
    print(f"driver at most {watch.driver_peak / MEGABYTE:.0f} MB; workers early and late, in MB:")
    print([tuple(round(held / MEGABYTE) for held in pair) for pair in grown.values()])
    assert grown
    assert watch.driver_peak < DRIVER_BYTES
    for early, late in grown.values():
        assert late - early < GROWTH_BYTES


def test_a_batch_too_large_for_memory_is_halved_until_it_fits(place):
    fill(place.folder / "in", 300)
    place.write(
        "mine.py",
        """
        class Model:
            def __call__(self, batch):
                if len(batch) > 10:
                    raise MemoryError("no room for so many")
                return {"size": [len(batch)] * len(batch)}
        """,
    )
    changed = {"model": {"function": "mine:Model"}, "postprocess": None}
    ended = place.json("run", inference(place, tune={"batch": 64, "item": 100}, **changed), "--json")
    assert (ended["infer"]["rows"], ended["infer"]["errors"]) == (300, 0)
    assert max(row["size"] for row in output(place.folder / "out").rows.values()) == 8


def test_a_worker_that_may_not_have_more_memory_goes_on_with_smaller_batches(place):
    """The limit is a real one: the system refuses to give more."""
    fill(place.folder / "in", 120)
    place.write(
        "mine.py",
        """
        import numpy as np
        class Model:
            def __call__(self, batch):
                held = np.ones((len(batch), 40 << 20), np.uint8)
                return {"size": [len(held)] * len(batch)}
        """,
    )
    changed = {"model": {"function": "mine:Model"}, "postprocess": None, "resources": {"memory": "800MB"}}
    ended = place.json("run", inference(place, tune={"batch": 32, "item": 64}, **changed), "--json")
    assert (ended["infer"]["rows"], ended["infer"]["errors"]) == (120, 0)
    assert max(row["size"] for row in output(place.folder / "out").rows.values()) in (4, 8, 16)


def test_an_input_that_needs_more_memory_than_there_is_is_an_error_of_its_own(place):
    fill(place.folder / "in", 60)
    (place.folder / "in" / "huge.jpg").write_bytes(picture(1, size=40))
    place.write(
        "mine.py",
        """
        import numpy as np
        class Model:
            def __call__(self, batch):
                if any(image.size == (40, 40) for image in batch):
                    np.ones(4 << 30, np.uint8)
                return {"size": [len(batch)] * len(batch)}
        """,
    )
    changed = {"model": {"function": "mine:Model"}, "preprocess": None, "postprocess": None}
    changed |= {"resources": {"memory": "1GB"}, "limits": {"errors": "5%"}}
    place.json("run", inference(place, tune={"batch": 8, "item": 61}, **changed), "--json")
    found = output(place.folder / "out")
    assert found.errors.keys() == {"in/huge.jpg"}
    assert found.errors["in/huge.jpg"].startswith("there is not enough memory for it")
    assert len(found.rows) == 60
    assert max(row["size"] for row in found.rows.values()) > 1


def test_workers_for_which_there_is_no_room_leave_the_work_to_the_others(place):
    """A stand-in for a GPU that has memory for one copy of the model, whoever comes first."""
    fill(place.folder / "in", 200)
    place.write(
        "mine.py",
        """
        import fcntl
        import time

        class Model:
            def __init__(self):
                self._room = open("room", "w")
                try:
                    fcntl.flock(self._room, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise MemoryError("no room for a second one") from None

            def __call__(self, batch):
                time.sleep(0.002 * len(batch))
                return {"size": [len(batch)] * len(batch)}
        """,
    )
    changed = {"model": {"function": "mine:Model"}, "postprocess": None}
    ended = place.json("run", inference(place, tune={"item": 10}, **changed), "--json")
    assert (ended["infer"]["rows"], ended["infer"]["errors"]) == (200, 0)
    [workers] = [each for each in ended["infer"]["decisions"] if each["name"] == "workers"]
    assert workers["choice"] == 1
    given = inference(place, tune={"item": 10, "workers": 2}, output="other/", **changed)
    ended = place.json("run", given, "--json")
    assert (ended["infer"]["rows"], ended["infer"]["errors"]) == (200, 0)
    [workers] = [each for each in ended["infer"]["decisions"] if each["name"] == "workers"]
    assert (workers["choice"], workers["why"]) == (1, "there was not enough memory for the 2 that are given")


KILLER = """
    import os, signal
    class Model:
        def __call__(self, batch):
            if any(image.size == (40, 40) for image in batch):
                os.kill(os.getpid(), signal.SIGKILL)
            return {"size": [len(batch)] * len(batch)}
"""


@pytest.mark.long
@pytest.mark.parametrize("killers", [1, 3])
def test_an_input_that_kills_whoever_tries_it_is_left_out_and_all_others_are_done(place, killers):
    fill(place.folder / "in", 200)
    for number in range(killers):
        (place.folder / "in" / f"poison{number}.jpg").write_bytes(picture(number, size=40))
    place.write("mine.py", KILLER)
    changed = {"model": {"function": "mine:Model"}, "preprocess": None, "postprocess": None}
    changed |= {"limits": {"errors": "5%"}, "tune": {"batch": 16, "item": 50}}
    ended = place.json("run", inference(place, **changed), "--json")
    found = output(place.folder / "out")
    assert found.errors.keys() == {f"in/poison{number}.jpg" for number in range(killers)}
    reasons = set(found.errors.values())  # Once one is found, one death is enough for the others.
    assert "2 workers died of it" in reasons
    assert reasons <= {"1 worker died of it", "2 workers died of it"}
    assert len(found.rows) == 200
    assert ended["items"]["failed"] == 0

"""Memory of a GPU that workers share: it runs out for batches, for models, because of others, and no row is lost.

The GPU is pretended (see `pretended/`): its memory is counted, and torch raises what it raises for CUDA. All else is
real: the command, the workers, torch.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import warnings
from pathlib import Path

import pytest

from faults.pictures import fill, inference, name_of, output, workers
from shoal.planner.tuner.batches import MARGIN

pytestmark = pytest.mark.torch

INPUTS = 600
BROKEN = 1
MANY = 5000
CONTEXT, MODEL, EACH = 512, 100, 40
"""Megabytes of a process, a copy of the model, and each input of a batch."""
NETWORK = {"model": {"torchscript": "model.pt"}, "limits": {"errors": "1%"}}


class Gpu:
    """One that all processes of a place have, or several of them."""

    def __init__(
        self, place, megabytes: int, *, each_s: float = 0.0, count: int = 1, told: int | None = None
    ) -> None:
        self._bytes = megabytes << 20
        self.pools = [place.folder / f"pool.{number}" for number in range(count)]
        for pool in self.pools:
            pool.write_text("{}")
        pretended = str(Path(__file__).parent / "pretended")
        tools = place.write("tools/nvidia-smi", f"#!/bin/sh\necho GPU-0, {told or megabytes}\n")
        tools.chmod(0o755)
        search = [pretended, *filter(None, [os.environ.get("PYTHONPATH")])]
        place.environment |= {
            "PRETENDED_GPU": str(place.folder / "pool"),
            "PRETENDED_GPU_MB": f"{megabytes} {CONTEXT} {MODEL} {EACH}",
            "PRETENDED_GPU_EACH_S": str(each_s),
            "CUDA_VISIBLE_DEVICES": ",".join(str(number) for number in range(count)),
            "PYTHONPATH": os.pathsep.join(search),
            "PATH": os.pathsep.join([str(tools.parent), os.environ["PATH"]]),
        }

    def held(self, number: int = 0) -> dict[str, int]:
        """Bytes by process."""
        with self.pools[number].open() as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            return dict(json.load(file))

    def fill(self) -> None:
        """Somebody else takes all that is left, for good."""
        with self.pools[0].open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            held = {pid: size for pid, size in json.load(file).items() if os.path.exists(f"/proc/{pid}")}
            held[str(os.getpid())] = self._bytes - sum(held.values())
            file.seek(0)
            file.truncate()
            json.dump(held, file)


@pytest.fixture
def network(place):
    """A place with images and a TorchScript model."""
    import torch

    class Bright(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            bright = images.mean((1, 2, 3))
            return torch.stack([0.5 - bright, bright - 0.5], 1)

    fill(place.folder / "in", INPUTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is on its way out.
        torch.jit.save(torch.jit.script(Bright()), str(place.folder / "model.pt"))
    return place


def decisions(ended) -> dict[str, tuple]:
    """Each choice, and why."""
    return {each["name"]: (each["choice"], each["why"]) for each in ended["infer"]["decisions"]}


def assert_whole(place, ended) -> None:
    assert (ended["infer"]["rows"], ended["infer"]["errors"]) == (INPUTS - BROKEN, BROKEN)
    assert len(output(place.folder / "out").rows) == INPUTS - BROKEN


def test_batches_and_workers_that_a_gpu_has_no_memory_for_become_fewer(network):
    """Four workers are given, and a batch of which the GPU holds half, once."""
    Gpu(network, CONTEXT + MODEL + 32 * EACH, each_s=0.005)
    tune = {"batch": 64, "workers": 4, "item": 64}
    changed = {**NETWORK, "resources": {"cpu": 0.5}}
    ended = network.json("run", inference(network, tune=tune, **changed), "--json")
    assert_whole(network, ended)
    assert 1 <= decisions(ended)["workers"][0] < 4
    assert decisions(ended)["workers"][1] == "there was not enough memory for the 4 that are given"


def test_fewer_workers_share_a_gpu_of_which_others_hold_the_most(network):
    """Four have room for the model, and hardly for a batch; it is not seen how much others hold."""
    Gpu(network, 4 * (CONTEXT + MODEL + 4 * EACH), each_s=0.003, told=40_000)
    broken = fill(network.folder / "many", MANY)
    changed = {**NETWORK, "resources": {"cpu": 0.5}, "input": {"images": "many/"}}
    ended = network.json("run", inference(network, tune={"item": 64, "workers": 4}, **changed), "--json")
    assert (ended["infer"]["rows"], ended["infer"]["errors"]) == (MANY - len(broken), len(broken))
    assert decisions(ended)["workers"][0] in (2, 3)
    assert decisions(ended)["batch"][0] >= 8


def test_what_is_found_out_stays_within_the_memory_of_the_gpu(network):
    Gpu(network, round(2 * (CONTEXT + MODEL + 40 * EACH) / (1 - MARGIN)), each_s=0.001)
    ended = network.json("run", inference(network, tune={"item": 120}, **NETWORK), "--json")
    assert_whole(network, ended)
    batch = decisions(ended)["batch"][0]
    assert 4 <= batch <= 40, ended["infer"]["decisions"]
    assert "on a GPU 2 x" in decisions(ended)["memory"][1]


def test_an_input_that_makes_a_gpu_useless_to_its_process_is_the_only_one_that_is_lost(network):
    """As an assertion in a kernel does: after it all fails in that process, whatever it is given."""
    from PIL import Image

    Gpu(network, 4 * (CONTEXT + MODEL + 64 * EACH))
    white = network.folder / "in" / name_of(300)
    white.unlink()
    Image.new("RGB", (24, 24), (255, 255, 255)).save(white)
    ended = network.json("run", inference(network, tune={"item": 60, "workers": 2}, **NETWORK), "--json")
    assert (ended["infer"]["rows"], ended["infer"]["errors"]) == (INPUTS - BROKEN - 1, BROKEN + 1)
    errors = output(network.folder / "out").errors
    assert [reason for path, reason in errors.items() if path.endswith(name_of(300))] == [
        "2 workers died of it"
    ]


def test_two_workers_of_a_machine_with_two_gpus_use_both(network):
    """There is a place for two at each of them, and places are given at the first one first."""
    gpu = Gpu(network, 4 * (CONTEXT + MODEL + 64 * EACH), each_s=0.005, count=2)
    changed = {**NETWORK, "resources": {"cpu": 0.5}}
    workload = inference(network, tune={"workers": 2, "batch": 8, "item": 40}, **changed)
    ended = network.json("run", workload, "--json")
    assert_whole(network, ended)
    assert all(
        gpu.held(number) for number in range(2)
    )  # One that was ready sooner may have begun at the first.


def test_a_worker_that_dies_while_others_fill_the_gpu_is_done_without(network):
    gpu = Gpu(network, 4 * (CONTEXT + MODEL), each_s=0.01)
    tune = {"batch": 4, "workers": 2, "item": 20}
    process = network.start("run", inference(network, tune=tune, **NETWORK), "--json")
    network.until(lambda: len(gpu.held()) == 2, process)
    [one, _] = workers(network, process.pid)
    os.kill(one, signal.SIGKILL)
    network.until(lambda: not os.path.exists(f"/proc/{one}"))
    gpu.fill()  # Before the next one has imported torch.
    ended = json.loads(network.end(process, code=0).stdout)
    assert_whole(network, ended)
    assert decisions(ended)["workers"][0] == 1

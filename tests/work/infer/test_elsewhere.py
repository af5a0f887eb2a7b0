"""Where workers are: what is installed here says nothing of other machines, nor of what `requirements:` brings."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal import spec as specs
from shoal.api import runs, workloads
from shoal.api.machines import Machines
from shoal.engine.workers.runner import Failed
from shoal.errors import SpecError
from shoal.model import Decision, Node
from shoal.model.advice import Setting
from shoal.work.infer.job import InferJob
from shoal.work.infer.worker.batch_prediction import Task
from shoal.work.infer.worker.model_cache import Holding
from shoal.work.models import models

ONNX = b"\x08\x08\x12\x04test"
"""The beginning of an ONNX file, as far as anybody looks who does not load it."""
WORKLOAD = """\
kind: infer
name: photos
input: {images: photos}
model: {onnx: model.onnx}
preprocess: {image: {size: 8}}
output: out
"""
LAB = """\
kind: cluster
name: lab
provider: local
engine: embedded
nodes:
  - {host: plain, cpu: 2, memory: 1GiB}
  - {host: fast, cpu: 2, gpu: 1, memory: 1GiB}
"""
PLAIN, FAST = Node("plain", 2, 1 << 30), Node("fast", 2, 1 << 30, gpu=1)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".shoal").mkdir()  # So that none further up is found.
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").touch()
    (tmp_path / "model.onnx").write_bytes(ONNX)
    (tmp_path / "photos.yaml").write_text(WORKLOAD)
    (tmp_path / "lab.yaml").write_text(LAB)


def job_of(*sets: str) -> InferJob:
    found = specs.loads(WORKLOAD, folder=str(Path.cwd()), kind="infer", sets=sets)
    assert isinstance(found, specs.Infer)
    return InferJob(found, None)


def device(job: InferJob, nodes: list[Node], *, here: bool = True) -> Decision | None:
    job.fit(nodes, here=here)
    decisions = job.plan(nodes, None).decisions
    return next((decision for decision in decisions if decision.name == "device"), None)


def knows_cuda(monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
    """What is installed where the tests run is not the question here."""
    monkeypatch.setattr("shoal.work.infer.job.is_installed", lambda library: True)
    monkeypatch.setattr("shoal.work.infer.job.knows_cuda", lambda library: answer)


# GPUs.


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("{onnx: model.onnx}", "install onnxruntime-gpu instead of onnxruntime"),
        ("{torchscript: model.pt}", "install a build of torch with CUDA"),
    ],
)
def test_a_gpu_that_what_is_installed_cannot_use_is_named_in_the_plan(
    monkeypatch: pytest.MonkeyPatch, model: str, words: str
) -> None:
    knows_cuda(monkeypatch, False)
    job = job_of(f"model={model}")
    found = device(job, [PLAIN, FAST])
    assert found is not None
    assert (found.choice, job.need.gpu) == ("cpu", 0)
    assert found.why.startswith("fast has a GPU; the ")
    assert found.why.endswith(f"that is installed cannot use it: {words}")


def test_virtual_nodes_with_gpus_show_it_from_the_file_to_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    knows_cuda(monkeypatch, False)
    decisions = runs.plan("photos.yaml", cluster="lab.yaml").decisions
    assert [each.choice for each in decisions if each.name == "device"] == ["cpu"]


@pytest.mark.parametrize("sets", ["model.device=cpu", "resources.gpu=0"])
def test_a_gpu_that_nobody_wants_is_not_missed(monkeypatch: pytest.MonkeyPatch, sets: str) -> None:
    knows_cuda(monkeypatch, False)
    assert device(job_of(sets), [FAST]) is None


def test_nodes_without_gpus_are_no_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    knows_cuda(monkeypatch, False)
    assert device(job_of(), [PLAIN]) is None


def test_a_gpu_that_is_used_is_shared_by_all_workers_of_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    knows_cuda(monkeypatch, True)
    job = job_of()
    assert device(job, [FAST]) is None
    assert job.need.gpu == 0.5
    found = device(job_of(), [PLAIN, FAST])
    assert found == Decision(
        "device",
        "cuda",
        "fast has a GPU; nodes without one get no work; with model.device: cpu all of them do",
    )


def test_other_machines_are_not_judged_by_what_is_installed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    knows_cuda(monkeypatch, False)
    job = job_of()
    found = device(job, [FAST], here=False)
    assert found is not None
    assert (found.choice, job.need.gpu) == ("cuda", 0.5)
    assert found.why.endswith(
        "used if what is installed there can: that takes onnxruntime-gpu instead of onnxruntime"
    )


def test_nor_is_what_the_workload_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    knows_cuda(monkeypatch, False)
    job = job_of("requirements=[onnxruntime-gpu]")
    found = device(job, [FAST])
    assert found is not None
    assert (found.choice, job.need.gpu) == ("cuda", 0.5)
    assert "used if what requirements: brings can" in found.why


def test_a_class_is_told_of_a_gpu_wherever_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    knows_cuda(monkeypatch, False)
    job = job_of("model={function: mine:Model}")
    assert device(job, [FAST]) is None
    assert job.need.gpu == 0.5


# Runtimes.


class Elsewhere(Machines):
    """A cluster whose nodes are other machines."""

    embedded = here = False


def lacks(monkeypatch: pytest.MonkeyPatch, *libraries: str) -> None:
    monkeypatch.setattr("shoal.api.workloads._here", lambda name: name not in libraries)
    monkeypatch.setattr("shoal.work.models.libraries.is_installed", lambda name: name not in libraries)
    monkeypatch.setattr("shoal.work.models.onnx.is_installed", lambda name: name not in libraries)


def test_a_runtime_that_is_pinned_has_to_be_installed_here_and_the_refusal_says_how(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lacks(monkeypatch, "openvino")
    with pytest.raises(SpecError, match=r"tune\.runtime: there is no module 'openvino'") as told:
        runs.check("photos.yaml", sets=["tune={runtime: openvino}"])
    assert "pip install 'shoal[openvino]'" in str(told.value.hint)


def test_it_need_not_be_installed_where_only_the_driver_is(monkeypatch: pytest.MonkeyPatch) -> None:
    lacks(monkeypatch, "openvino", "onnx", "onnxruntime", "torch")
    for sets in ("tune={runtime: openvino}", "tune=auto"):
        prepared = runs.workloads.from_file("photos.yaml", [sets])
        assert workloads.problems(prepared.job, Elsewhere([PLAIN], "lab")) == []


@pytest.mark.parametrize(
    ("model", "sets", "offered"),
    [
        ("{onnx: model.onnx}", (), ("as-given", "openvino")),
        ("{torchscript: model.pt}", (), ("as-given", "frozen", "onnxruntime", "openvino")),
        ("{torchscript: model.pt, precision: float16}", (), ("as-given", "frozen", "openvino")),
        ("{function: mine:Model}", (), ("as-given",)),
        ("{torchscript: model.pt}", ("tune={runtime: openvino}",), ("openvino",)),
    ],
)
def test_nodes_that_are_other_machines_are_offered_all_that_suits_the_model(
    monkeypatch: pytest.MonkeyPatch, model: str, sets: tuple[str, ...], offered: tuple[str, ...]
) -> None:
    lacks(monkeypatch, "openvino", "onnx", "onnxruntime")
    job = job_of(f"model={model}", *sets)
    here = job.runtimes()
    job.fit([PLAIN], here=False)
    assert job.runtimes() == offered
    assert job.missing() == (), "what is missing here is not missing there"
    assert sets or not {"openvino", "onnxruntime"} & set(here)


def test_on_gpus_of_other_machines_only_what_runs_there_is_offered() -> None:
    job = job_of("model={torchscript: model.pt}")
    job.fit([FAST], here=False)
    assert job.runtimes() == ("as-given", "frozen")


def test_a_worker_that_lacks_the_runtime_that_was_pinned_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lacks(monkeypatch, "openvino")
    ways = models(job_of().spec.model, str(Path.cwd()), "", gpu=False)
    with pytest.raises(
        Failed, match=r"openvino, which tune\.runtime asks for.*pip install 'shoal\[openvino\]'"
    ):
        Holding(ways, pinned=True).get(Setting("openvino", 1, 1), lambda: None, Task().loading)

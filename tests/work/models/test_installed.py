"""Ways to run a model that are not there because a package is missing: named, with what to install."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from shoal import spec as specs
from shoal.model import Need, Node
from shoal.spec import Tune
from shoal.spec.shared_sections import ModelFile
from shoal.work.infer.job import InferJob
from shoal.work.infer.tuners import Tuning
from shoal.work.models import models

ONNX_RUNTIME = "onnxruntime is not installed: pip install 'shoal[onnx]'"
ONNX = "onnxruntime needs onnx, too: pip install 'shoal[onnx]'"
OPENVINO = "openvino is not installed: pip install 'shoal[openvino]'"
LIBRARIES = ("onnx", "onnxruntime", "openvino", "torch")


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes it look as if only these of the libraries were installed, whatever is."""

    def only(*there: str) -> None:
        def look(name: str) -> Any:
            if name in LIBRARIES:
                return find_spec("email") if name in there else None
            return find_spec(name)

        monkeypatch.setattr("shoal.work.models.libraries.find_spec", look)

    return only


@pytest.mark.parametrize(
    ("there", "offered", "missing"),
    [
        (("torch",), (), (ONNX_RUNTIME, OPENVINO)),
        (("torch", "onnxruntime"), (), (ONNX, OPENVINO)),
        (("torch", "onnxruntime", "onnx"), ("onnxruntime",), (OPENVINO,)),
        (("torch", "openvino"), ("openvino",), (ONNX_RUNTIME,)),
        (LIBRARIES, ("onnxruntime", "openvino"), ()),
    ],
    ids=lambda value: " ".join(value)[:40] or "none",
)
def test_of_torchscript_what_is_missing_is_not_offered_and_named(
    only: Any, there: tuple[str, ...], offered: tuple[str, ...], missing: tuple[str, ...]
) -> None:
    only(*there)
    found = models(ModelFile(torchscript="m.pt"), ".", "", gpu=False)
    assert (found.runtimes(), found.missing()) == (("as-given", "frozen", *offered), missing)


def test_what_cannot_compute_in_that_precision_is_not_missed(only: Any) -> None:
    only("torch")
    assert models(ModelFile(torchscript="m.pt", precision="float16"), ".", "", gpu=False).missing() == (
        OPENVINO,
    )


def test_of_onnx_openvino_is_named_unless_there_is_a_gpu(only: Any) -> None:
    only("onnxruntime")
    model = ModelFile(onnx="m.onnx")
    assert models(model, ".", "", gpu=False).missing() == (OPENVINO,)
    assert models(model, ".", "", gpu=True).missing() == ()
    only("onnxruntime", "openvino")
    assert models(model, ".", "", gpu=False).missing() == ()


def test_a_function_misses_nothing(only: Any) -> None:
    only()
    assert models(ModelFile(function="mine:P"), ".", "", gpu=False).missing() == ()


def test_a_plan_names_what_could_be_tried_if_it_were_installed(only: Any, tmp_path: Path) -> None:
    only("onnxruntime")
    text = "kind: infer\ninput: {parquet: a}\nmodel: {onnx: m.onnx}\noutput: out/\n"

    def runtime(*sets: str) -> tuple[Any, str]:
        spec = specs.loads(text, folder=tmp_path, sets=sets, kind="infer")
        assert isinstance(spec, specs.Infer)
        decisions = InferJob(spec, None).plan([], None).decisions
        return next((each.choice, each.why) for each in decisions if each.name == "runtime")

    assert runtime() == ("as-given", f"nothing else that could run this model is installed; {OPENVINO}")
    assert runtime("runtime=as-given") == ("as-given", "the workload says so")


def test_what_was_found_out_names_it_too() -> None:
    node = Node("here", 2, 8 << 30)
    tuning = Tuning(Tune(), ("as-given",), Need(cpu=1), {}, (ONNX, OPENVINO), nodes=lambda: [node])
    tuning.active("here", 2)
    whys = {decision.name: decision.why for decision in tuning.decisions()}
    assert whys["runtime"] == f"the only one; {ONNX}; {OPENVINO}"
    assert not any(OPENVINO in why for name, why in whys.items() if name != "runtime")

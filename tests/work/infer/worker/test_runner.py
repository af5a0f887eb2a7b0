"""What a worker does with an item as it is handed out: nothing where it is done, and all that was asked with it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from shoal.engine.workers.runner import Failed, NoRoom, Work
from shoal.model.advice import AS_GIVEN, Advice, Setting, Step
from shoal.spec.shared_sections import Input
from shoal.work.infer.item_fields import ADVICE, COMPARE, COUNT, FACTS, HEARD, LIST, TURN
from shoal.work.infer.worker import runner as runners
from shoal.work.infer.worker.runner import InferRunner
from shoal.work.inputs import listing
from work.infer.worker.test_worker_parts import Crowded, Double, Models

WORKLOAD = """\
kind: infer
name: lengths
input: {text: words.txt}
model: {function: "counted:Length"}
output: out/
"""
MODEL = """\
class Length:
    def __call__(self, batch):
        with open("calls", "a") as file:
            print(len(batch), file=file)
        return {"length": [len(text) for text in batch]}
"""


NUMBERS = "kind: infer\ninput: {jsonl: rows.jsonl, column: x}\nmodel: {onnx: m.onnx}\noutput: out/\n"


def work(attempt: int, listed: Mapping[str, Any]) -> Work:
    advice = Advice((Step(Setting(AS_GIVEN, 2, 1), 2),), 1, 1)
    params = {COUNT: 2, LIST: listed, ADVICE: advice.plain(), TURN: 1}
    return Work(1, attempt, "i00001", params, None, report=lambda metrics, step: None)


def all_of(given: Input) -> Mapping[str, Any]:
    """The inputs as one item."""
    found = listing(given, ".", ordered=True, limit=None, now=time.monotonic)
    try:
        until = time.monotonic() + 30
        while (listed := found.take(10)) is None:
            assert time.monotonic() < until
    finally:
        found.close()
    return listed


def test_a_part_that_is_there_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "words.txt").write_text("one\nthree\n")
    (tmp_path / "counted.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    listed = all_of(Input(text="words.txt"))
    told = [
        InferRunner(WORKLOAD, "w.yaml", [], str(tmp_path), "lengths-aaaa", gpu=False).run(
            work(attempt, listed)
        )
        for attempt in (1, 2)
    ]
    assert (tmp_path / "calls").read_text() == "2\n"
    assert told[0]["rows"] == told[1]["rows"] == 2
    assert told[1][FACTS]["attempt"] == 1


@pytest.fixture
def numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Any]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"x": number}) + "\n" for number in range(3)))
    return all_of(Input(jsonl="rows.jsonl", column=("x",)))


def test_a_runtime_is_compared_and_loaded_with_signs_of_life_as_the_item_asks(
    numbers: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeats = threading.Semaphore(0)

    class Slow(Models):
        def load(self, setting: Setting, example: Any = None) -> Any:
            assert heartbeats.acquire(timeout=10), "nothing was heard of it"
            return super().load(setting, example)

    models = Slow(as_given=Double(), openvino=Double())
    monkeypatch.setattr(runners, "models", lambda *_, **__: models)
    advice = Advice((Step(Setting("openvino", 8, 1)),)).plain()
    params = {LIST: numbers, ADVICE: advice, COMPARE: ["openvino"]}
    worker = InferRunner(NUMBERS, "n.yaml", ["limits.timeout=100ms"], ".", "n-1", gpu=False)
    told = worker.run(Work(1, 1, "i", params, None, report=lambda *_: heartbeats.release()))
    assert told[HEARD]["differences"] == {"openvino": 0.0}
    assert set(told[HEARD]["load_s"]) == {"openvino", "as-given"}


@pytest.mark.parametrize(
    ("meant", "sharing", "room", "error"),
    [(4, 4, 1, NoRoom), (4, 1, 1, None), (4, 1, 0, NoRoom), (1, 1, 0, Failed)],
    ids=["at one GPU", "each at its own", "full of others", "full, and alone"],
)
def test_how_many_others_there_are_comes_with_the_item(
    numbers: Mapping[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    meant: int,
    sharing: int,
    room: int,
    error: type[Exception] | None,
) -> None:
    """`room` is how many inputs the GPU takes at once, after a batch of all went well."""
    model = Crowded()
    monkeypatch.setattr(runners, "models", lambda *_, **__: Models(as_given=model))
    params = {LIST: numbers, ADVICE: Advice((Step(Setting(AS_GIVEN, 3, 1)),), 1, meant, sharing).plain()}
    worker = InferRunner(NUMBERS, "n.yaml", [], ".", "n-1", gpu=True)
    works = [Work(number, 1, "i", params, None, report=lambda *_: None) for number in (1, 2)]
    assert worker.run(works[0])["rows"] == 3
    model.room = room
    with pytest.raises(error) if error else nullcontext():
        assert worker.run(works[1])["rows"] == 3

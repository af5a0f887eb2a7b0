"""What a worker does with an item that another one has finished: nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from shoal.engine.workers.runner import Work
from shoal.model.advice import AS_GIVEN, Advice, Setting, Step
from shoal.spec.shared_sections import Input
from shoal.work.infer.item_fields import ADVICE, COUNT, FACTS, LIST, TURN
from shoal.work.infer.worker.runner import InferRunner
from shoal.work.inputs import listing

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


def work(attempt: int, listed: Mapping[str, Any]) -> Work:
    advice = Advice((Step(Setting(AS_GIVEN, 2, 1), 2),), 1, 1)
    params = {COUNT: 2, LIST: listed, ADVICE: advice.plain(), TURN: 1}
    return Work(1, attempt, "i00001", params, None, report=lambda metrics, step: None)


def test_a_part_that_is_there_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "words.txt").write_text("one\nthree\n")
    (tmp_path / "counted.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = listing(Input(text="words.txt"), ".", ordered=True, limit=None, now=time.monotonic)
    try:
        until = time.monotonic() + 30
        while (listed := found.take(10)) is None:
            assert time.monotonic() < until
    finally:
        found.close()
    told = [
        InferRunner(WORKLOAD, "w.yaml", [], str(tmp_path), "lengths-aaaa", gpu=False).run(
            work(attempt, listed)
        )
        for attempt in (1, 2)
    ]
    assert (tmp_path / "calls").read_text() == "2\n"
    assert told[0]["rows"] == told[1]["rows"] == 2
    assert told[1][FACTS]["attempt"] == 1

"""An inference keeps the contract of kinds."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from shoal.testing import KindContract

INFERENCE = """\
kind: infer
name: told
input: {text: lines.txt}
model: {function: "told:Model"}
output: out/
tune: {item: 2, workers: 2}
"""
MODEL = """\
from shoal.testing.told_item import perform

class Model:
    def __call__(self, batch):
        for text in batch:
            perform(1 + int(text) // 2)
        return {"square": [int(text) ** 2 for text in batch]}
"""


class TestInference(KindContract):
    kind = "infer"
    rows = 8
    wrong: ClassVar = {
        "a class that is not there": "model.function=told:Modal",
        "an input that is not there": "input.text=nope.txt",
    }

    @classmethod
    def write(cls, folder: Path) -> str:
        (folder / "told.yaml").write_text(INFERENCE)
        (folder / "told.py").write_text(MODEL)
        (folder / "lines.txt").write_text("".join(f"{number}\n" for number in range(cls.rows)))
        return "told.yaml"

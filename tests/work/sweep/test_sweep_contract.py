"""A sweep keeps the contract of kinds."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from shoal.testing import KindContract

SWEEP = """\
kind: sweep
name: told
trials: {grid: {number: [1, 2, 3, 4]}}
run: {function: "told:trial"}
objective: {metric: square, goal: max}
limits: {concurrent: 2}
"""
TRIAL = """\
from shoal.testing.told_item import perform

def trial(number):
    perform(number)
    return {"square": number * number}
"""


class TestSweep(KindContract):
    kind = "sweep"
    rows = 4
    wrong: ClassVar = {
        "a function that is not there": "run.function=told:tryal",
        "a table that is not there": "trials={table: nope.csv}",
    }

    @classmethod
    def write(cls, folder: Path) -> str:
        (folder / "told.yaml").write_text(SWEEP)
        (folder / "told.py").write_text(TRIAL)
        return "told.yaml"

"""A process run keeps the contract of kinds."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from shoal.testing import KindContract

PROCESS = """\
kind: process
name: told
input: {text: "lines/*.txt", split: 6B}
job: {function: "told:Squares"}
output: squares.csv
limits: {retries: 0}
"""
JOB = """\
from shoal.testing.told_item import perform

class Squares:
    key = ("square",)

    def map(self, record):
        return [(str(int(record.row["text"]) ** 2), 1)]

    def gather(self, found):
        pairs = [pair for each in found for pair in each]
        perform(1 + int(int(pairs[0][0]) ** 0.5) // 2)
        return pairs

    def finish(self, pairs):
        perform(9)
        for key, value in pairs:
            yield key, value
"""


class TestProcess(KindContract):
    kind = "process"
    rows = 8
    wrong: ClassVar = {
        "a class that is not there": "job.function=told:Square",
        "an input that is not there": "input.text=nope.txt",
        "a job for another input": "job=servers",
        "an option that no job has": "job={addresses: {host: true}}",
        "a folder for a file": "output=lines",
    }

    @classmethod
    def write(cls, folder: Path) -> str:
        (folder / "told.yaml").write_text(PROCESS)
        (folder / "told.py").write_text(JOB)
        (folder / "lines").mkdir()
        for number in range(0, cls.rows, 2):
            (folder / "lines" / f"{number}.txt").write_text(f"{number:02d}\n{number + 1:02d}\n")
        return "told.yaml"

"""A small inference for tests of the command line: twelve lines of text, and classes that do all sorts of things."""

from __future__ import annotations

from pathlib import Path

MODEL = """\
import os
import time

class Loud:
    def __call__(self, batch):
        return [{"said": text.upper()} for text in batch]

class Patient:
    # Waits for somebody to say go.
    def __call__(self, batch):
        while not os.path.exists(os.path.join(os.path.dirname(__file__), "go")):
            time.sleep(0.05)
        return [{"said": text.upper()} for text in batch]

class Slow(Loud):
    def __call__(self, batch):
        time.sleep(0.4)
        return super().__call__(batch)

class Broken:
    def __call__(self, batch):
        raise RuntimeError("no voice")
"""
WORKLOAD = """\
kind: infer
name: loud
input: {text: lines.txt}
model: {function: "loud:Loud"}
output: out/
tune: {item: 3}
"""


def write_loud(folder: Path) -> None:
    (folder / "loud.py").write_text(MODEL)
    (folder / "loud.yaml").write_text(WORKLOAD)
    (folder / "lines.txt").write_text("".join(f"word{number}\n" for number in range(12)))

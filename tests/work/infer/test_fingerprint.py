"""By what an inference is known again: what changes the best way to run it makes it another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal import spec as specs
from shoal.work.infer.fingerprint import fingerprint

WORKLOAD = """\
kind: infer
name: lengths
input: {text: words.txt}
model: {function: "length:Length"}
output: out/
"""


@pytest.mark.parametrize("pin", ["batch: 1", "workers: 1", "threads: 1", "runtime: as-given"])
def test_a_run_that_pins_something_is_not_taken_for_one_that_leaves_it_open(tmp_path: Path, pin: str) -> None:
    pinned = of(tmp_path, f"tune: {{{pin}}}\n")
    assert pinned != of(tmp_path, "")
    assert pinned == of(tmp_path, f"tune: {{{pin}}}\n")


def test_how_long_items_are_does_not_change_what_is_best(tmp_path: Path) -> None:
    assert of(tmp_path, "tune: {item: 5}\n") == of(tmp_path, "tune: auto\n")


def of(folder: Path, more: str) -> str:
    found = specs.loads(WORKLOAD + more, folder=str(folder), kind="infer")
    assert isinstance(found, specs.Infer)
    return fingerprint(found)

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


def of(folder: Path, more: str, *sets: str) -> str:
    found = specs.loads(WORKLOAD + more, folder=str(folder), kind="infer", sets=sets)
    assert isinstance(found, specs.Infer)
    return fingerprint(found)


def test_a_class_that_was_changed_is_another_model(tmp_path: Path) -> None:
    before = of(tmp_path, "")
    (tmp_path / "length.py").write_text("class Length: ...\n")
    first = of(tmp_path, "")
    (tmp_path / "length.py").write_text("class Length:\n    layers = 50\n")
    assert len({before, first, of(tmp_path, "")}) == 3
    (tmp_path / "length.py").write_text("class Length: ...\n")
    assert of(tmp_path, "") == first


def test_the_same_class_in_another_folder_is_the_same_model(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "length.py").write_text("class Length: ...\n")
    assert of(tmp_path / "a", "") == of(tmp_path / "b", "")
    (tmp_path / "c" / "length.py").write_text("class Length: 'Another one.'\n")
    assert of(tmp_path / "c", "") != of(tmp_path / "a", "")


def test_a_module_in_a_package_counts_with_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "length.py").write_text("class Length: ...\n")
    first = of(tmp_path, "", "model.function=mine.length:Length")
    (tmp_path / "mine" / "length.py").write_text("class Length: 'Another one.'\n")
    assert of(tmp_path, "", "model.function=mine.length:Length") != first


def test_a_function_that_prepares_inputs_counts_too(tmp_path: Path) -> None:
    (tmp_path / "ready.py").write_text("def prepare(x): return x\n")
    more = 'preprocess: {function: "ready:prepare"}\n'
    first = of(tmp_path, more)
    (tmp_path / "ready.py").write_text("def prepare(x): return [x]\n")
    assert of(tmp_path, more) != first

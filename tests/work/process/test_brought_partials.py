"""Partials that come with what items leave behind, and are merged where the result goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal import spec as specs
from shoal.errors import FileError
from shoal.files.turns import FirstTurn
from shoal.spec.process import ResultFile
from shoal.work.process.brought_partials import clear, merge
from shoal.work.process.input_files import input_ranges
from shoal.work.process.item_params import map_params
from shoal.work.process.jobs import built_in
from shoal.work.process.result_place import ResultPlace
from shoal.work.process.steps import Steps

WORKLOAD = "kind: process\nname: w\ninput: {text: in/*.txt}\njob: words\noutput: out/words.csv\n"


@pytest.fixture
def items(tmp_path: Path) -> Path:
    """Folders of two items, as a worker leaves them."""
    (tmp_path / "in").mkdir()
    for name, text in (("a", "one two\ntwo\n"), ("b", "two three\n")):
        (tmp_path / "in" / f"{name}.txt").write_text(text)
    spec = specs.loads(WORKLOAD, folder=tmp_path, label="w.yaml")
    steps = Steps(WORKLOAD, "w.yaml", [], str(tmp_path), "w-1", brought=True)
    for number, each in enumerate(input_ranges(spec.input, str(tmp_path)), 1):
        own = tmp_path / "items" / f"m{number}"
        own.mkdir(parents=True)
        steps.do(number, map_params([each]), lambda: None, str(own))
    return tmp_path / "items"


def test_what_items_left_becomes_the_result_and_goes(items: Path) -> None:
    place = ResultPlace(ResultFile(path="out/words.csv"), str(items.parent), "w-1")
    assert merge(built_in("words", {}), str(items), ["m1", "m2"], place, FirstTurn()) == 3
    assert (items.parent / "out" / "words.csv").read_text() == "word,count\ntwo,3\none,1\nthree,1\n"
    assert not list((items.parent / "out").glob(".*")), "nothing was written beside the result"
    (items / "m1" / "mine.txt").write_text("kept")
    clear(str(items))
    assert [path.name for path in items.rglob("*") if path.is_file()] == ["mine.txt"]


def test_a_partial_that_is_gone_is_named(items: Path) -> None:
    (items / "m2" / "partial.parquet").unlink()
    place = ResultPlace(ResultFile(path="out/words.csv"), str(items.parent), "w-1")
    with pytest.raises(FileError, match=r"m2/partial.parquet is gone"):
        merge(built_in("words", {}), str(items), ["m1", "m2"], place, FirstTurn())

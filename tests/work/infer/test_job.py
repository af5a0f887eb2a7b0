"""An inference as a pool sees it: whose output it may take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from shoal import spec as specs
from shoal.errors import AccessDenied, SpecError, TakenOver, Unreachable
from shoal.files.turns import FirstTurn
from shoal.model import Item, Outcome
from shoal.store import run_folder
from shoal.store.driver import RunLock
from shoal.work import outputs
from shoal.work.infer.infer_run import InferSource
from shoal.work.infer.job import InferJob, prepare
from shoal.work.inputs import Listing
from shoal.work.inputs.base import Piece
from shoal.work.inputs.known import KnownFiles
from shoal.work.inputs.lister import Found
from shoal.work.job import Past
from shoal.work.outputs import PartWriter
from shoal.work.outputs.layout import aside_key, opened, part_key
from shoal.work.protocols import Facts

WORKLOAD = """\
kind: infer
name: lengths
input: {text: words.txt}
model: {function: "length:Length"}
output: out/
"""


@pytest.fixture
def job(tmp_path: Path) -> InferJob:
    (tmp_path / "length.py").write_text("class Length:\n    def __call__(self, batch): return batch\n")
    (tmp_path / "words.txt").write_text("a\n")
    found = specs.loads(WORKLOAD, folder=str(tmp_path), kind="infer")
    assert isinstance(found, specs.Infer)
    return prepare(found)


def test_the_output_of_a_run_that_is_being_driven_is_not_taken(job: InferJob, tmp_path: Path) -> None:
    home = str(tmp_path / ".shoal")
    folder = Path(run_folder(home, "lengths-aaaa"))
    folder.mkdir(parents=True)
    job.begin("lengths-aaaa", home, resumed=False)
    lock = RunLock.take(str(folder / "lock"), run="lengths-aaaa", now=0.0)
    try:
        with pytest.raises(SpecError, match="is the output of run lengths-aaaa, which is running"):
            job.begin("lengths-bbbb", home, resumed=False)
    finally:
        lock.release()
    job.begin("lengths-cccc", home, resumed=False)


RUN = "lengths-aaaa"


class Replaced(NamedTuple):
    """The turn of a driver that has an heir."""

    number: int = 1

    def ensure(self) -> None:
        raise TakenOver("Somebody else drives it by now.")


def part(job: InferJob, seq: int, content: str = "lost") -> None:
    writer = PartWriter(job.spec.output, job.spec.folder, RUN)
    writer.write(seq, 1, content, {"path": [str(seq)]}, {"length": [1]}, [], Facts(0, 0))


def take(source: InferSource) -> Item:
    """The one item that there is."""
    until = time.monotonic() + 30
    while not (items := source.take(1, 1)):
        assert time.monotonic() < until
    return items[0]


def shown(job: InferJob) -> set[int]:
    return outputs.parts_there(job.spec.output, job.spec.folder)


def test_a_resume_goes_on_above_the_numbers_of_all_parts_that_are_there(
    job: InferJob, tmp_path: Path
) -> None:
    """Two of them are of items that were lost with their driver, one of these is aside."""
    job.begin(RUN, str(tmp_path), resumed=False)
    for seq in (2, 7, 9):
        part(job, seq)
    opened(job.spec.output, job.spec.folder).move(part_key(9), aside_key(1, part_key(9)))
    job.begin(RUN, str(tmp_path), resumed=True)
    source, _ = job.source(Past(next_seq=3, waiting=1), lambda: ())
    try:
        assert take(source).seq == 10
        assert job.conclude(iter(()), 1.0, FirstTurn(2)).failed is False
        assert shown(job) == {2}, "a resume takes up what the record knows"
    finally:
        job.close()


def test_a_run_is_over_when_all_its_items_have_ended(job: InferJob, tmp_path: Path) -> None:
    job.begin(RUN, str(tmp_path), resumed=False)
    source, _ = job.source(Past(waiting=1), lambda: ())
    try:
        item = take(source)
        assert source.finished()
        assert not source.is_over()
        source.ended(item, Outcome("stopped"))
        source.ended(item, Outcome("done"))
        assert not source.is_over(), "one was left by an earlier session"
        source.ended(item, Outcome("failed"))
        assert source.is_over()
        part(job, 5)
        job.conclude(iter(()), 1.0, FirstTurn())
        assert shown(job) == set()
    finally:
        job.close()


def test_a_driver_that_was_replaced_is_told_so_and_leaves_the_output_and_its_word_to_the_heir(
    job: InferJob, tmp_path: Path
) -> None:
    job.begin(RUN, str(tmp_path), resumed=False)
    (places,) = job.turns()
    assert (places.take(1, {"driver": 1}), places.take(2, {"driver": 2}), places.highest()) == (True, True, 2)
    source, _ = job.source(Past(turn=Replaced()), lambda: ())
    take(source)
    part(job, 5)
    with pytest.raises(TakenOver):
        job.conclude(iter(()), 1.0, Replaced())
    job.close()
    assert shown(job) == {5}
    with pytest.raises(SpecError, match="may still be running"):
        outputs.claim(job.spec.output, job.spec.folder, "b-2", "home", is_alive=lambda *_: None)


@pytest.mark.parametrize(
    "error", [Unreachable("no answer"), AccessDenied("no rights")], ids=lambda each: type(each).__name__
)
def test_inputs_that_are_out_of_reach_are_no_more_inputs(job: InferJob, error: Exception) -> None:
    def finds() -> Iterator[Piece]:
        raise error

    class OutOfReach(InferJob):
        def list_inputs(self, past: Past) -> Listing:
            return Found(finds, KnownFiles(()), None, time.monotonic)

    assert job.has_more(Past())
    assert not OutOfReach(job.spec, None).has_more(Past())

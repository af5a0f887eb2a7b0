"""An inference as a pool sees it: whose output it may take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal import spec as specs
from shoal.errors import AccessDenied, SpecError, Unreachable
from shoal.store import run_folder
from shoal.store.lock import RunLock
from shoal.work.infer.inputs import Listing
from shoal.work.infer.inputs.base import Piece
from shoal.work.infer.inputs.finding import Found
from shoal.work.infer.inputs.known import KnownFiles
from shoal.work.infer.job import InferJob, prepare
from shoal.work.job import Past

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

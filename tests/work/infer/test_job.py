"""An inference as a pool sees it: whose output it may take."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal import spec as specs
from shoal.errors import SpecError
from shoal.store import run_folder
from shoal.store.lock import RunLock
from shoal.work.infer.job import InferJob, prepare

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

"""The thread that lists inputs ends with its session, however that ends."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from shoal.api import workloads
from shoal.api.machines import Machines
from shoal.api.runs import new_session
from shoal.cluster import this_machine
from shoal.cluster.this_machine import Here
from shoal.engine.base import Engine, Event
from shoal.engine.local.engine import LocalEngine
from shoal.errors import ClusterLost, EngineError
from shoal.work.inputs import lister

WORKLOAD = """\
kind: infer
name: lengths
input: {text: "words/*.txt"}
model: {function: "length:Length"}
output: out/
"""


class Failing(LocalEngine):
    """Something goes wrong as soon as anything is waited for."""

    error: Exception

    def wait(self, timeout_s: float) -> Sequence[Event]:
        raise self.error


class Lent(Machines):
    """This machine, with an engine that fails."""

    def __init__(self, error: Exception) -> None:
        super().__init__([this_machine.this_machine()], "lent")
        self.error = error

    def engine(self, root: str, folder: str, session: str) -> Engine:
        made = Failing(self.nodes, root, scope=self.scope, session=session)
        made.error = self.error
        return made


class NeverGrowing(Lent):
    """What comes after the source cannot be made."""

    def growing(self, *_: object) -> None:
        raise self.error


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> workloads.Prepared:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lister, "MOST_WAITING", 1)
    Path(".shoal").mkdir()
    Path("words").mkdir()
    for number in range(50):
        Path(f"words/{number}.txt").write_text("a\n")
    Path("length.py").write_text("class Length:\n    def __call__(self, batch): return batch\n")
    Path("lengths.yaml").write_text(WORKLOAD)
    return workloads.from_file("lengths.yaml", [], None)


def listing_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "shoal-listing"]


@pytest.mark.parametrize(
    "error", [ClusterLost("gone"), EngineError("odd")], ids=lambda each: type(each).__name__
)
def test_it_ends_when_the_session_fails(prepared: workloads.Prepared, error: Exception) -> None:
    session = new_session(prepared, Lent(error), Here())
    assert listing_threads()
    with pytest.raises(type(error)):
        session.drive()
    assert not listing_threads()


def test_it_ends_when_the_session_cannot_begin(prepared: workloads.Prepared) -> None:
    with pytest.raises(EngineError, match="no more machines"):
        new_session(prepared, NeverGrowing(EngineError("no more machines")), Here())
    assert not listing_threads()

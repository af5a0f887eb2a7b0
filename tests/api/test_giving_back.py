"""Machines are given back whatever a run ends with, also when it never began."""

from __future__ import annotations

import json
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
from shoal.store import RunStore


class Lost(LocalEngine):
    """Its cluster goes as soon as anything is waited for."""

    def wait(self, timeout_s: float) -> Sequence[Event]:
        raise ClusterLost("The head of the cluster is gone.")


class Lent(Machines):
    """This machine, as if it had to be given back."""

    def __init__(self, engine: type[LocalEngine] | None) -> None:
        super().__init__([this_machine.this_machine()], "lent")
        self.kind = engine
        self.back = 0

    def engine(self, root: str, folder: str, session: str) -> Engine:
        if self.kind is None:
            raise EngineError("There is no engine.")
        return self.kind(self.nodes, root, scope=self.scope, session=session)

    def close(self) -> None:
        self.back += 1


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> workloads.Prepared:
    monkeypatch.chdir(tmp_path)
    Path(".shoal").mkdir()
    Path("trial.py").write_text("def main(x):\n    return {}\n")
    document = {"kind": "sweep", "trials": {"grid": {"x": [1]}}, "run": {"function": "trial:main"}}
    Path("t.yaml").write_text(json.dumps(document))
    return workloads.from_file("t.yaml", [], None)


def test_machines_are_given_back_when_their_cluster_is_lost(prepared: workloads.Prepared) -> None:
    lent = Lent(Lost)
    session = new_session(prepared, lent, Here())
    with pytest.raises(ClusterLost, match="gone"):
        session.drive()
    assert lent.back == 1
    with RunStore.open(session.store.home, session.store.run, write=False) as store:
        assert store.state() == "interrupted"


def test_machines_are_given_back_when_a_run_cannot_begin(prepared: workloads.Prepared) -> None:
    lent = Lent(None)
    with pytest.raises(EngineError, match="no engine"):
        new_session(prepared, lent, Here())
    assert lent.back == 1


def test_machines_are_given_back_when_a_run_ends_well(prepared: workloads.Prepared) -> None:
    lent = Lent(LocalEngine)
    assert new_session(prepared, lent, Here()).drive().state == "succeeded"
    assert lent.back == 1

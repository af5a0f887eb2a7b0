"""A cluster with storage: the run is copied there while it goes, and can be gone on with from another machine."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

import shoal
from shoal.api import run_copy, runs
from shoal.api.session import Session
from shoal.api.views import lookup
from shoal.files import open_storage
from shoal.store.run_copies import RunCopy, bring_back, copied_turn, turns_of

LAB = "kind: cluster\nname: lab\nprovider: local\nengine: embedded\nnodes: [{host: one, cpu: 2}]\n"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    (folder / ".shoal").mkdir(parents=True)
    (folder / "lab.yaml").write_text(f"{LAB}storage: ../shared\n")
    (folder / "trial.py").write_text(
        "import os, pathlib\n"
        "def main(x):\n"
        "    print('trial', x)\n"
        "    pathlib.Path(os.environ['SHOAL_ITEM_DIR'], 'left.txt').write_text(str(x))\n"
        "    if x >= 3 and not os.path.exists('mended'): raise ValueError('not yet')\n"
        "    return {'y': x}\n"
    )
    document = {"kind": "sweep", "name": "s", "trials": {"grid": {"x": list(range(6))}}}
    (folder / "s.yaml").write_text(json.dumps({**document, "run": {"function": "trial:main"}}))
    monkeypatch.chdir(folder)
    return folder


def test_a_run_is_copied_to_the_storage_whole(work: Path) -> None:
    run = shoal.run("s.yaml", cluster="lab.yaml", display=False)
    copy = work.parent / "shared" / "runs" / run.id / "copies" / "1"
    assert (copy / "results.csv").read_text() == (Path(run.folder) / "results.csv").read_text()
    assert (copy / "items" / "t0001" / "left.txt").read_text() == "0"
    assert not (copy / "lock").exists()
    assert not list(Path(run.folder).glob(".copy*"))
    with sqlite3.connect(copy / "run.db") as record:
        assert record.execute("SELECT count(*) FROM items").fetchone() == (6,)


def test_a_run_whose_machine_is_gone_goes_on_from_its_copy(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = shoal.run("s.yaml", cluster="lab.yaml", display=False)
    assert first.state == "failed"
    before = {row["x"]: row["started"] for row in first.rows()}
    other = tmp_path / "other"
    shutil.copytree(work, other, ignore=shutil.ignore_patterns(".shoal"))
    shutil.rmtree(work)
    (other / ".shoal").mkdir()
    (other / "mended").touch()
    monkeypatch.chdir(other)
    again = shoal.resume(first.id, failed=True, cluster="lab.yaml", display=False)
    assert again.id == first.id
    assert again.state == "succeeded"
    after = {row["x"]: row["started"] for row in again.rows()}
    assert [after[x] == before[x] for x in range(6)] == [True, True, True, False, False, False]


def test_a_driver_that_was_replaced_spoils_no_copy_and_the_heir_removes_the_earlier_one(
    work: Path, tmp_path: Path
) -> None:
    run = shoal.run("s.yaml", cluster="lab.yaml", display=False)
    storage = open_storage(str(work.parent / "shared"))
    cut_off = RunCopy(run.folder, storage, 1)
    cut_off.write()
    elsewhere = tmp_path / "elsewhere"
    bring_back(storage, run.id, str(elsewhere))
    assert sorted(each.name for each in (elsewhere / "runs").iterdir()) == [run.id]
    assert copied_turn(storage, run.id) == 1
    assert turns_of(storage, run.id).take(2, {"token": "heir"})
    RunCopy(str(elsewhere / "runs" / run.id), storage, 2).write()
    assert copied_turn(storage, run.id) == 2
    copies = work.parent / "shared" / "runs" / run.id / "copies"
    assert not list((copies / "1").glob("**/*.db"))
    with pytest.raises(shoal.ShoalError, match="driven from elsewhere by now"):
        cut_off.write()
    assert not list((copies / "1").glob("**/*.db"))


def test_a_run_that_was_driven_from_elsewhere_since_is_brought_back_newer(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = shoal.run("s.yaml", cluster="lab.yaml", display=False)
    (work / "mended").touch()
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "elsewhere"))
    there = shoal.resume(first.id, failed=True, cluster="lab.yaml", display=False)
    assert there.state == "succeeded"
    monkeypatch.delenv("SHOAL_HOME")
    here = shoal.resume(first.id, display=False)
    assert here.state == "succeeded"
    assert here.rows() == there.rows()
    assert copied_turn(open_storage(str(work.parent / "shared")), first.id) == 2


def test_a_record_that_cannot_be_copied_stops_nothing(work: Path) -> None:
    run = shoal.run("s.yaml", cluster="lab.yaml", display=False)
    (Path(run.folder) / "run.db").write_bytes(b"no database" * 1000)
    told: list[str] = []
    storage = open_storage(str(work.parent / "shared"))
    broken = run_copy.Copying(run.folder, storage, 1, None, told.append, lambda: 0.0)
    broken.finish()
    assert broken.problem is not None
    assert len(told) == 1
    assert "cannot be copied to" in told[0]


def test_a_run_that_is_nowhere_says_so(work: Path) -> None:
    with pytest.raises(shoal.NotFound, match=r"no copy of it in .*shared"):
        shoal.resume("s-0000", cluster="lab.yaml", display=False)


def test_an_id_that_leaves_its_folder_is_refused(work: Path) -> None:
    with pytest.raises(shoal.SpecError, match="not the id of a run"):
        bring_back(open_storage(str(work.parent / "shared")), "../x", str(work / ".shoal"))


def test_a_storage_that_cannot_be_written_stops_nothing(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (work.parent / "shared").write_text("a file, where a folder should be")
    told: list[str] = []
    (work / "mended").touch()
    from shoal.api import machines, runs, workloads
    from shoal.cluster.this_machine import Here

    where = machines.machines("lab.yaml", told.append)
    summary = runs.new_session(workloads.from_file("s.yaml"), where, Here()).drive()
    assert summary.state == "succeeded"
    assert sum("cannot be copied to" in line for line in told) == 1


def test_a_copy_is_consistent_while_its_run_goes_on(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_copy, "EVERY_S", 0.0)
    (work / "mended").touch()
    (work / "trial.py").write_text("def main(x):\n    return {'y': x}\n")
    document = {"kind": "sweep", "name": "s", "trials": {"grid": {"x": list(range(3000))}}}
    (work / "s.yaml").write_text(json.dumps({**document, "run": {"function": "trial:main"}}))
    checked = []
    real = RunCopy.write

    def write(self: RunCopy) -> Sequence[tuple[str, str]]:
        failed = real(self)
        [record] = (work.parent / "shared" / "runs").glob("s-*/copies/1/run.db")
        with sqlite3.connect(record) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            checked.append(connection.execute("SELECT count(*) FROM items WHERE state='done'").fetchone()[0])
        return failed

    monkeypatch.setattr(RunCopy, "write", write)
    shoal.run("s.yaml", cluster="lab.yaml", display=False)
    assert len(checked) > 1
    assert checked == sorted(checked)
    assert checked[-1] == 3000


@pytest.fixture
def elsewhere(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Goes to another folder, which has the workload and no runs; with another user's key, or the same."""

    def move(*, same_user: bool) -> Path:
        other = tmp_path / "other"
        shutil.copytree(work, other, ignore=shutil.ignore_patterns(".shoal"))
        shutil.rmtree(work)
        (other / ".shoal").mkdir()
        (other / "mended").touch()
        monkeypatch.chdir(other)
        if not same_user:
            monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-of-another"))
        return other

    return move


def gone_on(run: str, **given: bool) -> tuple[str, list[str]]:
    """The state of a run that is resumed from the storage of the cluster, and what was said before."""
    said: list[str] = []
    session = runs.resume(run, failed=True, cluster="lab.yaml", tell=said.append, **given)
    assert isinstance(session, Session)
    return session.drive().state, said


@pytest.mark.parametrize("same_user", [True, False], ids=["ours", "another's"])
def test_what_a_run_from_a_storage_starts_is_said_unless_this_user_began_it(
    work: Path, elsewhere: Callable[..., Path], same_user: bool
) -> None:
    run = shoal.run("s.yaml", cluster="lab.yaml", display=False).id
    elsewhere(same_user=same_user)
    state, said = gone_on(run)
    assert state == "succeeded"
    told = f"who can write to {work.parent}/shared decides what runs: function trial:main"
    assert any(told in line for line in said) is not same_user
    with lookup.open_run(run) as store:
        assert os.stat(store.folder).st_mode & 0o077 == 0, "what was brought back is closed, too"


def test_a_run_of_ours_that_was_changed_in_the_storage_is_not_ours(
    work: Path, elsewhere: Callable[..., Path]
) -> None:
    run = shoal.run("s.yaml", cluster="lab.yaml", display=False).id
    (record,) = work.parent.glob(f"shared/runs/{run}/**/run.db")
    with closing(sqlite3.connect(record)) as database:
        database.execute("UPDATE run SET value=replace(value, 'trial:main', 'trial:evil') WHERE key='spec'")
        database.commit()
    (elsewhere(same_user=True) / "trial.py").write_text("def evil(x): return {'y': 0}\n")
    assert any("decides what runs: function trial:evil" in line for line in gone_on(run)[1])


def test_a_function_by_value_that_another_put_into_the_storage_is_run_only_when_told_to(
    work: Path, elsewhere: Callable[..., Path]
) -> None:
    def trial(x: int) -> dict[str, int]:
        import os

        if not os.path.exists("mended"):
            raise ValueError("not yet")
        return {"y": x}

    run = shoal.run(trial, [{"x": 1}], cluster="lab.yaml", display=False).id
    elsewhere(same_user=False)
    for _ in range(2):
        with pytest.raises(shoal.ShoalError, match="came by value, and can do anything as you") as caught:
            gone_on(run)
        assert f"shoal resume {run} --trust" in (caught.value.hint or "")
    _, said = gone_on(run, trust=True)
    assert any("decides what runs" in line for line in said)
    _, said = gone_on(run)
    assert not any("decides what runs" in line for line in said), "who trusted it once has sealed it"

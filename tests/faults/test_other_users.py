"""Runs of another user in a folder above ours: they may be looked at, and decide nothing; and ours are for us alone."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from faults.conftest import SHOAL
from shoal.store.home import Stub, keep

pytestmark = pytest.mark.root
NOBODY = 65534
SWEEP = """\
kind: sweep
name: planted
trials: {grid: {x: [1, 2]}}
run: {command: "touch ran-{x} /no/such/folder"}
env: {API_KEY: hunter2}
"""


class Theirs(NamedTuple):
    """A folder with the `.shoal` of another user in it, and a folder of ours below it."""

    above: Path
    below: Path
    run: str


def shoal_in(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [SHOAL, *arguments]
    known = os.environ | variables
    return subprocess.run(
        command, cwd=folder, env=known, capture_output=True, text=True, timeout=60, check=False
    )


def give_away(folder: Path) -> None:
    for each in [folder, *folder.rglob("*")]:
        os.chown(each, NOBODY, NOBODY, follow_symlinks=False)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Theirs:
    """A run of theirs whose trials failed: whoever resumes it runs its commands."""
    above = tmp_path_factory.mktemp("above")
    (above / "planted.yaml").write_text(SWEEP)
    done = shoal_in(above, "run", "planted.yaml", "--json")
    run = json.loads(done.stdout)["run"]
    for trace in above.glob("ran-*"):
        trace.unlink()
    (above / ".shoal").chmod(0o755)
    (above / ".shoal" / "runs").chmod(0o755)
    (above / ".shoal" / "runs" / run).chmod(0o755)
    give_away(above / ".shoal")
    (above / "below").mkdir()
    return Theirs(above, above / "below", run)


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    "arguments",
    [["resume", "last", "--failed"], ["stop", "last"], ["rm", "planted"], ["report", "last"]],
    ids=lambda each: each[0],
)
def test_nothing_of_another_user_is_run_or_changed(planted: Theirs, arguments: list[str]) -> None:
    before = contents(planted.above / ".shoal")
    done = shoal_in(planted.below, *arguments)
    assert done.returncode == 2, done.stderr
    assert f"Error: {planted.above}/.shoal belongs to the user nobody" in done.stderr
    assert "SHOAL_HOME" in done.stderr
    assert "mkdir .shoal" in done.stderr
    assert not list(planted.above.rglob("ran-*"))
    assert contents(planted.above / ".shoal") == before


@pytest.mark.parametrize(
    "arguments", [["ls"], ["show", "last"], ["results", "last"]], ids=lambda each: each[0]
)
def test_runs_of_another_user_may_be_looked_at_and_are_said_to_be_theirs(
    planted: Theirs, arguments: list[str]
) -> None:
    before = contents(planted.above / ".shoal")
    done = shoal_in(planted.below, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert done.stderr == f"{planted.above}/.shoal belongs to the user nobody: these runs are not yours.\n"
    assert {
        path: then for path, then in contents(planted.above / ".shoal").items() if path in before
    } == before


def test_a_new_run_is_kept_in_the_working_directory(planted: Theirs) -> None:
    folder = planted.below / "new"
    folder.mkdir()
    (folder / "own.yaml").write_text(SWEEP.replace("planted", "own"))
    done = shoal_in(folder, "run", "own.yaml", "--json")
    assert done.returncode == 1, done.stderr
    assert f"and is not used: runs are kept in {folder}/.shoal" in done.stderr
    run = json.loads(done.stdout)["run"]
    assert [path.name for path in (folder / ".shoal" / "runs").iterdir()] == [run]
    again = shoal_in(folder, "show", "last")
    assert (again.returncode, again.stderr) == (0, "")


def test_a_new_run_beside_the_home_of_another_user_is_refused(planted: Theirs) -> None:
    done = shoal_in(planted.above, "run", "planted.yaml")
    assert done.returncode == 2
    assert "belongs to the user nobody" in done.stderr


def test_who_names_the_home_may_use_it(planted: Theirs, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shutil.copytree(planted.above / ".shoal", shared)
    give_away(shared)
    done = shoal_in(planted.above, "resume", "last", "--failed", SHOAL_HOME=str(shared))
    assert done.returncode == 1, done.stderr
    assert sorted(path.name for path in planted.above.glob("ran-*")) == ["ran-1", "ran-2"]
    for trace in planted.above.glob("ran-*"):
        trace.unlink()


@pytest.mark.parametrize("where", ["runs", "the run", "run.db"])
def test_a_run_that_another_user_put_into_our_home_is_not_resumed(
    planted: Theirs, tmp_path: Path, where: str
) -> None:
    home = tmp_path / ".shoal"
    shutil.copytree(planted.above / ".shoal", home)
    place = {"runs": home / "runs", "the run": home / "runs" / planted.run}
    os.chown(place.get(where, home / "runs" / planted.run / "run.db"), NOBODY, NOBODY)
    done = shoal_in(tmp_path, "resume", "last", "--failed")
    assert (done.returncode, "belongs to the user nobody" in done.stderr) == (2, True)


@pytest.mark.parametrize("link", [False, True], ids=["folder", "link"])
def test_a_home_that_others_can_write_to_or_point_elsewhere_is_not_ours(
    planted: Theirs, tmp_path: Path, link: bool
) -> None:
    home = tmp_path / ".shoal"
    if link:
        shutil.copytree(planted.above / ".shoal", tmp_path / "real")
        home.symlink_to("real")
        os.chown(home, NOBODY, NOBODY, follow_symlinks=False)
    else:
        shutil.copytree(planted.above / ".shoal", home)
        home.chmod(0o777)
    done = shoal_in(tmp_path, "resume", "last", "--failed")
    said = "belongs to the user nobody" if link else "can be written by other users (`chmod go-w` closes it)"
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_the_cluster_that_a_stub_of_theirs_names_is_not_asked(planted: Theirs, tmp_path: Path) -> None:
    home = tmp_path / ".shoal"
    shutil.copytree(planted.above / ".shoal", home)
    (tmp_path / "lab.yaml").write_text(
        "kind: cluster\nname: lab\nprovider: local\nnodes: [{host: one, cpu: 1}]\n"
    )
    keep(str(home), Stub("away-0000", "sweep", "away", str(tmp_path / "lab.yaml"), "x.yaml", 1.0))
    give_away(home)
    for verb in ("show", "logs", "stop", "resume", "rm"):
        done = shoal_in(tmp_path, verb, "away-0000")
        assert (done.returncode, "Error: " in done.stderr, "belongs to the user nobody" in done.stderr) == (
            2,
            True,
            True,
        )
    listed = shoal_in(tmp_path, "ls")
    assert (planted.run in listed.stdout, "away-0000" in listed.stdout) == (True, False)


@pytest.fixture
def seen_by_all() -> Iterator[Path]:
    """A folder that other users can enter; those of pytest are closed."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def test_what_a_run_keeps_cannot_be_read_by_other_users(seen_by_all: Path) -> None:
    (seen_by_all / "own.yaml").write_text(SWEEP.replace("planted", "own"))
    (seen_by_all / "own.yaml").chmod(0o600)
    done = shoal_in(seen_by_all, "run", "own.yaml", "--json")
    folder = seen_by_all / ".shoal" / "runs" / json.loads(done.stdout)["run"]
    assert "hunter2" in (folder / "spec.yaml").read_text()
    (seen_by_all / ".shoal").chmod(0o755)
    (seen_by_all / ".shoal" / "runs").chmod(0o755)
    for name in ("spec.yaml", "run.db"):
        as_nobody = [
            "setpriv",
            f"--reuid={NOBODY}",
            f"--regid={NOBODY}",
            "--clear-groups",
            "cat",
            str(folder / name),
        ]
        read = subprocess.run(as_nobody, capture_output=True, check=False)
        assert (read.returncode, b"Permission denied" in read.stderr) == (1, True)


def test_looking_at_their_runs_writes_to_no_file_that_they_point_at(planted: Theirs, tmp_path: Path) -> None:
    ours = tmp_path / "ours.db"
    with closing(sqlite3.connect(ours)) as database:
        database.execute("CREATE TABLE precious(x)")
    home = tmp_path / ".shoal"
    shutil.copytree(planted.above / ".shoal", home)
    (home / "index.db").unlink()
    (home / "index.db").symlink_to(ours)
    give_away(home)
    assert shoal_in(tmp_path, "ls").returncode == 0
    with closing(sqlite3.connect(ours)) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("precious",)]

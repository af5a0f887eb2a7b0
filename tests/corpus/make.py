"""Makes run folders with one version of Shoal, to be kept as test data: later versions have to read and resume them.

    git worktree add OLD COMMIT
    PYTHONPATH=OLD/src python tests/corpus/make.py PYTHON 0.1 --at /home/you/corpus

PYTHON is the interpreter that has that version (here by PYTHONPATH); the folder of the version, beside this file, gets
an archive of each case. The runs are made below the folder `--at`, which must not exist where tests run: they are to
be found in the current folder then, like a run that was moved. 0.1 was made from commit 1b4defd with Python 3.11, on a
host that was called `lab` (`unshare --uts`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import tarfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WAIT_S = 60.0

STUB = """
import sys
from shoal.store import home as stubs
folder, run = sys.argv[1:]
files = (f"{folder}/lab.yaml", f"{folder}/away.yaml")
stubs.keep(f"{folder}/.shoal", stubs.Stub(run, "sweep", "away", *files, 1.7e9))
"""


class Case:
    """The folder of one case, with its workload in it, and the Shoal to run there."""

    def __init__(self, python: str, folder: Path, name: str) -> None:
        self.python, self.name, self.folder = python, name, folder / name
        shutil.copytree(HERE / "workloads" / name, self.folder)
        (self.folder / ".shoal").mkdir()
        self._environment = os.environ | {
            "SHOAL_LEASES": str(folder / "leases"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def start(self, *arguments: str, **more: str) -> subprocess.Popen[bytes]:
        """`python ARGUMENTS`, with `more` in its environment."""
        return subprocess.Popen(
            [self.python, "-P", *arguments],
            cwd=self.folder,
            env=self._environment | more,
            stdout=subprocess.PIPE,
        )

    def shoal(self, *arguments: str, code: int = 0, **more: str) -> bytes:
        """A command, to its end."""
        process = self.start("-m", "shoal", *arguments, **more)
        said = process.communicate()[0]
        assert process.returncode == code, said.decode()
        return said

    def count(self, where: str, record: str = ".shoal/runs/*/run.db", mode: str = "ro") -> int:
        """How many items are so; 0 where there is no record yet."""
        for path in self.folder.glob(record):
            with (
                suppress(sqlite3.Error),
                closing(sqlite3.connect(f"file:{path}?mode={mode}", uri=True)) as connection,
            ):
                return int(connection.execute(f"SELECT count(*) FROM items WHERE {where}").fetchone()[0])
        return 0

    def until(self, happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not happened():
            assert time.monotonic() < deadline, f"{self.name}: it does not happen"
            time.sleep(0.02)

    def pack(self, target: Path) -> None:
        with tarfile.open(target / f"{self.name}.tar.gz", "w:gz") as archive:
            archive.add(self.folder, arcname=".", filter=_of_nobody)


def _of_nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def kill(driver: subprocess.Popen[bytes]) -> None:
    driver.send_signal(signal.SIGKILL)
    driver.wait()


def sheet(case: Case) -> None:
    """Finished, with logs, files, checkpoints and retries."""
    case.shoal("run", "sheet.yaml")


def search(case: Case) -> None:
    """Stopped when twelve trials or more had ended, some of them pruned, with two in the middle of their curves."""
    driver = case.start("-m", "shoal", "run", "search.yaml", PACE="0.1", HANG_FROM="13")
    in_the_middle = "state='running' AND seq>12 AND seq IN (SELECT seq FROM reports WHERE step=3)"
    case.until(lambda: case.count(in_the_middle) == 2)
    case.shoal("stop", "search")
    assert driver.wait() == 3


def inference(case: Case) -> None:
    """Killed in its ninth item of twelve, with errors in those before."""
    driver = case.start("-m", "shoal", "run", "inference.yaml", HANG_AT="84")
    case.until(lambda: case.count("state='done'") == 8 and case.count("state='running'") == 1)
    kill(driver)


def reviews(case: Case) -> None:
    """A finished inference, which found out by itself how to run best."""
    case.shoal("run", "reviews.yaml", "--cluster=lab.yaml")


def function(case: Case) -> None:
    """A function sent by value; two of its rows failed."""
    assert case.start("program.py").wait() == 0


def failed(case: Case) -> None:
    """Four trials failed, each in its own way."""
    case.shoal("run", "failed.yaml", code=1)


def detached(case: Case) -> None:
    """What is here of a run that was detached, and beside it the home that its head has."""
    head = case.folder / "head"
    said = case.shoal("run", "away.yaml", "--json", SHOAL_HOME=str(head))
    run: dict[str, Any] = json.loads(said)
    assert case.start("-c", STUB, str(case.folder), run["run"]).wait() == 0


def storage(case: Case) -> None:
    """The copy in a storage of a run whose machine is gone; its fifth trial hung when the last copy was made."""
    driver = case.start("-m", "shoal", "run", "stored.yaml", "--cluster=lab.yaml", HANG_AT="4")
    copy = ("shared/runs/*/run.db", "ro&immutable=1")  # leaves no file of SQLite's beside it
    case.until(lambda: case.count("state='done'", *copy) == 4 and case.count("state='running'", *copy) == 1)
    kill(driver)
    shutil.rmtree(case.folder / ".shoal" / "runs")
    (case.folder / ".shoal" / "index.db").unlink()


CASES = (sheet, search, inference, reviews, function, failed, detached, storage)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("python", help="the interpreter that has the version")
    parser.add_argument("version", help="of Shoal; names the folder")
    parser.add_argument("--at", type=Path, default=Path("/tmp/shoal-corpus"), help="where runs are made")
    given = parser.parse_args()
    found = subprocess.check_output(
        [given.python, "-P", "-c", "import shoal; print(shoal.__version__)"], text=True
    )
    assert found.startswith(f"{given.version}."), f"{given.python} has Shoal {found}"
    given.at.mkdir()
    target = HERE / given.version
    target.mkdir(exist_ok=True)
    for make in CASES:
        case = Case(given.python, given.at, make.__name__)
        make(case)
        case.pack(target)
    shutil.rmtree(given.at)


if __name__ == "__main__":
    main()

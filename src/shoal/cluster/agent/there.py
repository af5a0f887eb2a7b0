"""`python -m shoal.cluster.agent.there`: Shoal's own commands on a head, with the runs that were detached to it.

job FILE             what a detached run's driver is started with: the file says in which folder, with which variables
shoal KEY ARGUMENT...   one command about the runs of the cluster KEY
aside KEY ARGUMENT...   the same, but all that it prints is on stderr
runs KEY             the runs of the cluster KEY, as an agent answers; `queued` are those that get ready
tar KEY RUN [ITEM]   what a run, or one of its items, left behind: an archive on stdout, behind a line that says so
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from shoal import namespaces
from shoal.cluster.agent.requests import ANSWER
from shoal.model.marks import BEGUN_VARIABLE

ARCHIVE = b"shoal-archive:\n"
"""What comes before an archive; a login shell may print lines of its own before it."""
LOCK = ".lock"
NO_FILES = 4
"""The exit code where there is nothing to make an archive of."""


def data_folder(key: str) -> str:
    """Where the detached runs of a cluster are kept on its head: with the user's data, as they outlive the cluster."""
    base = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(base, "shoal", key)


def home_folder(key: str) -> str:
    """The `.shoal` of those runs."""
    return os.path.join(data_folder(key), "home")


def run_folder(key: str, run: str) -> str:
    return os.path.join(home_folder(key), "runs", run)


def workload_folder(key: str, run: str) -> str:
    """Where the folder of a run's workload was shipped to."""
    return os.path.join(data_folder(key), "folders", run)


def job_file(key: str, run: str) -> str:
    """What the driver of a run is told to do, until it has read it."""
    return os.path.join(data_folder(key), "jobs", f"{run}.json")


def lock_file(job: str) -> str:
    """What a driver holds a lock on for as long as it lives, beside the file of its job."""
    return job.removesuffix(".json") + LOCK


def begun_file(job: str) -> str:
    """What a driver makes when its run has begun, beside the file of its job."""
    return job.removesuffix(".json") + ".begun"


def drivers(key: str) -> list[str]:
    """The runs whose drivers live; one that installs packages has no run to show yet."""
    folder = os.path.dirname(job_file(key, ""))
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    locks = (name for name in names if name.endswith(LOCK))
    return [name.removesuffix(LOCK) for name in locks if _is_held(os.path.join(folder, name))]


def _hold(path: str) -> None:
    """Keep a lock until this process ends, whatever program it becomes. Where there are no locks, it does without."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.set_inheritable(descriptor, True)
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_SH)


def _is_held(path: str) -> bool:
    with suppress(OSError), open(path, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _shoal(arguments: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    os.execve(sys.executable, [sys.executable, "-m", "shoal", *arguments], environment)


def _job(file: str) -> NoReturn:
    with open(file, encoding="utf-8") as opened:
        job = json.load(opened)
    os.unlink(file)  # The variables in it may be secrets, and nobody needs it any more.
    _hold(lock_file(file))
    outside = os.environ.get(namespaces.OUTSIDE)
    if outside is not None:
        namespaces.enter(outside)  # The driver goes into the cluster's own network by itself.
    os.chdir(job["folder"])
    given = job["environment"] if job["environment"] is not None else os.environ
    ray = {name: value for name, value in os.environ.items() if name.startswith("RAY_")}
    ours = {"SHOAL_HOME": job["home"], BEGUN_VARIABLE: begun_file(file)}
    _shoal(job["arguments"], {**given, **ray, **ours})


def _command(key: str, arguments: Sequence[str]) -> NoReturn:
    _shoal(arguments, {**os.environ, "SHOAL_HOME": home_folder(key)})


def _runs(key: str) -> int:
    environment = {**os.environ, "SHOAL_HOME": home_folder(key)}
    command = [sys.executable, "-m", "shoal", "ls", "--json"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False)
    found = json.loads(done.stdout)
    if done.returncode == 0:
        begun = {each["run"] for each in found}
        ready = [{"run": run, "state": "queued", "seconds": 0.0} for run in drivers(key) if run not in begun]
        found = {"ok": [*found, *ready]}
    print(ANSWER + json.dumps(found))  # noqa: T201
    return 0


def _tar(key: str, run: str, item: str | None = None) -> int:
    folder = os.path.join(run_folder(key, run), "items", *([item] if item else []))
    if not os.path.isdir(folder):
        return NO_FILES
    sys.stdout.buffer.write(ARCHIVE)
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        archive.add(folder, arcname=".")
    return 0


def main(arguments: Sequence[str]) -> int:
    task, first, *rest = arguments
    if task == "job":
        _job(first)
    if task == "shoal":
        _command(first, rest)
    if task == "aside":
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        _command(first, rest)
    if task == "runs":
        return _runs(first)
    return _tar(first, *rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Runs that were detached to this head: where they are kept, and what an agent does with them.

`python -m shoal.cluster.agent.there` runs Shoal's own commands with them:

job FILE                the driver of a detached run: the file says in which folder, with which variables
shoal KEY ARGUMENT...   one command about the runs of the cluster KEY, on this terminal
aside KEY ARGUMENT...   the same, but all that it prints is on stderr
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from shoal import namespaces
from shoal.errors import ClusterError
from shoal.model.marks import ANSWER_VARIABLE

LOCK = ".lock"


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


def answer_file(job: str) -> str:
    """Where a driver says that its run has begun, or why it cannot, beside the file of its job."""
    return job.removesuffix(".json") + ".answer"


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


def runs(key: str) -> list[dict[str, Any]]:
    """The runs of a cluster, as `shoal ls` has them; `queued` are those whose drivers get ready."""
    found: list[dict[str, Any]] = _document(key, "ls")
    begun = {each["run"] for each in found}
    ready = [{"run": run, "state": "queued", "seconds": 0.0} for run in drivers(key) if run not in begun]
    return [*found, *ready]


def files(key: str, run: str, item: str | None) -> int | None:
    """Print what a run, or one of its items, left behind as an archive: its size. None where they left nothing."""
    folder = os.path.join(run_folder(key, run), "items", *([item] if item else []))
    if not os.path.isdir(folder):
        return None
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        archive.add(folder, arcname=".")
    return math.ceil(archive.offset / tarfile.RECORDSIZE) * tarfile.RECORDSIZE


def report(key: str, run: str) -> str:
    """Write the report of a run into its folder: the page itself."""
    with open(_document(key, "report", run)["report"], encoding="utf-8", newline="") as page:
        return page.read()


def remove(key: str, run: str) -> None:
    """Delete a run, and what was shipped for it. One that is being driven is refused; one that is gone is no error."""
    if os.path.isfile(os.path.join(run_folder(key, run), "run.db")):
        _document(key, "rm", run)
    shutil.rmtree(workload_folder(key, run), ignore_errors=True)
    job = job_file(key, run)
    for path in (lock_file(job), answer_file(job)):
        with suppress(OSError):
            os.unlink(path)


def _document(key: str, *arguments: str) -> Any:
    """What a command of Shoal's own says about the runs of a cluster with `--json`."""
    command = [sys.executable, "-m", "shoal", *arguments, "--json"]
    done = subprocess.run(
        command, env=_environment(key), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False
    )
    try:
        found = json.loads(done.stdout)
    except ValueError:
        raise ClusterError(f"`shoal {arguments[0]}` ended with code {done.returncode} on the head.") from None
    if done.returncode != 0:
        raise ClusterError(found["error"], hint=found["hint"])
    return found


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
    ours = {"SHOAL_HOME": job["home"], ANSWER_VARIABLE: answer_file(file)}
    _shoal(job["arguments"], {**given, **ray, **ours})


def _environment(key: str) -> dict[str, str]:
    return {**os.environ, "SHOAL_HOME": home_folder(key)}


def main(arguments: Sequence[str]) -> NoReturn:
    task, first, *rest = arguments
    if task == "job":
        _job(first)
    if task == "aside":
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _shoal(rest, _environment(first))


if __name__ == "__main__":
    main(sys.argv[1:])

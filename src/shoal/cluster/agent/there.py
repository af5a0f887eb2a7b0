"""`python -m shoal.cluster.agent.there`: Shoal's own commands on a head, with the runs that were detached to it.

job FILE             what a detached run's driver is started with: the file says in which folder, with which variables
shoal KEY ARGUMENT...   one command about the runs of the cluster KEY
aside KEY ARGUMENT...   the same, but all that it prints is on stderr
runs KEY             the runs of the cluster KEY, as an agent answers
tar KEY RUN [ITEM]   what a run, or one of its items, left behind: an archive on stdout, behind a line that says so
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from typing import NoReturn

from shoal import namespaces
from shoal.cluster.agent.values import ANSWER

ARCHIVE = b"shoal-archive:\n"
"""What comes before an archive; a login shell may print lines of its own before it."""
NO_FILES = 4
"""The exit code where there is nothing to make an archive of."""


def data_folder(key: str) -> str:
    """Where the detached runs of a cluster are kept on its head: with the user's data, as they outlive the cluster."""
    base = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(base, "shoal", key)


def home_folder(key: str) -> str:
    """The `.shoal` of those runs."""
    return os.path.join(data_folder(key), "home")


def workload_folder(key: str, run: str) -> str:
    """Where the folder of a run's workload was shipped to."""
    return os.path.join(data_folder(key), "folders", run)


def _shoal(arguments: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    os.execve(sys.executable, [sys.executable, "-m", "shoal", *arguments], environment)


def _job(file: str) -> NoReturn:
    with open(file, encoding="utf-8") as opened:
        job = json.load(opened)
    os.unlink(file)  # The variables in it may be secrets, and nobody needs it any more.
    outside = os.environ.get(namespaces.OUTSIDE)
    if outside is not None:
        namespaces.enter(outside)  # The driver goes into the cluster's own network by itself.
    os.chdir(job["folder"])
    given = job["environment"] if job["environment"] is not None else os.environ
    ray = {name: value for name, value in os.environ.items() if name.startswith("RAY_")}
    _shoal(job["arguments"], {**given, **ray, "SHOAL_HOME": job["home"]})


def _command(key: str, arguments: Sequence[str]) -> NoReturn:
    _shoal(arguments, {**os.environ, "SHOAL_HOME": home_folder(key)})


def _runs(key: str) -> int:
    environment = {**os.environ, "SHOAL_HOME": home_folder(key)}
    command = [sys.executable, "-m", "shoal", "ls", "--json"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False)
    found = json.loads(done.stdout)
    print(ANSWER + json.dumps({"ok": found} if done.returncode == 0 else found))  # noqa: T201
    return 0


def _tar(key: str, run: str, item: str | None = None) -> int:
    folder = os.path.join(home_folder(key), "runs", run, "items", *([item] if item else []))
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

"""`doctor`: is this machine ready, and what is missing. Looks only; leaves nothing behind."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple

import click

from shoal.cli.group import json_option
from shoal.cli.output import echo, echo_json, is_terminal, say
from shoal.kinds import workloads
from shoal.units import format_size
from shoal.work.kind import Kind, kind_of

OLDEST = (3, 11)
LITTLE_DISK = 1 << 30
NEEDED = {
    "pyarrow": "results.parquet, and .parquet tables",
    "optuna": "trials: {search: ...}",
    "rich": "the live display",
    "cloudpickle": "functions of notebooks",
}
"""Packages that Shoal was installed with."""
OPTIONAL = {
    "obstore": ("s3://", "s3"),
    "hdfs-native": ("hdfs://", "hdfs"),
    "ray": ("clusters", "ray"),
    "pandas": ("run.table().to_pandas()", None),
    "ipykernel": ("notebooks", None),
    "tensorflow": ("your own TensorFlow trials", None),
}
"""Packages that are not of one kind of work, for what, and the extra of Shoal that brings each."""
SAME = {"onnxruntime": ("onnxruntime", "onnxruntime-gpu")}
"""Packages that are published under several names."""
COLOURS = {"ok": "green", "note": "yellow", "bad": "red"}


class Finding(NamedTuple):
    """`state` is ok, note (usable all the same) or bad (not usable)."""

    state: str
    what: str
    found: str
    hint: str | None = None


@click.command("doctor")
@json_option
def doctor_command(as_json: bool) -> int:
    """Say whether this machine is ready, and what is missing.

    Exits with 0 when Shoal can be used here.
    """
    findings = list(examine())
    usable = all(finding.state != "bad" for finding in findings)
    if as_json:
        echo_json({"usable": usable, "findings": [finding._asdict() for finding in findings]})
    else:
        for finding in findings:
            _tell(finding)
        say("This machine is ready." if usable else "This machine is not ready: see above.")
    return 0 if usable else 1


def _tell(finding: Finding) -> None:
    mark = finding.state.ljust(4)
    if is_terminal():
        mark = click.style(mark, fg=COLOURS[finding.state])
    hint = f" ({finding.hint})" if finding.hint else ""
    echo(f"{mark}  {finding.what}: {finding.found}{hint}")


def examine() -> Iterator[Finding]:
    """Everything that is looked at, one by one."""
    yield _python()
    yield Finding("ok", "SQLite", sqlite3.sqlite_version)
    yield from _home()
    yield from _machine()
    yield from _packages()
    yield from _environments()


def _python() -> Finding:
    found = sys.version.partition(" ")[0]
    if sys.version_info < OLDEST:
        return Finding("bad", "Python", found, f"{OLDEST[0]}.{OLDEST[1]} or newer is needed")
    return Finding("ok", "Python", f"{found}, {sys.executable}")


def _home() -> Iterator[Finding]:
    """Where runs are kept: can it be written, can it be locked, is there room."""
    from shoal.store import find_home, foreign

    home = find_home(os.getcwd(), os.environ)
    if whose := foreign(home, os.environ):
        found = f"{home}, which is not yours to change"
        yield Finding("note", "runs are kept in", found, f"{whose}; new runs are kept in .shoal here")
        return
    there = home
    while not os.path.isdir(there) and os.path.dirname(there) != there:
        there = os.path.dirname(there)
    found = home if there == home else f"{home} (made by the first run)"
    try:
        with tempfile.NamedTemporaryFile(dir=there, prefix=".doctor-") as file:
            yield Finding("ok", "runs are kept in", found)
            yield _file_system(there)
            yield _locks(file.fileno())
    except OSError as error:
        hint = f"{error.strerror or error}; set SHOAL_HOME to a folder that can be written"
        yield Finding("bad", "runs are kept in", found, hint)
        return
    free = shutil.disk_usage(there).free
    little = "that is little: results and logs are kept there" if free < LITTLE_DISK else None
    yield Finding("note" if little else "ok", "free disk", format_size(free), little)


def _file_system(folder: str) -> Finding:
    from shoal.files.disk import MOUNTS, file_system_of, is_network

    try:
        with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            kind = file_system_of(os.path.realpath(folder), file.read())
    except OSError:
        kind = None
    if is_network(kind):
        hint = "on the network: works, and records more slowly; SHOAL_HOME on a local disk is faster"
        return Finding("note", "file system", str(kind), hint)
    return Finding("ok", "file system", kind or "unknown, taken for a local one")


def _locks(descriptor: int) -> Finding:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        hint = f"{error.strerror or error}; set SHOAL_HOME to a folder on a local disk"
        return Finding("bad", "file locks", "do not work there", hint)
    return Finding("ok", "file locks", "work")


def _machine() -> Iterator[Finding]:
    from shoal.cluster import this_machine

    yield Finding("ok", "CPUs", f"{this_machine.cpus():g}")
    yield Finding("ok", "memory", format_size(this_machine.memory_bytes()))
    yield Finding("ok", "GPUs", str(this_machine.gpus() or "none that can be seen"))


def _packages() -> Iterator[Finding]:
    for name, purpose in NEEDED.items():
        found = _version(name)
        if found is not None:
            yield Finding("ok", name, f"{found}, for {purpose}")
        else:
            yield Finding("note", name, f"not installed; for {purpose}", f"pip install {name}")
    for kind in map(kind_of, workloads()):
        for module, extra in kind.extras.items():
            found = _version(extra.package)
            if found is not None and extra.with_gpu:
                yield _on_which_device(kind, module, f"{found}, for {extra.purpose}")
            else:
                yield _optional(extra.package, found, extra.purpose, extra.extra)
    for name, (purpose, from_extra) in OPTIONAL.items():
        yield _optional(name, _version(name), purpose, from_extra)


def _optional(name: str, found: str | None, purpose: str, extra: str | None) -> Finding:
    if found is not None:
        return Finding("ok", name, f"{found}, for {purpose}")
    hint = f"pip install 'shoal[{extra}]'" if extra else None
    return Finding("ok", name, f"not installed; for {purpose}", hint)


def _version(name: str) -> str | None:
    """As its metadata has it. Nothing is imported: some of these take seconds."""
    for each in SAME.get(name, (name,)):
        try:
            return metadata.version(each)
        except metadata.PackageNotFoundError:
            continue
    return None


def _on_which_device(kind: Kind, module: str, found: str) -> Finding:
    """Of what runs models: whether this build can use a GPU, by its files."""
    from shoal.cluster import this_machine

    package, hint = kind.extras[module].package, kind.extras[module].with_gpu
    if kind.uses_gpu(module):
        return Finding("ok", package, f"{found}; can use CUDA")
    found = f"{found}; on processors only"
    return Finding("note", package, found, hint) if this_machine.gpus() else Finding("ok", package, found)


def _environments() -> Iterator[Finding]:
    """What workloads had installed."""
    from shoal.engine.workers import packages

    found = packages.environments()
    if found:
        size = format_size(sum(map(_size, found)))
        where = (
            f"{size} in {packages.cache_folder()}, {len(found)} environment{'' if len(found) == 1 else 's'}"
        )
        yield Finding("ok", "packages of workloads", where, "deleting them is safe while nothing runs")


def _size(folder: str) -> int:
    """Bytes in a folder, as far as they can be seen."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(base, name)).st_size
            except OSError:
                continue
    return total

"""What this machine keeps of a run that was detached: where it is, and how it was when it was last heard of."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import NamedTuple

from shoal.files import make_closed, write_bytes, write_text
from shoal.model import RunState

FOLDER = "detached"


class Stub(NamedTuple):
    """A run whose folder is on a cluster."""

    run: str
    kind: str
    name: str
    cluster: str
    """The cluster file."""
    workload: str
    """The workload file here, which is shipped again when the run is resumed."""
    created: float
    state: RunState = RunState.QUEUED
    seconds: float = 0.0


def keep(home: str, stub: Stub) -> None:
    if not os.path.isdir(os.path.join(home, FOLDER)):
        make_closed(os.path.join(home, FOLDER))
    write_text(_path(home, stub.run), json.dumps(stub._asdict()), durable=False)


def stubs(home: str) -> list[Stub]:
    """All of them; one that cannot be read is left out."""
    try:
        names = sorted(os.listdir(os.path.join(home, FOLDER)))
    except OSError:
        return []
    found = (find(home, name.removesuffix(".json")) for name in names if name.endswith(".json"))
    return [stub for stub in found if stub is not None]


def find(home: str, run: str) -> Stub | None:
    try:
        with open(_path(home, run), encoding="utf-8") as file:
            found = Stub(**json.load(file))
            return found._replace(state=RunState(found.state))
    except (OSError, ValueError, TypeError):
        return None


def keep_report(home: str, run: str, page: bytes) -> str:
    """A copy of the report of this run; its path."""
    path = _path(home, run, "html")
    write_bytes(path, page)
    return path


def forget(home: str, run: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(_path(home, run, "html"))
    os.unlink(_path(home, run))


def _path(home: str, run: str, ending: str = "json") -> str:
    return os.path.join(home, FOLDER, f"{run}.{ending}")

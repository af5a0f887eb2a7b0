"""When a driver that was handed to a head counts as begun, and what becomes of one that does not begin."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from shoal.cluster.agent import jobs, there
from shoal.errors import ClusterError
from shoal.store import RunStore


class Status(str):
    def is_terminal(self) -> bool:
        return self in ("FAILED", "STOPPED", "SUCCEEDED")


class Client:
    """As much of Ray's client for jobs as is used."""

    def __init__(self, status: str) -> None:
        self.status = Status(status)
        self.stopped: list[str] = []

    def get_job_status(self, name: str) -> Status:
        return self.status

    def get_job_logs(self, name: str) -> str:
        return "Error: there is no such table"

    def stop_job(self, name: str) -> None:
        self.stopped.append(name)


BEGUN = {"ok": "running"}


def drive(folder: Path, *arguments: str) -> tuple[int, dict[str, str]]:
    """A driver as a head starts it: its exit code, and what it answered."""
    file = folder / "long-0001.json"
    job = {"arguments": arguments, "folder": str(folder), "environment": None, "home": str(folder / ".shoal")}
    file.write_text(json.dumps(job))
    done = subprocess.run([sys.executable, "-m", "shoal.cluster.agent.there", "job", str(file)], check=False)
    answer = Path(there.answer_file(str(file)))
    found = json.loads(answer.read_text())
    answer.unlink()
    return done.returncode, found


def test_a_driver_says_that_its_run_has_begun_and_one_that_is_refused_says_why(tmp_path: Path) -> None:
    (tmp_path / "long.yaml").write_text(
        "kind: sweep\ntrials: {grid: {n: [1]}}\nrun: {command: 'sh -c \"exit {n}\"'}\n"
    )
    assert drive(tmp_path, "run", "long.yaml", "--id=long-0001") == (1, BEGUN)
    assert drive(tmp_path, "resume", "long-0001", "--failed") == (1, BEGUN)
    with RunStore.open(str(tmp_path / ".shoal"), "long-0001", write=True):
        code, answer = drive(tmp_path, "resume", "long-0001", "--failed")
    assert code == 2
    assert "being driven by another process" in answer["error"]
    assert answer["hint"]


@pytest.mark.parametrize(("status", "answer"), [("RUNNING", BEGUN), ("PENDING", BEGUN), ("SUCCEEDED", {})])
def test_a_driver_with_a_run_has_begun(status: str, answer: dict[str, str]) -> None:
    assert jobs.wait_until_begun(Client(status), "job", lambda: answer, 0.0) == "running"


def test_a_driver_that_is_still_getting_ready_is_left_to_it() -> None:
    client = Client("RUNNING")
    assert jobs.wait_until_begun(client, "job", dict, 0.0) == "queued"
    assert client.stopped == []


def test_a_driver_that_never_starts_is_stopped_before_it_is_given_up() -> None:
    client = Client("PENDING")
    with pytest.raises(ClusterError, match="did not begin within 0 s, and was stopped"):
        jobs.wait_until_begun(client, "job", dict, 0.0)
    assert client.stopped == ["job"]


def test_a_driver_that_failed_says_why() -> None:
    with pytest.raises(ClusterError, match="there is no such table"):
        jobs.wait_until_begun(Client("FAILED"), "job", dict)
    answer = {"error": "There is no table.", "hint": "Write one."}
    with pytest.raises(ClusterError, match=r"^There is no table\.") as refused:
        jobs.wait_until_begun(Client("FAILED"), "job", lambda: answer)
    assert refused.value.hint == "Write one."


def archive_of(**files: Any) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, target in files.items():
            member = tarfile.TarInfo(name)
            if target is not None:
                member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    return written.getvalue()


def test_a_folder_that_cannot_be_unpacked_leaves_the_one_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder = jobs.receive("lab", "run-1", archive_of(first=None), {})
    assert os.listdir(folder) == ["first"]
    assert os.stat(there.data_folder("lab")).st_mode & 0o077 == 0, "cluster files name hosts and storages"
    with pytest.raises(ClusterError, match="cannot be unpacked"):
        jobs.receive("lab", "run-1", archive_of(second=None, bad="/etc/passwd"), {})
    assert os.listdir(folder) == ["first"]
    assert jobs.receive("lab", "run-1", archive_of(second=None), {}) == folder
    assert os.listdir(folder) == ["second"]
    assert os.listdir(os.path.dirname(there.workload_folder("lab", "run-1"))) == ["run-1"]

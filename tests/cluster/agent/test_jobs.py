"""When a driver that was handed to a head counts as begun, and what becomes of one that does not begin."""

from __future__ import annotations

import io
import os
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


def make_run(home: Path) -> RunStore:
    return RunStore.create(
        str(home), name="long", kind="sweep", spec_text="", document={}, token=lambda: "0001", now=1.0
    )


def test_a_driver_that_takes_up_an_old_run_is_seen_at_once(tmp_path: Path) -> None:
    store = make_run(tmp_path)
    record = os.path.join(store.folder, "run.db")
    store.close()
    before = jobs._stamp(record)
    with RunStore.open(str(tmp_path), store.run, write=False):
        assert jobs._stamp(record) == before, "somebody only looks"
    assert jobs._stamp(record) == before
    with RunStore.open(str(tmp_path), store.run, write=True, now=2.0) as driver:
        driver.journal()
        assert jobs._stamp(record) != before


@pytest.mark.parametrize(
    ("status", "has_begun"), [("RUNNING", True), ("PENDING", True), ("SUCCEEDED", False)]
)
def test_a_driver_with_a_run_has_begun(status: str, has_begun: bool) -> None:
    assert jobs.wait_until_begun(Client(status), "job", lambda: has_begun, 0.0) == "running"


def test_a_driver_that_is_still_getting_ready_is_left_to_it() -> None:
    client = Client("RUNNING")
    assert jobs.wait_until_begun(client, "job", lambda: False, 0.0) == "queued"
    assert client.stopped == []


def test_a_driver_that_never_starts_is_stopped_before_it_is_given_up() -> None:
    client = Client("PENDING")
    with pytest.raises(ClusterError, match="did not begin within 0 s, and was stopped"):
        jobs.wait_until_begun(client, "job", lambda: False, 0.0)
    assert client.stopped == ["job"]


def test_a_driver_that_failed_says_why() -> None:
    with pytest.raises(ClusterError, match="there is no such table"):
        jobs.wait_until_begun(Client("FAILED"), "job", lambda: False)


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

"""Disks that are full, read-only or on the network: a clear sentence, and nothing that was done is lost."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress

import pytest

TRIAL = """
import os, time
def main(n):
    with open("log", "a") as file:
        file.write(f"{n}\\n")
    time.sleep(0.02)
    return {"square": n * n, "text": "y" * 2000}
"""
IMPATIENT = """
import sys
import shoal.shape.recording as recording
from shoal.cli import main
assert recording.PATIENCE_S == 20.0
recording.PATIENCE_S = 1.0
sys.exit(main(sys.argv[1:]))
"""


def write_sweep(place, count):
    place.write("trial.py", TRIAL)
    place.write("t.csv", "\n".join(["n", *map(str, range(1, count + 1))]))
    return place.sweep("s", "{table: t.csv}", "function: trial:main")


def fill(disk):
    """Leave no room on a disk."""
    with suppress(OSError), open(disk / "filler", "ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while file.write(b"x" * size):
                    pass


def started(place):
    path = place.folder / "log"
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def done(home):
    """The numbers of the trials that are done on that disk now."""
    runs = sorted((home / "runs").iterdir())
    connection = sqlite3.connect(f"file:{runs[0] / 'run.db'}?mode=ro", uri=True)
    try:
        found = connection.execute("SELECT params FROM items WHERE state='done'").fetchall()
    finally:
        connection.close()
    return {json.loads(params)["n"] for (params,) in found}


class TestFullDisk:
    pytestmark = pytest.mark.root

    def test_a_run_ends_with_a_sentence_and_a_resume_with_space_finishes_it(self, place, mount):
        disk = mount("-t", "tmpfs", "-o", "size=4m", "tmpfs")
        home = disk / "home"
        place.environment["SHOAL_HOME"] = str(home)
        file = write_sweep(place, 200)
        process = place.start_program([sys.executable, "-P", "-c", IMPATIENT, "run", file])
        place.until(lambda: len(started(place)) > 20, process)
        fill(disk)
        ended = place.end(process, 1)
        assert "the disk is full" in ended.stderr, ended.stderr
        assert "Free some space, then `shoal resume s-" in ended.stderr
        before = done(home)
        assert before
        seen = len(started(place))
        os.unlink(disk / "filler")
        rows = place.run("s", command="resume")
        assert [int(row["n"]) for row in rows] == list(range(1, 201))
        assert {row["state"] for row in rows} == {"done"}
        assert not before & set(started(place)[seen:])

    def test_a_run_waits_for_space_and_goes_on_by_itself(self, place, mount):
        disk = mount("-t", "tmpfs", "-o", "size=4m", "tmpfs")
        place.environment["SHOAL_HOME"] = str(disk / "home")
        process = place.start("run", write_sweep(place, 150), "--json")
        place.until(lambda: len(started(place)) > 20, process)
        fill(disk)
        place.until(lambda: is_still(place), process)
        assert len(started(place)) < 150
        os.unlink(disk / "filler")
        ended = place.end(process, 0)
        rows = place.table(json.loads(ended.stdout)["results"])
        assert [int(row["n"]) for row in rows] == list(range(1, 151))
        assert len(started(place)) == 150

    def test_a_disk_without_room_for_a_run_is_refused(self, place, mount):
        disk = mount("-t", "tmpfs", "-o", "size=1m", "tmpfs")
        place.environment["SHOAL_HOME"] = str(disk)
        fill(disk)
        done = place.shoal("run", write_sweep(place, 3), code=2)
        assert "SHOAL_HOME" in done.stderr
        assert started(place) == []

    def test_without_room_for_a_trials_folder_no_trial_fails_for_it(self, place, mount):
        """Inodes are what is missing: the record still grows, but no folder and no file can be made."""
        disk = mount("-t", "tmpfs", "-o", "size=8m,nr_inodes=60", "tmpfs")
        place.environment["SHOAL_HOME"] = str(disk / "home")
        process = place.start("run", write_sweep(place, 60))
        place.until(lambda: len(started(place)) > 5, process)
        for number in range(60):
            with suppress(OSError):
                (disk / f"filler{number}").touch()
        ended = place.end(process)
        assert ended.returncode in (0, 1)
        for path in disk.glob("filler*"):
            path.unlink()
        rows = place.run("s", command="resume")
        assert [row["state"] for row in rows] == ["done"] * 60
        assert len(started(place)) == 60

    def test_a_full_disk_under_the_table_of_leases_stops_no_run(self, place, mount):
        disk = mount("-t", "tmpfs", "-o", "size=1m", "tmpfs")
        place.environment["SHOAL_LEASES"] = str(disk / "leases.json")
        fill(disk)
        place.shoal("run", write_sweep(place, 5), code=0)


def is_still(place, quiet_s=1.0):
    """Whether no trial has started for a while."""
    before = len(started(place))
    time.sleep(quiet_s)
    return len(started(place)) == before


def test_a_table_of_leases_whose_folder_was_cleaned_away_is_made_again(place):
    folder = place.folder / "leases"
    place.environment["SHOAL_LEASES"] = str(folder / "table")
    process = place.start("run", write_sweep(place, 40), "--json")
    place.until(lambda: len(started(place)) > 5, process)
    shutil.rmtree(folder)
    place.end(process, 0)
    assert list(folder.glob("table-*"))


def test_a_folder_that_no_worker_can_make_ends_the_run_with_a_sentence(place):
    """It is not tried for ever, and no trial fails for it: it has never run."""
    place.write(
        "trial.py",
        """
        import os
        def main(n):
            if n == 1:
                items = os.path.dirname(os.environ["SHOAL_ITEM_DIR"])
                open(os.path.join(items, "t0002"), "w").close()
        """,
    )
    file = place.sweep("s", "{grid: {n: [1, 2]}}", "function: trial:main", "limits: {concurrent: 1}")
    ended = place.shoal("run", file, code=1)
    assert "No worker could start: FileExistsError" in ended.stderr, ended.stderr
    assert list(place.states().values()) == ["done", "waiting"]
    next(place.home.glob("runs/*/items/t0002")).unlink()
    place.shoal("resume", "s", code=0)
    assert list(place.states().values()) == ["done"] * 2


class TestReadOnlyDisk:
    pytestmark = pytest.mark.root

    def test_a_run_on_it_can_be_looked_at_and_neither_resumed_nor_started(self, place, mount):
        disk = mount("-t", "tmpfs", "-o", "size=16m", "tmpfs")
        place.environment["SHOAL_HOME"] = str(disk / "home")
        place.shoal("run", write_sweep(place, 3), code=0)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for arguments in (["run", "s.yaml"], ["resume", "s"], ["resume", "s", "--failed"]):
            done = place.shoal(*arguments, code=2)
            assert "Read-only file system" in done.stderr
            assert "Hint: " in done.stderr
            assert "SHOAL_HOME" in done.stderr
        for arguments in (["ls"], ["show", "s"], ["results", "s"], ["logs", "s"]):
            place.shoal(*arguments, code=0)
        assert len(place.json("results", "s", "--format", "json")) == 3
        assert place.shoal("rm", "s").returncode != 0


class TestNetworkFileSystem:
    """A real one: sshfs, whose other end is the SFTP server of OpenSSH, through a pipe instead of a network."""

    pytestmark = pytest.mark.root

    @pytest.fixture
    def remote(self, tmp_path):
        server = next(
            (
                path
                for path in ("/usr/lib/openssh/sftp-server", "/usr/libexec/sftp-server")
                if os.path.exists(path)
            ),
            None,
        )
        if not shutil.which("sshfs") or server is None or not os.path.exists("/dev/fuse"):
            pytest.skip("needs sshfs, an SFTP server (Debian: openssh-sftp-server) and /dev/fuse")
        for name in ("served", "mounted"):
            (tmp_path / name).mkdir()
        link = tmp_path / "link"
        link.write_text(f"#!/bin/sh\nexec {server}\n")
        link.chmod(0o755)
        mounted = str(tmp_path / "mounted")
        made = subprocess.run(
            ["sshfs", "-o", f"ssh_command={link}", f"nowhere:{tmp_path / 'served'}", mounted],
            capture_output=True,
            text=True,
        )
        if made.returncode:
            pytest.skip(f"sshfs cannot be mounted here: {made.stderr.strip()}")
        yield tmp_path / "mounted"
        subprocess.run(["umount", "-l", mounted], check=True)

    def test_a_run_works_without_shared_memory_and_survives_a_kill(self, place, remote):
        place.environment["SHOAL_HOME"] = str(remote / "home")
        home = remote / "home"
        process = place.start("run", write_sweep(place, 60))
        place.until(lambda: len(started(place)) > 10, process)
        place.kill(process)
        assert journal_mode(home) != "wal"
        assert not [*home.rglob("*-wal"), *home.rglob("*-shm")]
        before, seen = done(home), len(started(place))
        rows = place.run("s", command="resume")
        assert [(row["n"], row["state"]) for row in rows] == [(str(n), "done") for n in range(1, 61)]
        assert not before & set(started(place)[seen:])
        assert journal_mode(home) != "wal"
        assert [run["state"] for run in place.json("ls", "--json")] == ["succeeded"]

    def test_of_two_drivers_only_one_gets_a_run_there(self, place, remote):
        place.environment["SHOAL_HOME"] = str(remote / "home")
        process = place.start("run", write_sweep(place, 200))
        place.until(lambda: len(started(place)) > 3, process)
        second = place.shoal("resume", "s", code=2)
        assert f"process {process.pid} on" in second.stderr
        place.shoal("stop", "s", code=0)
        place.end(process, 3)

    def test_a_run_that_was_moved_there_goes_on_there(self, place, remote):
        file = write_sweep(place, 60)
        process = place.start("run", file)
        place.until(lambda: len(started(place)) > 10, process)
        place.kill(process)
        before = done(place.home)
        shutil.copytree(place.home, remote / "home")
        place.environment["SHOAL_HOME"] = str(remote / "home")
        assert done(remote / "home") >= before
        rows = place.run("s", command="resume")
        assert [row["state"] for row in rows] == ["done"] * 60
        assert journal_mode(remote / "home") != "wal"


def journal_mode(home):
    """As SQLite wrote it into the file's header: the write version is 2 for WAL."""
    path = next((home / "runs").glob("*/run.db"))
    return "wal" if path.read_bytes()[18] == 2 else "rollback"

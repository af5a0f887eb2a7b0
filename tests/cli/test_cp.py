"""`shoal cp` as a user calls it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from pathlib import Path

from cli.conftest import command


def cp(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("cp", *arguments), cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_cp_says_what_it_copied_and_what_failed(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "one").write_text("one")
    (tmp_path / "from" / "two").write_text("two")
    (tmp_path / "to" / "two").mkdir(parents=True)
    done = cp(tmp_path, "from", "to", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert (document["files"], document["copied"], document["skipped"]) == (2, 1, 0)
    assert document["failed"][0]["file"] == str(tmp_path / "from" / "two")
    assert "1 file could not be copied: the same command tries them again." in done.stderr
    (tmp_path / "to" / "two").rmdir()
    again = cp(tmp_path, "from", "to")
    assert (again.returncode, again.stdout) == (0, "")
    assert f"1 file copied to {tmp_path / 'to'}, 1 was there: 3 B in " in again.stderr


def test_cp_of_nothing_is_a_wrong_request(tmp_path: Path) -> None:
    done = cp(tmp_path, "nope", "to", "--json")
    assert done.returncode == 2
    assert "nope" in json.loads(done.stdout)["error"]
    assert not (tmp_path / "to").exists()


def test_cp_that_is_interrupted_ends_with_3_and_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "huge").touch()
    os.truncate(tmp_path / "huge", 1 << 31)
    done = subprocess.Popen(command("cp", "huge", "to/"), cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while not any((tmp_path / "to").glob(".*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    done.send_signal(signal.SIGINT)
    assert "Stopped. The same command goes on with what is left." in done.communicate(timeout=30)[1]
    assert done.returncode == 3
    assert list((tmp_path / "to").iterdir()) == []


def test_cp_draws_one_line_on_a_terminal(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.txt").write_text("text")
    read, write = pty.openpty()
    with subprocess.Popen(command("cp", "*.txt", "to/"), cwd=tmp_path, stderr=write) as process:
        process.wait(60)
    os.close(write)
    drawn = os.read(read, 100_000).decode()
    os.close(read)
    assert "\r\x1b[K" in drawn
    assert "20 files copied to" in drawn

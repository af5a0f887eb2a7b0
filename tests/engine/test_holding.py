"""Folders that several processes share: gone with their last user, and never before."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO

import pytest

from shoal.engine.ray import folder_locks, shipment
from shoal.errors import EngineError


def openings(path: str) -> int:
    """How often this process has the file open."""
    links = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            links.append(os.readlink(f"/proc/self/fd/{name}"))
    return links.count(path)


def test_the_last_one_out_removes_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "r"
    first, second = folder_locks.hold(str(folder)), folder_locks.hold(str(folder))
    (folder / "logs").mkdir(parents=True)
    first.close()
    assert not folder_locks.remove_unused(str(folder))
    assert folder.exists()
    second.close()
    assert folder_locks.remove_unused(str(folder))
    assert os.listdir(tmp_path / "runs") == []


def test_what_a_link_in_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "checkpoint").touch()
    (tmp_path / "runs" / "r").mkdir(parents=True)
    (tmp_path / "runs" / "r" / "checkpoints").symlink_to(tmp_path / "shared")
    assert folder_locks.remove_unused(str(tmp_path / "runs" / "r"))
    assert (tmp_path / "shared" / "checkpoint").exists()


def test_who_waited_for_a_removal_holds_the_new_lock(tmp_path: Path) -> None:
    folder = str(tmp_path / "runs" / "r")
    alone = folder_locks.hold(folder, alone=True)
    held: list[IO[str]] = []
    waiting = Thread(target=lambda: held.append(folder_locks.hold(folder)))
    waiting.start()
    give_up = time.monotonic() + 30
    while openings(f"{folder}.lock") < 2:
        assert time.monotonic() < give_up, "the other one does not wait for the lock"
        time.sleep(0.001)
    os.unlink(f"{folder}.lock")
    alone.close()
    waiting.join(30)
    [second] = held
    with second:
        assert not folder_locks.remove_unused(folder)


def test_who_waits_too_long_says_what_for(tmp_path: Path) -> None:
    folder = str(tmp_path / "runs" / "r")
    with (
        folder_locks.hold(folder, alone=True),
        pytest.raises(EngineError, match=r"runs/r has been locked by another"),
    ):
        folder_locks.hold(folder, patience_s=0.05)
    folder_locks.hold(folder, patience_s=0.05).close()


def test_old_folders_go_unless_somebody_holds_them(tmp_path: Path) -> None:
    for name in ("old", "held", "new"):
        (tmp_path / name).mkdir()
    for name in ("old", "held"):
        os.utime(tmp_path / name, (0, 0))
    with folder_locks.hold(str(tmp_path / "held")):
        folder_locks.remove_old(str(tmp_path), 3600.0)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["held", "new"]
    folder_locks.remove_old(str(tmp_path / "nowhere"), 3600.0)


def test_shipped_folders_that_nobody_uses_go_after_a_while(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (cache / "stale").mkdir(parents=True)
    os.utime(cache / "stale", (0, 0))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "f.py").write_text("x = 1")
    package = shipment.pack(str(tmp_path / "work"))
    target = Path(shipment.unpack(package, str(cache)))
    assert (target / "f.py").read_text() == "x = 1"
    assert not (cache / "stale").exists()
    os.utime(target, (0, 0))
    assert shipment.unpack(package, str(cache)) == str(target)
    assert not folder_locks.remove_unused(str(target)), "it is used as long as this process lives"

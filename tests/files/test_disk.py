"""Folders of our own in places where everybody may make one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from shoal.engine.local.leases import Leases, table_path
from shoal.errors import AccessDenied
from shoal.files import ensure_ours, make_closed, make_private, own_folder, why_not_ours
from shoal.model import Node


def test_a_new_folder_is_for_us_alone(tmp_path: Path) -> None:
    folder = make_private(str(tmp_path / "a" / "b"))
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert make_private(folder) == folder


def test_a_folder_that_others_can_write_to_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    make_private(str(tmp_path))
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


@pytest.mark.root
@pytest.mark.parametrize("as_link", [False, True], ids=["folder", "link"])
def test_what_another_user_made_first_is_refused(tmp_path: Path, as_link: bool) -> None:
    place = tmp_path / "shoal"
    if as_link:
        place.symlink_to(tmp_path)
    else:
        place.mkdir()
    os.chown(place, 12345, 12345, follow_symlinks=False)
    for look in (make_private, ensure_ours):
        with pytest.raises(AccessDenied, match="belongs to another user"):
            look(str(place))


def test_a_closed_folder_is_for_us_alone_unless_its_group_shares_the_folder_above(tmp_path: Path) -> None:
    make_closed(str(tmp_path / "closed"))
    tmp_path.chmod(0o2775)
    make_closed(str(tmp_path / "shared"))
    make_closed(str(tmp_path / "shared" / "below"))
    modes = {
        name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("closed", "shared", "shared/below")
    }
    umask = os.umask(0)
    os.umask(umask)
    shared = 0o2770 & ~umask
    assert modes == {"closed": 0o700, "shared": shared, "shared/below": shared}


@pytest.mark.root
@pytest.mark.parametrize(
    ("mode", "ours"),
    [(0o700, True), (0o755, True), (0o770, False), (0o707, False)],
    ids=lambda each: f"{each:o}",
)
def test_what_others_can_write_to_is_not_ours(tmp_path: Path, mode: int, ours: bool) -> None:
    tmp_path.chmod(mode)
    os.chown(tmp_path, -1, 12345)
    assert (why_not_ours(str(tmp_path)) is None) is ours


@pytest.mark.root
@pytest.mark.parametrize("as_link", [False, True], ids=["folder", "link"])
def test_who_takes_the_name_of_our_folder_first_does_not_lock_us_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_link: bool
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("SHOAL_LEASES")
    usual = own_folder(str(tmp_path))
    assert table_path() == f"{usual}/leases.json"
    if as_link:
        os.symlink(tmp_path, usual)
    else:
        os.mkdir(usual)
    os.chown(usual, 12345, 12345, follow_symlinks=False)
    instead = make_private(own_folder(str(tmp_path)))
    assert (instead, table_path()) == (str(tmp_path / "cache/shoal/here"), f"{instead}/leases.json")
    Leases([Node("here", 2, 1 << 34)], "machine", table_path()).close()


def test_where_everything_shows_as_open_to_all_modes_say_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    assert why_not_ours(str(tmp_path)) is not None

    def made_as_on_such_a_disk(dir: str) -> str:  # noqa: A002 - as it is called
        path = os.path.join(dir, "probe")
        os.mkdir(path)
        os.chmod(path, 0o777)
        return path

    monkeypatch.setattr("tempfile.mkdtemp", made_as_on_such_a_disk)
    assert why_not_ours(str(tmp_path)) is None
    assert os.listdir(tmp_path) == []

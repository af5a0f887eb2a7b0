"""Folders of our own in places where everybody may make one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from shoal.errors import AccessDenied
from shoal.files import ensure_ours, make_private


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

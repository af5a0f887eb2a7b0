"""Telling network file systems apart."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shoal.files import disk

MOUNTS = r"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /proc rw - proc proc rw
40 22 0:50 / /home rw,relatime shared:3 - nfs4 server:/home rw,vers=4.2
41 40 0:51 / /home/ada/scratch rw - xfs /dev/sdb rw
42 22 0:52 / /mnt/my\040share rw - cifs //server/share rw
43 22 0:53 / /data rw - ext4 /dev/sdc rw
44 43 0:54 / /data rw - fuse.sshfs ada@host: rw
broken line
45 22
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/homes/ada", "ext4"),
        ("/home", "nfs4"),
        ("/home/ada/.shoal", "nfs4"),
        ("/home/ada/scratch/runs", "xfs"),
        ("/mnt/my share/.shoal", "cifs"),
        ("/data/x", "fuse.sshfs"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_the_nearest_mount(path: str, kind: str) -> None:
    assert disk.file_system_of(path, MOUNTS) == kind


def test_a_text_without_mounts_says_nothing() -> None:
    assert disk.file_system_of("/home", "") is None
    assert not disk.is_network(None)


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "9p", "lustre", "fuse.sshfs", "fuse.s3fs", "ceph"])
def test_file_systems_shared_between_machines_count_as_network(kind: str) -> None:
    assert disk.is_network(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "fuseblk", "apfs"])
def test_local_file_systems_do_not(kind: str) -> None:
    assert not disk.is_network(kind)


def test_a_path_is_looked_up_in_the_mounts_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "mountinfo"
    text.write_text(f"1 0 0:1 / {os.path.realpath(tmp_path)} rw - nfs4 server:/ rw\n")
    monkeypatch.setattr(disk, "MOUNTS", str(text))
    assert disk.on_network(str(tmp_path / "not" / "there" / "yet"))


def test_where_mounts_cannot_be_read_a_path_counts_as_local(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "MOUNTS", str(tmp_path / "missing"))
    assert not disk.on_network(str(tmp_path))

"""Files written whole or not at all, safe names, and telling network file systems apart."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import files

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
    assert files.file_system_of(path, MOUNTS) == kind


def test_a_text_without_mounts_says_nothing() -> None:
    assert files.file_system_of("/home", "") is None
    assert not files.is_network(None)


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "9p", "lustre", "fuse.sshfs", "fuse.s3fs", "ceph"])
def test_file_systems_shared_between_machines_count_as_network(kind: str) -> None:
    assert files.is_network(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "fuseblk", "apfs"])
def test_local_file_systems_do_not(kind: str) -> None:
    assert not files.is_network(kind)


def test_a_path_is_looked_up_in_the_mounts_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 0:1 / {os.path.realpath(tmp_path)} rw - nfs4 server:/ rw\n")
    monkeypatch.setattr(files, "MOUNTS", str(mounts))
    assert files.on_network(str(tmp_path / "not" / "there" / "yet"))


def test_where_mounts_cannot_be_read_a_path_counts_as_local(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOUNTS", str(tmp_path / "missing"))
    assert not files.on_network(str(tmp_path))


def test_a_written_file_replaces_the_old_one_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "plan.json"
    files.write_text(str(target), "old")
    files.write_text(str(target), "new\r\nü")
    assert target.read_bytes() == "new\r\nü".encode()
    files.write_bytes(str(target), b"\x00\xff")
    assert target.read_bytes() == b"\x00\xff"
    assert os.listdir(tmp_path) == ["plan.json"]


def test_a_file_whose_writing_fails_keeps_its_old_content(tmp_path: Path) -> None:
    target = tmp_path / "results.csv"
    target.write_text("old")

    def write_half() -> None:
        with files.replacing(str(target)) as file:
            file.write("ne")
            raise RuntimeError("disk")

    with pytest.raises(RuntimeError, match="disk"):
        write_half()
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["results.csv"]


def test_while_it_is_written_the_unfinished_part_is_hidden(tmp_path: Path) -> None:
    with files.replacing(str(tmp_path / "results.csv")):
        (unfinished,) = os.listdir(tmp_path)
    assert unfinished.startswith(".")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("adam 0.1", "adam-0.1"),
        ("../../etc/passwd", "etc-passwd"),
        (".hidden", "hidden"),
        ("a/b\\c:d", "a-b-c-d"),
        ("", "unnamed"),
        ("...", "unnamed"),
        ("héllo", "h-llo"),
    ],
)
def test_names_for_files_are_made_safe(text: str, name: str) -> None:
    assert files.safe_name(text) == name


@given(st.text(), st.integers(1, 200))
def test_no_text_makes_a_name_that_leaves_its_folder(text: str, limit: int) -> None:
    name = files.safe_name(text, limit)
    assert name
    assert len(name) <= max(limit, len("unnamed"))
    assert not name.startswith((".", "-"))
    assert "/" not in name
    assert "\0" not in name
    assert files.safe_name(name, limit) == name or name == "unnamed"

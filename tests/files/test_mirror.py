"""A folder copied to a storage and back: only what changed, nothing that is in use, nothing outside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shoal.errors import Unreachable
from shoal.files import Storage, open_storage
from shoal.files.local import LocalStorage
from shoal.files.mirror import mirror_down, mirror_up

OLD_S = 1_700_000_000


def put(path: Path, text: str, modified_s: float = OLD_S) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (modified_s, modified_s))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for name in ("spec.yaml", "items/t1/out.txt", "items/t2/out.txt"):
        put(tmp_path / "run" / name, name)
    return tmp_path / "run"


def test_a_folder_goes_up_and_comes_down_the_same(storage: Storage, run: Path, tmp_path: Path) -> None:
    up = mirror_up(run, storage, "runs/a", {})
    assert sorted(up.copied) == ["items/t1/out.txt", "items/t2/out.txt", "spec.yaml"]
    assert sorted(entry.key for entry in storage.list()) == [f"runs/a/{key}" for key in sorted(up.copied)]
    down = mirror_down(storage, "runs/a", tmp_path / "copy")
    assert sorted(down.copied) == sorted(up.copied)
    assert {key: (tmp_path / "copy" / key).read_text() for key in down.copied} == {
        key: key for key in down.copied
    }


def test_only_what_changed_is_copied_again(storage: Storage, run: Path, tmp_path: Path) -> None:
    up = mirror_up(run, storage, "a", {})
    down = mirror_down(storage, "a", tmp_path / "copy")
    up = mirror_up(run, storage, "a", up.state)
    assert up.copied == ()
    put(run / "spec.yaml", "SPEC.YAML", OLD_S + 1)  # Of the same size.
    put(run / "new", "new")
    up = mirror_up(run, storage, "a", up.state)
    assert sorted(up.copied) == ["new", "spec.yaml"]
    down = mirror_down(storage, "a", tmp_path / "copy", down.state)
    assert sorted(down.copied) == ["new", "spec.yaml"]
    assert (tmp_path / "copy" / "spec.yaml").read_text() == "SPEC.YAML"
    (tmp_path / "copy" / "new").unlink()
    assert mirror_down(storage, "a", tmp_path / "copy", down.state).copied == ("new",)


def test_a_file_that_was_just_changed_is_copied_once_more(tmp_path: Path, run: Path) -> None:
    storage = open_storage(str(tmp_path / "there"))
    (run / "spec.yaml").write_text("now")
    up = mirror_up(run, storage, "", {})
    up = mirror_up(run, storage, "", up.state)
    assert up.copied == ("spec.yaml",)


def test_names_with_a_dot_are_names_like_others(storage: Storage, run: Path, tmp_path: Path) -> None:
    hidden = [".metadata", ".parts/x", "items/t1/.env", "items/t1/.part"]
    for name in hidden:
        put(run / name, name)
    up = mirror_up(run, storage, "a", {})
    assert set(hidden) < set(up.copied)
    assert set(mirror_down(storage, "a", tmp_path / "copy").copied) == set(up.copied)
    assert [(tmp_path / "copy" / name).read_text() for name in hidden] == hidden
    (run / ".metadata").unlink()
    assert mirror_up(run, storage, "a", up.state, remove=True).removed == (".metadata",)


def test_unfinished_files_and_what_is_excluded_stay(tmp_path: Path, run: Path) -> None:
    for name in ("run.db", "items/.x.0a1b2c3d.part", "items/.t3.0a1b2c3d.part/out.txt"):
        put(run / name, name)
    (run / "link").symlink_to("/etc/hostname")
    storage = open_storage(str(tmp_path / "there"))
    mirror_up(run, storage, "", {}, exclude=lambda key: key == "run.db")
    assert sorted(e.key for e in storage.list(hidden=True)) == [
        "items/t1/out.txt",
        "items/t2/out.txt",
        "spec.yaml",
    ]
    storage.write("run.db", b"the storage's own")
    down = mirror_down(storage, "", tmp_path / "copy", exclude=lambda key: key == "run.db")
    assert "run.db" not in down.copied


def test_nothing_is_left_out_for_its_name(storage: Storage, run: Path, tmp_path: Path) -> None:
    """An SQLite study in use is worth nothing without its journal."""
    names = [f"items/t1/{name}" for name in ("study.db", "study.db-wal", "study.db-shm", "train-journal")]
    for name in names:
        put(run / name, name)
    up = mirror_up(run, storage, "a", {})
    assert set(names) < set(up.copied)
    assert set(mirror_down(storage, "a", tmp_path / "copy").copied) == set(up.copied)


class Picky(LocalStorage):
    """A storage that does not take every name, and may be away."""

    away = False

    def write(self, key: str, data: bytes | Path) -> None:
        if type(self).away:
            raise Unreachable("nobody answers")
        key.encode()  # As clients of S3 do: a name that is no UTF-8 cannot be spelt.
        super().write(key, data)


def test_one_file_that_cannot_be_copied_stops_no_other(tmp_path: Path, run: Path) -> None:
    storage = Picky(str(tmp_path / "there"))
    odd = os.fsdecode(b"items/t1/\xff")
    put(run / odd, "odd")
    up = mirror_up(run, storage, "", {})
    assert sorted(up.copied) == ["items/t1/out.txt", "items/t2/out.txt", "spec.yaml"]
    [(key, why)] = up.failed
    assert (key, odd in up.state) == (odd, False)
    assert "surrogates not allowed" in why
    (run / odd).rename(run / "items/t1/even")
    up = mirror_up(run, storage, "", up.state)
    assert (up.copied, up.failed) == (("items/t1/even",), ())


def test_a_folder_where_a_file_was_copied_before_takes_its_place(tmp_path: Path, run: Path) -> None:
    storage = open_storage(str(tmp_path / "there"))
    up = mirror_up(run, storage, "", {})
    (run / "spec.yaml").unlink()
    put(run / "spec.yaml" / "part", "x")
    put(run / "items/t2/out.txt", "another")
    again = mirror_up(run, storage, "", up.state, remove=True)
    assert (sorted(again.copied), again.failed) == (["items/t2/out.txt", "spec.yaml/part"], ())
    new = mirror_up(run, open_storage(str(tmp_path / "other")), "", {})
    (run / "spec.yaml" / "part").rename(run / "part")
    (run / "spec.yaml").rmdir()
    put(run / "spec.yaml", "a file again")
    put(run / "items/t2/out.txt", "and again")
    again = mirror_up(run, open_storage(str(tmp_path / "other")), "", new.state)
    assert sorted(again.copied) == ["items/t2/out.txt", "part"]
    assert [key for key, _ in again.failed] == ["spec.yaml"], "the folder there is not ours to remove"


@pytest.mark.user
def test_a_folder_that_cannot_be_read_is_named_and_its_copies_stay(tmp_path: Path, run: Path) -> None:
    storage = open_storage(str(tmp_path / "there"))
    up = mirror_up(run, storage, "", {})
    put(run / "new", "new")
    (run / "items" / "t1").chmod(0)
    try:
        up = mirror_up(run, storage, "", up.state, remove=True)
    finally:
        (run / "items" / "t1").chmod(0o755)
    assert up.copied == ("new",)
    assert [key for key, _ in up.failed] == ["items/t1/"]
    assert up.removed == ()
    assert storage.exists("items/t1/out.txt")


def test_a_storage_that_is_away_ends_the_pass_at_once(tmp_path: Path, run: Path) -> None:
    storage = Picky(str(tmp_path / "there"))
    Picky.away = True
    try:
        with pytest.raises(Unreachable):
            mirror_up(run, storage, "", {})
    finally:
        Picky.away = False


def test_what_is_gone_is_removed_on_request_only(storage: Storage, run: Path, tmp_path: Path) -> None:
    up = mirror_up(run, storage, "a", {})
    down = mirror_down(storage, "a", tmp_path / "copy")
    storage.write("a/foreign", b"nobody asked us")
    (run / "spec.yaml").unlink()
    up = mirror_up(run, storage, "a", up.state)
    assert up.removed == ()
    assert storage.exists("a/spec.yaml")
    up = mirror_up(run, storage, "a", up.state, remove=True)
    assert up.removed == ("spec.yaml",)
    assert not storage.exists("a/spec.yaml")
    assert storage.exists("a/foreign")
    down = mirror_down(storage, "a", tmp_path / "copy", down.state, remove=True)
    assert down.removed == ("spec.yaml",)
    assert sorted(os.listdir(tmp_path / "copy")) == ["foreign", "items"]


def test_nothing_is_written_through_a_link_out_of_the_folder(tmp_path: Path, run: Path) -> None:
    storage = open_storage(str(tmp_path / "there"))
    mirror_up(run, storage, "", {})
    (tmp_path / "copy").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "copy" / "items").symlink_to(tmp_path / "outside")
    with pytest.raises(Exception, match="leaves"):
        mirror_down(storage, "", tmp_path / "copy")
    assert os.listdir(tmp_path / "outside") == []

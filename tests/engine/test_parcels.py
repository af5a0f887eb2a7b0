"""Parcels: a folder in blocks, whole at the other end or not there at all."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shoal.engine.workers import parcels
from shoal.engine.workers.messages import Broken, Exit, Label, Log, Parcel
from shoal.engine.workers.parcels import BLOCK_BYTES, Data, File, Folder, Link, NotTaken, Parcels
from shoal.files.disk import is_aside

LABEL = Label("files", "t1", 1)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "node" / "t1"
    (folder / "deep" / "empty").mkdir(parents=True)
    (folder / "deep" / "step").write_text("1")
    (folder / "large").write_bytes(os.urandom(3 * BLOCK_BYTES + 7))
    (folder / "run.sh").write_text("true")
    (folder / "run.sh").chmod(0o755)
    (folder / "latest").symlink_to("deep/step")
    (folder / "deep" / "up").symlink_to("../large")
    os.utime(folder / "deep" / "step", (1_700_000_000, 1_700_000_000))
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def arriving(home: Path) -> Parcels:
    return Parcels(lambda label: str(home / label.name))


def sent(folder: Path) -> list[Parcel]:
    return list(parcels.addressed(LABEL, parcels.blocks(str(folder))))


def content(folder: Path) -> dict[str, bytes | str | None]:
    found: dict[str, bytes | str | None] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        found[name] = (
            os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        )
    return found


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """As on a full disk: writing fails, and works again after."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_folder_arrives_as_it_was(source: Path, home: Path) -> None:
    there = arriving(home)
    assert [there.take(message) for message in sent(source)][-2:] == [False, True]
    assert content(home / "t1") == content(source)
    assert os.access(home / "t1" / "run.sh", os.X_OK)
    assert (home / "t1" / "deep" / "step").stat().st_mtime == 1_700_000_000
    assert os.listdir(home) == ["t1"]


def test_no_block_is_larger_than_one_and_small_files_share_one(source: Path, tmp_path: Path) -> None:
    for message in sent(source):
        assert sum(len(piece.content) for piece in message.block if isinstance(piece, Data)) <= BLOCK_BYTES
    small = tmp_path / "small"
    small.mkdir()
    for number in range(300):
        (small / str(number)).write_text("x")
    assert len(sent(small)) == 1


def test_a_parcel_that_breaks_off_leaves_nothing_and_what_was_there_stays(source: Path, home: Path) -> None:
    (home / "t1").mkdir()
    (home / "t1" / "old").touch()
    there = arriving(home)
    for message in sent(source)[:-1]:
        there.take(message)
    assert sorted(content(home / "t1")) == ["old"]
    [aside] = [name for name in os.listdir(home) if name != "t1"]
    assert is_aside(aside), "a copy of the run's folder would have it"
    there.discard()
    assert os.listdir(home) == ["t1"]
    for message in sent(source):
        there.take(message)
    assert content(home / "t1") == content(source), "it replaces what was there"


def test_what_is_not_what_was_sent_is_not_taken(source: Path, home: Path) -> None:
    there = arriving(home)
    messages = sent(source)
    block = messages[1].block
    place, piece = next((place, piece) for place, piece in enumerate(block) if isinstance(piece, Data))
    block[place] = Data(piece.content[:-1] + bytes([piece.content[-1] ^ 1]))
    for message in messages[:-1]:
        there.take(message)
    with pytest.raises(NotTaken, match="not what was sent"):
        there.take(messages[-1])
    assert os.listdir(home) == []
    there.take(sent(source)[0])
    with pytest.raises(NotTaken, match="block 1 of it is missing"):
        there.take(sent(source)[2])
    assert there.take(sent(source)[3]) is False, "the rest is dropped"
    assert os.listdir(home) == []


def test_a_block_that_found_no_room_may_be_given_again(source: Path, home: Path) -> None:
    there = arriving(home)
    for message in sent(source):
        with no_file_larger_than(BLOCK_BYTES + 100):
            try:
                there.take(message)
                continue
            except OSError:
                pass
        there.take(message)
    assert content(home / "t1") == content(source)


@pytest.mark.parametrize("survivor", ["new", "old"])
def test_a_crash_between_two_renames_loses_neither(
    source: Path, home: Path, survivor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "t1").mkdir()
    (home / "t1" / "old").touch()
    rename = os.rename

    def crash(source: str, target: str) -> None:
        if target == str(home / "t1"):
            raise SystemExit
        rename(source, target)

    there = arriving(home)
    messages = sent(source)
    for message in messages[:-1]:
        there.take(message)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", crash)
        with pytest.raises(SystemExit):
            there.take(messages[-1])
    assert not (home / "t1").exists()
    if survivor == "old":
        for path in home.iterdir():
            if (path / "large").exists():
                path.rename(home.parent / "lost")
    parcels.recover(str(home / "t1"))
    assert os.listdir(home) == ["t1"]
    assert content(home / "t1") == (content(source) if survivor == "new" else {"old": b""})


@pytest.mark.parametrize("path", ["../evil", "/tmp/evil", "a/../../evil", "", "a//b"])
def test_nothing_leaves_the_folder(home: Path, path: str) -> None:
    there = arriving(home)
    with pytest.raises(NotTaken, match="no path in a folder"):
        there.take(Parcel(LABEL, 0, [File(path, 0o644, 0.0), Data(b"x")]))
    assert os.listdir(home) == []


def test_links_that_lead_elsewhere_stay_behind(source: Path, home: Path) -> None:
    for name, target in {"out": "../other", "far": "/etc/passwd", "round": "deep/../../../x"}.items():
        (source / name).symlink_to(target)
    told: list[str] = []
    there = arriving(home)
    for message in parcels.addressed(LABEL, parcels.blocks(str(source), told.append)):
        there.take(message)
    assert sorted(line.partition(" cannot")[0] for line in told) == [
        str(source / name) for name in ("far", "out", "round")
    ]
    assert not {"out", "far", "round"} & set(content(home / "t1"))


def test_a_link_that_nobody_should_have_sent_is_not_made_nor_written_through(home: Path) -> None:
    there = arriving(home)
    pieces = [Link("out", ".."), Folder("out"), File("out/x", 0o644, 0.0), Data(b"x")]
    there.take(Parcel(LABEL, 0, pieces))
    there.discard()
    assert [path.name for path in home.parent.iterdir()] == ["home"]


def test_a_name_that_the_disk_does_not_take_is_named(home: Path) -> None:
    there = arriving(home)
    name = "n" * 300
    with pytest.raises(NotTaken, match=f"'{name}' cannot be stored: File name too long"):
        there.take(Parcel(LABEL, 0, [File(name, 0o644, 0.0), Data(b"x")]))
    assert os.listdir(home) == []


def test_what_cannot_be_read_is_reported_and_the_rest_arrives(source: Path, home: Path) -> None:
    os.mkfifo(source / "pipe")
    told: list[str] = []
    there = arriving(home)
    for message in parcels.addressed(LABEL, parcels.blocks(str(source), told.append)):
        there.take(message)
    assert told == [f"{source / 'pipe'} cannot be taken along: it is no file"]
    assert (home / "t1" / "large").exists()


@pytest.mark.user
def test_a_file_that_nobody_may_read_is_left_out(source: Path, home: Path) -> None:
    before = content(source)
    (source / "secret").touch(mode=0)
    there = arriving(home)
    for message in sent(source):
        there.take(message)
    assert content(home / "t1") == before


def test_messages_travel_together_up_to_the_size_of_a_block() -> None:
    block = [Data(bytes(BLOCK_BYTES // 2))]
    told = [
        Log(0, b"x"),
        Broken("of no use"),
        *(Parcel(LABEL, number, block) for number in range(3)),
        Exit(0, None),
    ]
    made = list(parcels.batches(told))
    assert [message for batch in made for message in batch] == told
    assert [len(batch) for batch in made] == [4, 2]

"""Files as inputs: each once, known again on a resume, by the paths that people would write, and what goes wrong."""

from __future__ import annotations

import os
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import compress, cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servers.seaweedfs import Bucket
from shoal.errors import AccessDenied, NotFound, SpecError, Unreachable
from shoal.files import open_storage
from shoal.spec.shared_sections import Input
from shoal.work.inputs import Changes, opening
from shoal.work.protocols import Unreadable

NAMES = st.text(st.sampled_from("abcäö #?%[]*+&'.-~ "), min_size=1, max_size=12).map(lambda name: f"x{name}")
SIZES = st.lists(st.integers(1, 7), min_size=1, max_size=5)
KEPT = st.lists(st.booleans(), min_size=1, max_size=10)
"""Which items were recorded, in turn. How many there are depends on how fast the thread is."""


def fill(folder: Path | str, names: list[str]) -> None:
    for name in names:
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"content of {name}".encode("utf-8", "surrogateescape"))


def files_of(items: list[Any]) -> list[str]:
    return [key for params in items for key in params["files"]]


@settings(max_examples=60)
@given(st.sets(NAMES, min_size=1, max_size=30), SIZES, SIZES, KEPT, st.booleans())
def test_every_file_comes_once_and_after_a_resume_the_rest(
    inputs_at: Any, names: set[str], sizes: list[int], later: list[int], kept: list[bool], ordered: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fill(folder, [f"in/{name}" for name in names])
        inputs, input_ = inputs_at(folder), Input(images="in")
        items = inputs.items(input_, sizes, ordered=ordered)
        assert sorted(files_of(items)) == sorted(names)
        if ordered:
            assert files_of(items) == sorted(names)
        known = list(compress(items, cycle(kept)))
        rest = inputs.items(input_, later, known, ordered=ordered)
        assert sorted(files_of([*known, *rest])) == sorted(names)
        assert sorted(inputs.read(input_, items)) == sorted(f"content of in/{n}".encode() for n in names)


def test_hidden_files_are_no_inputs_and_extensions_do_not_matter(inputs: Any, tmp_path: Path) -> None:
    fill(tmp_path, ["in/a.jpg", "in/b", "in/c.txt", "in/.d.jpg", "in/.hidden/e.jpg", "in/sub/f.jpg"])
    assert sorted(files_of(inputs.items(Input(images="in/")))) == ["a.jpg", "b", "c.txt", "sub/f.jpg"]


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("in", "in/sub/a b.jpg"),
        ("in/", "in/sub/a b.jpg"),
        ("./in/", "in/sub/a b.jpg"),
        ("in/**/*.jpg", "in/sub/a b.jpg"),
        ("in/*/a b.jpg", "in/sub/a b.jpg"),
        ("in/sub/a b.jpg", "in/sub/a b.jpg"),
        (".", "in/sub/a b.jpg"),
        ("../there/in", "in/sub/a b.jpg"),
        ("ABSOLUTE/in", "ABSOLUTE/in/sub/a b.jpg"),
        ("file://ABSOLUTE/in", "ABSOLUTE/in/sub/a b.jpg"),
        ("ABSOLUTE/in/*/*", "ABSOLUTE/in/sub/a b.jpg"),
    ],
)
def test_paths_are_as_a_person_would_write_them(
    inputs_at: Any, tmp_path: Path, target: str, path: str
) -> None:
    there = tmp_path / "there"
    fill(there, ["in/sub/a b.jpg"])
    inputs = inputs_at(there)
    input_ = Input(images=target.replace("ABSOLUTE", str(there)))
    items = inputs.items(input_)
    assert inputs.keys(input_, items) == [(path.replace("ABSOLUTE", str(there)),)]
    assert inputs.read(input_, items) == [b"content of in/sub/a b.jpg"]


def test_a_path_above_the_folder_stays_one(inputs_at: Any, tmp_path: Path) -> None:
    fill(tmp_path, ["data/a.jpg", "work/workload.yaml"])
    inputs = inputs_at(tmp_path / "work")
    input_ = Input(images="../data")
    assert inputs.keys(input_, inputs.items(input_)) == [("../data/a.jpg",)]


def test_a_name_that_is_no_text_is_read_and_has_a_path_that_is(inputs: Any, tmp_path: Path) -> None:
    fill(tmp_path, [os.fsdecode(b"in/a\xff.jpg")])
    input_ = Input(images="in")
    items = inputs.items(input_)
    assert inputs.read(input_, items) == [b"content of in/a\xff.jpg"]
    assert inputs.keys(input_, items) == [("in/a\\xff.jpg",)]
    assert files_of(inputs.items(input_, known=items)) == []


def test_what_changed_since_is_counted_and_what_is_new_is_given(inputs: Any, tmp_path: Path) -> None:
    fill(tmp_path, [f"in/{number}" for number in range(10)])
    input_ = Input(images="in")
    items = inputs.items(input_, [3])
    (tmp_path / "in/0").unlink()
    (tmp_path / "in/1").unlink()
    (tmp_path / "in/2").write_bytes(b"another")
    fill(tmp_path, ["in/new-1", "in/new-2", "in/new-3"])
    found = inputs.listing(input_, items)
    assert (found.found() >= 10, found.taken()) == (True, 10)
    params = []
    while not found.finished():
        params += [found.take(100)]
    assert sorted(files_of([each for each in params if each])) == ["new-1", "new-2", "new-3"]
    assert found.changes() == Changes(new=3, changed=1, gone=2)
    assert (found.found(), found.taken()) == (13, 13)


def test_without_earlier_sessions_nothing_has_changed(inputs: Any, tmp_path: Path, until: Any) -> None:
    fill(tmp_path, ["in/a"])
    found = inputs.listing(Input(images="in"))
    until(found.complete)
    assert found.changes() == Changes()


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("sessions", [1, 2])
def test_a_limit_is_for_all_sessions_together(
    inputs: Any, tmp_path: Path, ordered: bool, sessions: int
) -> None:
    fill(tmp_path, [f"in/{number:02}" for number in range(20)])
    input_ = Input(images="in")
    items = inputs.items(input_, [4], ordered=ordered, limit=7)
    for _ in range(sessions):
        items = items[:1] + inputs.items(input_, [2], items[:1], ordered=ordered, limit=7)
        assert len(set(files_of(items))) == len(files_of(items)) == 7
        if ordered:
            assert files_of(items) == [f"{number:02}" for number in range(7)]
    assert inputs.items(input_, [2], items, ordered=ordered, limit=7) == []


def test_what_vanished_or_is_denied_is_an_error_of_its_own(inputs: Any, tmp_path: Path) -> None:
    fill(tmp_path, ["in/a", "in/b", "in/c"])
    fill(tmp_path, ["outside"])
    input_ = Input(images="in")
    items = inputs.items(input_, ordered=True)
    (tmp_path / "in/a").unlink()
    (tmp_path / "in/b").unlink()
    (tmp_path / "in/b").symlink_to(tmp_path / "outside")  # Refused, for root as well.
    gone, denied, there = inputs.read(input_, items)
    assert isinstance(gone, Unreadable)
    assert str(gone) == "vanished since it was listed"
    assert isinstance(denied, Unreadable)
    assert "leaves" in str(denied)
    assert there == b"content of in/c"


@pytest.mark.parametrize("target", ["nothing", "in/*.png", "s3:/x"])
def test_nothing_there_is_said_by_take(inputs: Any, tmp_path: Path, failure: Any, target: str) -> None:
    fill(tmp_path, ["in/a"])
    found = inputs.listing(Input(images=target))
    assert isinstance(failure(found), NotFound)
    with pytest.raises(NotFound, match=r"no file|No file"):
        found.take(1)
    assert not found.complete()
    assert not found.finished()


@pytest.mark.parametrize(
    ("target", "endpoint"),
    [("s3://", None), ("ftp://host/x", None), ("in", "http://127.0.0.1:1"), ("s3://bucket/a", "nonsense")],
)
def test_an_address_that_is_wrong_is_said_at_once(inputs: Any, target: str, endpoint: str | None) -> None:
    with pytest.raises(SpecError):
        inputs.listing(Input(images=target, endpoint=endpoint))


def test_a_file_of_a_web_server_is_an_input(inputs: Any, tmp_path: Path) -> None:
    fill(tmp_path, ["in/a b.jpg"])

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/in/a%20b.jpg"
        input_ = Input(images=f"{url}?secret=1")
        items = inputs.items(input_)
        assert inputs.read(input_, items) == [b"content of in/a b.jpg"]
        assert inputs.keys(input_, items) == [(url,)]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.s3
def test_objects_with_odd_names_are_listed_read_and_named(inputs: Any, bucket: Bucket) -> None:
    names = ["with space.jpg", "ünïcödé.jpg", "100%25.jpg", "a#b?c.jpg", "[x]*.jpg", "deep/er.jpg"]
    storage = open_storage(f"{bucket.url}/2024")
    for name in names:
        storage.write(name, name.encode())
    input_ = Input(images=f"{bucket.url}/2024/", endpoint=bucket.server.endpoint)
    items = inputs.items(input_, [2], ordered=True)
    assert inputs.keys(input_, items) == [(f"{bucket.url}/2024/{name}",) for name in sorted(names)]
    assert inputs.read(input_, items) == [name.encode() for name in sorted(names)]
    storage.delete(names[0])
    storage.write(names[1], b"another")
    found = inputs.listing(input_, items)
    while not found.finished():
        assert found.take(10) is None
    assert found.changes() == Changes(new=0, changed=1, gone=1)


@pytest.mark.s3
def test_a_server_that_is_gone_or_does_not_know_us_is_not_the_fault_of_an_input(
    inputs: Any, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failure: Any
) -> None:
    open_storage(bucket.url).write("a", b"x")
    input_ = Input(images=bucket.url)
    (params,) = inputs.items(input_)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(AccessDenied, match="secret key"):
        opening(input_, str(tmp_path))(params).read(0)
    assert isinstance(failure(inputs.listing(input_)), AccessDenied)


@pytest.mark.s3
@pytest.mark.long
def test_a_server_that_cannot_be_reached_fails_the_listing(inputs: Any, bucket: Bucket, failure: Any) -> None:
    found = inputs.listing(Input(images=f"{bucket.url}/x/", endpoint="http://127.0.0.1:1"))
    assert isinstance(failure(found), Unreachable)

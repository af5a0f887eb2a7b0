"""The thread that lists: it begins at once, does not run ahead without bound, and stops when it is told to."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers.seaweedfs import Bucket
from servers.unreliable import Unreliable
from shoal.files import open_storage
from shoal.spec.shared_sections import Input
from shoal.work.inputs import lister
from shoal.work.inputs.image_files import FilePiece
from shoal.work.inputs.known import KnownFiles
from shoal.work.inputs.lister import Found


class Clock:
    """Goes on by hand."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def nothing_known() -> KnownFiles:
    return KnownFiles(())


def test_what_was_found_can_be_taken_while_the_rest_is_looked_for(until: Any) -> None:
    may_go_on = threading.Event()

    def finds() -> Iterator[FilePiece]:
        yield FilePiece("in", "first", "00")
        assert may_go_on.wait(60)
        yield FilePiece("in", "second", "00")

    found = Found(finds, nothing_known(), None, Clock())
    until(found.found)
    assert found.take(10) == {"root": "in", "files": ["first"], "marks": ["00"]}
    assert found.take(10) is None
    assert not found.complete()
    assert not found.finished()
    may_go_on.set()
    until(found.complete)
    assert not found.finished()
    params = found.take(10)
    assert params is not None
    assert params["files"] == ["second"]
    assert found.finished()


def test_it_does_not_run_far_ahead_and_goes_on_when_something_is_taken(until: Any) -> None:
    given = []

    def finds() -> Iterator[FilePiece]:
        for number in range(lister.MOST_WAITING * 2):
            given.append(number)
            yield FilePiece("in", str(number), "00")

    clock = Clock()
    found = Found(finds, nothing_known(), None, clock)
    until(lambda: len(given) == lister.MOST_WAITING + 1)
    until(lambda: found.found() == lister.MOST_WAITING)
    until(lambda: not is_listing(found, clock))
    spent_s = found.seconds()
    clock.now_s += 50  # Nobody takes anything meanwhile: that is not listing.
    assert found.seconds() == spent_s
    taken = 0
    while not found.finished():
        params = found.take(1000)
        if params is not None:
            assert params["files"][0] == str(taken)
            taken += len(params["files"])
            assert found.found() - found.taken() <= lister.MOST_WAITING
    assert taken == found.taken() == lister.MOST_WAITING * 2


def is_listing(found: Found, clock: Clock) -> bool:
    """Whether time that passes now counts as spent."""
    before_s = found.seconds()
    clock.now_s += 1
    return found.seconds() > before_s


def test_a_listing_that_waits_for_room_ends_when_it_is_closed(until: Any) -> None:
    closed = threading.Event()

    def finds() -> Iterator[FilePiece]:
        try:
            for number in range(lister.MOST_WAITING * 2):
                yield FilePiece("in", str(number), "00")
        finally:
            closed.set()

    found = Found(finds, nothing_known(), None, Clock())
    until(lambda: found.found() == lister.MOST_WAITING)
    found.close()
    found.close()
    assert closed.wait(60)
    until(lambda: not found._thread.is_alive())
    assert not found.complete()


def test_an_error_comes_out_of_take_at_once_and_again(until: Any) -> None:
    def finds() -> Iterator[FilePiece]:
        yield FilePiece("in", "first", "00")
        raise LookupError("no more of it")

    found = Found(finds, nothing_known(), None, Clock())
    until(lambda: not found._thread.is_alive())
    for _ in range(2):
        with pytest.raises(LookupError, match="no more of it"):
            found.take(1)
    assert not found.complete()


def test_many_known_inputs_take_17_bytes_each() -> None:
    def items() -> Iterator[dict[str, list[str]]]:
        for start in range(0, 100_000, 1000):
            numbers = range(start, start + 1000)
            yield {"files": [f"2024/{n:07}.jpg" for n in numbers], "marks": [f"{n:012x}" for n in numbers]}

    KnownFiles([{"files": ["x"], "marks": ["00"]}])  # So that numpy is loaded by now.
    tracemalloc.start()
    try:
        known = KnownFiles(items())
        kept_bytes, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(known) == 100_000
    assert kept_bytes < 2_000_000
    assert most_bytes < 12_000_000
    assert known.saw("2024/0012345.jpg", f"{12345:012x}")
    assert known.saw("2024/0012346.jpg", f"{0:012x}")
    assert not known.saw("2024/x.jpg", "00")
    assert known.changes(1, seen_all=True) == (1, 1, 99_998)


MEMORY = """
import resource, sys, time
from shoal.spec.infer import Input
from shoal.work.inputs import listing

def now_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

found = listing(Input(images=sys.argv[1]), ".", ordered=False, limit=None, now=time.monotonic)
while not found.found():
    time.sleep(0.001)
first, before = found.found(), now_bytes()
most = taken = 0
while not found.finished():
    params = found.take(500)
    taken += len(params["files"]) if params else 0
    most = max(most, now_bytes() - before)
print(first, taken, most)
"""


@pytest.mark.long
def test_many_files_in_a_folder_start_at_once_and_take_little_memory(tmp_path: Path) -> None:
    """200,000 of them: the first can be taken when next to none have been seen, and memory stays flat."""
    count = 200_000
    origin = tmp_path / "origin"
    origin.touch()
    (tmp_path / "in").mkdir()
    for number in range(count):
        if number % 20_000 == 0:  # File systems bound the links to one file.
            origin.unlink()
            origin.touch()
        os.link(origin, tmp_path / "in" / f"{number:06}.jpg")
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "in")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200)
    first, taken, most_bytes = map(int, done.stdout.split())
    assert taken == count
    assert first < count / 20
    assert most_bytes < 60_000_000


@pytest.mark.s3
def test_a_bucket_is_taken_from_while_it_is_listed(
    inputs: Any, bucket: Bucket, unreliable: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for 500, two of the five pages are asked for until somebody takes some, and perhaps a third."""
    from concurrent.futures import ThreadPoolExecutor

    monkeypatch.setattr(lister, "MOST_WAITING", 500)
    storage = open_storage(bucket.url)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: storage.write(f"{number:05}", b"x"), range(4500)))
    counted: Unreliable = unreliable(bucket.server.endpoint, every=0)
    found = inputs.listing(Input(images=bucket.url, endpoint=counted.url))
    until(lambda: found.found() == 500)
    assert found.take(10) is not None
    assert counted.requests <= 3
    seen = 10
    while not found.finished():
        params = found.take(100)
        seen += len(params["files"]) if params else 0
    assert seen == 4500
    assert counted.requests >= 5


def test_only_what_is_needed_is_loaded() -> None:
    code = """
import sys, tempfile
from shoal.spec.infer import Input
from shoal.work.inputs import opening
opening(Input(images="in"), ".")
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"numpy", "pyarrow", "obstore", "shoal.work.inputs.lister"} & set(done.stdout.split()) == set()

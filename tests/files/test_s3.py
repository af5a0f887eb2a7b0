"""Buckets of a real S3 server: credentials, errors, a server that fails now and then, and long listings."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest

from servers.seaweedfs import ACCESS_KEY, READ_ONLY_KEY, SECRET_KEY, Bucket
from servers.unreliable import Unreliable
from shoal.errors import AccessDenied, FileError, NotFound, SpecError, Unreachable
from shoal.files import Patience, find, open_storage
from shoal.files.base import PIECE_BYTES
from shoal.files.mirror import mirror_down, mirror_up

pytestmark = pytest.mark.s3


def test_an_endpoint_wins_over_the_environment(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:2")
    storage = open_storage(bucket.url, endpoint=bucket.server.endpoint)
    storage.write("x", b"x")
    assert storage.read("x") == b"x"


def test_keys_come_from_a_profile(bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        f"[lab]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
    )
    with pytest.raises(AccessDenied, match="no credentials"):
        open_storage(bucket.url).read("x")
    monkeypatch.setenv("AWS_PROFILE", "lab")
    open_storage(bucket.url).write("x", b"x")


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("AWS_ACCESS_KEY_ID", "nobody", "does not know the access key"),
        ("AWS_SECRET_ACCESS_KEY", "wrong", "secret key does not fit"),
        ("AWS_ACCESS_KEY_ID", READ_ONLY_KEY, "does not allow it"),
    ],
)
def test_wrong_credentials_are_named(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, why: str
) -> None:
    monkeypatch.setenv(variable, value)
    storage = open_storage(f"{bucket.url}/some")
    with pytest.raises(AccessDenied, match=rf"s3://{bucket.name}/some/x may not be used: .*{why}") as caught:
        storage.write("x", b"")
    assert SECRET_KEY not in f"{caught.value} {caught.value.hint}"
    if value != READ_ONLY_KEY:
        with pytest.raises(AccessDenied):
            list(storage.list())


def test_a_missing_bucket_is_named(bucket: Bucket) -> None:
    storage = open_storage("s3://no-such-bucket/x")
    with pytest.raises(NotFound, match="no bucket 'no-such-bucket' at http://127"):
        storage.read("x")
    with pytest.raises(NotFound, match="no-such-bucket"):
        list(find("s3://no-such-bucket/x/*.jpg").entries)


def test_a_path_or_pattern_finds_its_objects(bucket: Bucket) -> None:
    storage = open_storage(bucket.url)
    for key in ("2024/a/1.jpg", "2024/2.jpg", "2024/3.txt"):
        storage.write(key, key.encode())

    def found(target: str) -> list[bytes]:
        where, entries = find(target)
        return sorted(where.read(entry.key) for entry in entries)

    assert found(f"{bucket.url}/2024/**/*.jpg") == [b"2024/2.jpg", b"2024/a/1.jpg"]
    assert found(f"{bucket.url}/2024") == found(f"{bucket.url}/2024/") == found(bucket.url)
    assert found(f"{bucket.url}/2024/3.txt") == [b"2024/3.txt"]
    with pytest.raises(NotFound, match="nothing"):
        found(f"{bucket.url}/nothing")


def test_nobody_there_is_said_with_the_number_of_tries(bucket: Bucket, quick: Patience) -> None:
    storage = open_storage(bucket.url, endpoint="http://127.0.0.1:1", patience=quick._replace(tries=3))
    for action in (
        lambda: storage.read("x"),
        lambda: storage.write_new("x", b""),
        lambda: list(storage.list()),
    ):
        with pytest.raises(
            Unreachable, match=r"http://127\.0\.0\.1:1 cannot be used .* Tried 3 times\."
        ) as told:
            action()
        assert str(told.value).count("Tried") == 1


@pytest.mark.parametrize("way", ["503", "429", "reset", "stall"])
def test_a_server_that_always_fails_is_given_up(
    bucket: Bucket, unreliable: Callable[..., Unreliable], quick: Patience, way: str
) -> None:
    proxy = unreliable(bucket.server.endpoint, every=1, ways=(way,))
    storage = open_storage(bucket.url, endpoint=proxy.url, patience=quick._replace(tries=2))
    for action in (
        lambda: storage.read("x"),
        lambda: storage.write("x", b""),
        lambda: storage.write_new("x", b""),
    ):
        with pytest.raises(Unreachable, match=r"Tried 2 times\."):
            action()


def test_a_server_that_fails_one_request_in_ten_costs_tries_and_nothing_else(
    bucket: Bucket, unreliable: Callable[..., Unreliable], quick: Patience, tmp_path: Path
) -> None:
    proxy = unreliable(bucket.server.endpoint, every=10)
    storage = open_storage(bucket.url, endpoint=proxy.url, patience=quick)
    contents = {f"{number % 7}/{number}": os.urandom(1000 + number) for number in range(150)}
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda key: storage.write(key, contents[key]), contents))
        assert list(pool.map(storage.read, contents)) == list(contents.values())
    assert {entry.key: entry.size_bytes for entry in storage.list()} == {
        k: len(v) for k, v in contents.items()
    }
    large = os.urandom(1024) * (20 * 1024)
    for number in range(5):
        storage.write(f"large-{number}", large)
        storage.download(f"large-{number}", tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == large
        with storage.open(f"large-{number}") as file:
            assert file.read() == large
    assert len(proxy.faults) >= 30


@pytest.mark.always
def test_a_lost_answer_does_not_make_a_creator_doubt_itself(
    bucket: Bucket, unreliable: Callable[..., Unreliable], quick: Patience
) -> None:
    proxy = unreliable(bucket.server.endpoint, every=3, ways=("late", "503", "reset"))
    storage = open_storage(bucket.url, endpoint=proxy.url, patience=quick)
    for number in range(20):
        assert storage.write_new(f"lock-{number}", f"mine {number}".encode())
        assert not storage.write_new(f"lock-{number}", b"another")
    assert any(fault.way == "late" and fault.method == "PUT" for fault in proxy.faults)


def test_a_listing_begins_before_it_is_complete(
    bucket: Bucket, unreliable: Callable[..., Unreliable]
) -> None:
    storage = open_storage(bucket.url)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: storage.write(f"{number:05}", b"x"), range(5000)))
    counted = unreliable(bucket.server.endpoint, every=0)
    entries = open_storage(bucket.url, endpoint=counted.url).list()
    assert len(list(islice(entries, 10))) == 10
    assert counted.requests <= 3  # Of six: pages are of a thousand, and the next may be on its way.
    assert sum(1 for _ in entries) == 4990
    assert counted.requests >= 5


@pytest.mark.always
def test_a_listing_whose_answers_break_off_is_gone_on_with(
    bucket: Bucket, unreliable: Callable[..., Unreliable], quick: Patience
) -> None:
    """The client library tries again what is refused, but not half an answer."""
    storage = open_storage(bucket.url)
    names = [f"{number % 5}{'/.-'[number % 3]}{number:05}" for number in range(3500)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: storage.write(name, b"" if name.endswith("777") else b"x"), names))
    proxy = unreliable(bucket.server.endpoint, every=2, ways=("cut", "short"))
    found = [entry.key for entry in open_storage(bucket.url, endpoint=proxy.url, patience=quick).list()]
    assert sorted(found) == sorted(names)
    assert len([fault for fault in proxy.faults if "list-type" in fault.path]) >= 2
    proxy.every = 1
    with pytest.raises(Unreachable):
        list(open_storage(bucket.url, endpoint=proxy.url, patience=quick._replace(tries=2)).list())


def test_a_folder_is_mirrored_through_a_server_that_fails(
    bucket: Bucket, unreliable: Callable[..., Unreliable], quick: Patience, tmp_path: Path
) -> None:
    proxy = unreliable(bucket.server.endpoint, every=10)
    storage = open_storage(bucket.url, endpoint=proxy.url, patience=quick)
    for number in range(60):
        (tmp_path / "run" / str(number % 5)).mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / str(number % 5) / str(number)).write_bytes(os.urandom(2000))
    assert len(mirror_up(tmp_path / "run", storage, "runs/a", {}).copied) == 60
    mirror_down(storage, "runs/a", tmp_path / "copy")
    for number in range(60):
        name = f"{number % 5}/{number}"
        assert (tmp_path / "copy" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


@pytest.mark.always
@pytest.mark.parametrize("way", ["503", "reset", "cut", "short"])
def test_a_listing_whose_pages_break_off_goes_on_where_it_was(
    bucket: Bucket, unreliable: Callable[..., Unreliable], quick: Patience, way: str
) -> None:
    proxy = unreliable(bucket.server.endpoint, every=2, ways=(way,))
    storage = open_storage(f"{bucket.url}/some", endpoint=proxy.url, patience=quick)
    keys = sorted(f"{number % 7}/{number}" for number in range(1500))
    straight = open_storage(f"{bucket.url}/some")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: straight.write(key, b"" if key.endswith("00") else b"x"), keys))
    for _ in range(4):
        assert sorted(entry.key for entry in storage.list()) == keys
    assert len(proxy.faults) >= 4


@pytest.mark.always
@pytest.mark.parametrize("way", ["503", "reset", "late", "cut"])
def test_a_delete_whose_answer_is_lost_is_done_again(
    bucket: Bucket, unreliable: Callable[..., Unreliable], quick: Patience, way: str
) -> None:
    proxy = unreliable(bucket.server.endpoint, every=2, ways=(way,))
    storage = open_storage(bucket.url, endpoint=proxy.url, patience=quick)
    straight = open_storage(bucket.url)
    for number in range(6):
        straight.write(f"{number}", b"x")
    for number in range(6):
        storage.delete(f"{number}")
    assert list(straight.list()) == []
    assert len(proxy.faults) >= 3


@pytest.mark.always
@pytest.mark.parametrize("way", ["cut", "short"])
def test_an_answer_that_breaks_off_is_asked_for_again_also_when_it_is_a_no(
    bucket: Bucket, unreliable: Callable[..., Unreliable], quick: Patience, way: str
) -> None:
    proxy = unreliable(bucket.server.endpoint, every=2, ways=(way,))
    storage = open_storage(bucket.url, endpoint=proxy.url, patience=quick)
    for _ in range(4):
        with pytest.raises(NotFound):
            storage.read("nothing")
    assert len(proxy.faults) >= 2


def test_a_server_that_ignores_conditions_is_found_out_before_anybody_relies_on_it(
    bucket: Bucket, unreliable: Callable[..., Unreliable], quick: Patience
) -> None:
    proxy = unreliable(bucket.server.endpoint, every=0)
    storage = open_storage(f"{bucket.url}/some", endpoint=proxy.url, patience=quick)
    proxy.before = bucket.forget_condition
    with pytest.raises(SpecError, match=f"{proxy.url} ignores conditions on writes") as caught:
        storage.ensure_claims_hold()
    assert "MinIO" in (caught.value.hint or "")
    proxy.before = lambda request: None
    storage.ensure_claims_hold()
    asked = proxy.requests
    open_storage(f"{bucket.url}/other", endpoint=proxy.url, patience=quick).ensure_claims_hold()
    assert proxy.requests == asked, "it was asked again"
    assert list(open_storage(bucket.url).list(hidden=True)) == []


def test_an_object_that_is_replaced_while_it_is_read_is_an_error_and_not_a_mixture(bucket: Bucket) -> None:
    storage = open_storage(bucket.url)
    storage.write("x", bytes(3 * PIECE_BYTES))
    with storage.open("x") as file:
        assert file.read(10) == bytes(10)
        storage.write("x", b"1" * 3 * PIECE_BYTES)
        with pytest.raises(FileError, match="was changed while it was read"):
            file.read()

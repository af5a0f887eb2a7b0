"""Storages that fail, deny, vanish and fill up under an inference, and inputs that change between two sessions."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from faults.pictures import done, fill, inference, name_of, output, picture, write_model
from faults.storms import check_storm, slow
from servers.seaweedfs import READ_ONLY_KEY
from shoal.files import open_storage

COUNT = int(os.environ.get("SHOAL_STORM_INPUTS", "2000"))
"""Of the storms over servers; 20,000 takes minutes."""
WAYS = ("503", "429", "reset", "cut", "short", "late")
"""All but answers that never come, each of which takes half a minute."""
PATIENCE_S = 280
"""More than a run waits for a server that is gone."""


def upload(place, url, count):
    """The images of a large folder, put under this URL."""
    fill(place.folder / "local", count)
    storage = open_storage(url)

    def put(number):
        storage.write(name_of(number), (place.folder / "local" / name_of(number)).read_bytes())

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(put, range(count)))


def use(place, **variables):
    """What the driver and its workers find in their environment."""
    place.environment.update({name: value for name, value in os.environ.items() if name.startswith("AWS_")})
    place.environment.update(variables)


@pytest.mark.always
@pytest.mark.s3
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_storm_over_a_bucket_that_fails_one_request_in_ten_loses_and_repeats_no_row(
    bucket, unreliable, place
):
    upload(place, f"{bucket.url}/in", COUNT)
    proxy = unreliable(bucket.server.endpoint, every=10, ways=WAYS)
    use(place, AWS_ENDPOINT_URL=proxy.url)
    item = max(20, COUNT // 100)
    found = check_storm(place, COUNT, f"{bucket.url}/in/", f"{bucket.url}/out/", item)
    print(f"{proxy.requests} requests, of which {len(proxy.faults)} failed")
    assert len(proxy.faults) >= COUNT // 10
    assert f"{bucket.url}/in/000/000000.jpg" in found.rows
    left = [entry.key for entry in open_storage(f"{bucket.url}/out").list(hidden=True)]
    assert not [key for key in left if "/at-" in key or "/errors-" in key]


@pytest.mark.hdfs
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_storm_over_hdfs_loses_and_repeats_no_row(hdfs_folder, place):
    upload(place, f"{hdfs_folder.url}/in", COUNT)
    item = max(20, COUNT // 100)
    found = check_storm(place, COUNT, f"{hdfs_folder.url}/in/", f"{hdfs_folder.url}/out/", item)
    assert f"{hdfs_folder.url}/in/000/000000.jpg" in found.rows


@pytest.mark.s3
@pytest.mark.long
def test_answers_that_never_come_are_asked_for_again(bucket, unreliable, place):
    upload(place, f"{bucket.url}/in", 40)
    # The run asks about 110 times, and each stall takes half a minute: one or two of them, not three.
    proxy = unreliable(bucket.server.endpoint, every=60, ways=("stall",))
    use(place, AWS_ENDPOINT_URL=proxy.url)
    write_model(place.folder / "model.onnx")
    urls = {"input": {"images": f"{bucket.url}/in/"}, "output": f"{bucket.url}/out/"}
    ended = place.json("run", inference(place, **urls), "--json")
    assert ended["infer"]["rows"] == 40
    assert proxy.faults


@pytest.mark.s3
@pytest.mark.long
def test_a_server_that_is_not_there_is_told_in_a_sentence(bucket, unreliable, place):
    upload(place, f"{bucket.url}/in", 20)
    proxy = unreliable(bucket.server.endpoint, every=1, ways=("503",))
    use(place, AWS_ENDPOINT_URL=proxy.url)
    write_model(place.folder / "model.onnx")
    file = inference(place, input={"images": f"{bucket.url}/in/"}, tune={"item": 5, "runtime": "as-given"})
    done = place.shoal("run", file, code=1)
    assert "Tried" in done.stderr
    assert "503" in done.stderr
    proxy.every = 0
    if place.runs():
        assert place.json("resume", "i", "--json")["infer"]["rows"] == 20


@pytest.mark.s3
@pytest.mark.long
def test_a_server_that_is_away_for_a_while_costs_nothing(bucket, unreliable, place):
    upload(place, f"{bucket.url}/in", 200)
    proxy = unreliable(bucket.server.endpoint, every=0)
    use(place, AWS_ENDPOINT_URL=proxy.url)
    file = inference(place, **slow(place) | {"input": {"images": f"{bucket.url}/in/"}})
    process = place.start("run", file, "--json")
    place.until(lambda: done(place) >= 2, process)
    proxy.ways, proxy.every = ("503",), 1
    logs = place.home / "runs"
    place.until(lambda: any("again in 5 s" in log.read_text() for log in logs.glob("*/logs/*.log")), process)
    proxy.every = 0
    place.end(process, 0)
    assert len(output(place.folder / "out").rows) == 200


@pytest.mark.s3
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_server_that_goes_away_for_good_costs_nothing_that_is_done(bucket, unreliable, place):
    upload(place, f"{bucket.url}/in", 200)
    proxy = unreliable(bucket.server.endpoint, every=0)
    use(place, AWS_ENDPOINT_URL=proxy.url)
    file = inference(place, **slow(place) | {"input": {"images": f"{bucket.url}/in/"}})
    process = place.start("run", file)
    place.until(lambda: done(place) >= 2, process)
    proxy.ways, proxy.every = ("503",), 1
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "503" in err
    assert "Traceback" not in err
    before = output(place.folder / "out")
    assert before.rows
    proxy.every = 0
    ended = place.json("resume", "i", "--failed", "--json")
    assert ended["infer"]["rows"] == 200
    after = output(place.folder / "out")
    assert before.rows.items() <= after.rows.items()


@pytest.mark.s3
def test_an_output_that_may_not_be_written_is_told_before_anything_is_read(bucket, place):
    upload(place, f"{bucket.url}/in", 20)
    use(place, AWS_ACCESS_KEY_ID=READ_ONLY_KEY)
    write_model(place.folder / "model.onnx")
    urls = {"input": {"images": f"{bucket.url}/in/"}, "output": f"{bucket.url}/out/"}
    end = place.shoal("run", inference(place, **urls), code=1)
    assert end.stderr.startswith("Error: ")
    assert f"{bucket.url}/out" in end.stderr
    assert "the server does not allow it" in end.stderr
    assert place.runs() == []


@pytest.mark.s3
@pytest.mark.parametrize("where", ["input", "output"])
def test_a_wrong_key_is_told_without_being_shown(bucket, place, where):
    upload(place, f"{bucket.url}/in", 20)
    use(place, AWS_SECRET_ACCESS_KEY="wrong-and-secret")
    write_model(place.folder / "model.onnx")
    fill(place.folder / "in", 20)
    urls = (
        {"input": {"images": f"{bucket.url}/in/"}} if where == "input" else {"output": f"{bucket.url}/out/"}
    )
    end = place.shoal("run", inference(place, **urls), code=1)
    assert "the secret key does not fit the access key" in end.stderr
    assert "wrong-and-secret" not in end.stderr


def check_vanished(place, root, remove):
    """Inputs are removed while the first items are done; they were listed, and are not there to be read."""
    settings = slow(place) | {"input": {"images": root}, "limits": {"errors": "20%"}}
    settings["output"] = {"path": "out/", "preserve_order": True}
    process = place.start("run", inference(place, **settings), "--json")
    place.until(lambda: done(place) >= 1, process)
    for number in range(190, 200):
        remove(name_of(number))
    place.end(process, 0)
    found = output(place.folder / "out")
    assert {path.removeprefix(root) for path in found.errors} == {name_of(each) for each in range(190, 200)}
    assert set(found.errors.values()) == {"vanished since it was listed"}
    assert len(found.rows) == 190


def test_a_file_that_vanishes_after_it_was_listed_is_an_error_of_its_own(place):
    fill(place.folder / "in", 200)
    check_vanished(place, "in/", lambda name: (place.folder / "in" / name).unlink())


@pytest.mark.s3
def test_an_object_that_vanishes_after_it_was_listed_is_an_error_of_its_own(bucket, place):
    upload(place, f"{bucket.url}/in", 200)
    use(place)
    check_vanished(place, f"{bucket.url}/in/", open_storage(f"{bucket.url}/in").delete)


@pytest.mark.root
@pytest.mark.parametrize("errors", [0, 1])
def test_a_full_disk_ends_the_run_and_with_room_it_goes_on(place, mount, errors):
    disk = mount("-t", "tmpfs", "-o", "size=512k", "shoal-small")
    fill(place.folder / "in", 300)
    if errors:  # It comes first: then there is something to write when the run ends, too.
        (place.folder / "in" / "000" / "00.jpg").write_bytes(b"")
    filler = disk / "filler"
    filler.write_bytes(bytes(400 << 10))
    settings = slow(place) | {"tune": {"item": 4, "batch": 4}}
    settings["output"] = {"path": str(disk / "out"), "preserve_order": True}
    end = place.shoal("run", inference(place, **settings), code=1)
    assert "The disk of the output is full" in end.stderr
    assert place.store().state() == "failed"
    if errors:
        assert ".parquet cannot be used: No space left on device." in end.stderr
        assert "Then: shoal resume i-" in end.stderr
    assert " --failed" in end.stderr
    parts = len(list((disk / "out").glob("part-*")))
    assert parts
    filler.unlink()
    ended = place.json("resume", "i", "--failed", "--json")
    assert ended["state"] == "succeeded"
    after = output(disk / "out")
    assert parts < after.parts
    assert (len(after.rows), len(after.errors)) == (300, errors)


def test_inputs_that_changed_between_two_sessions_are_told_and_new_ones_are_done(place):
    fill(place.folder / "in", 200)
    settings = slow(place) | {"output": {"path": "out/", "preserve_order": True}}
    process = place.start("run", inference(place, **settings))
    place.until(lambda: done(place) >= 2, process)
    place.kill(process)
    rows = {row["path"] for path in (place.folder / "out").glob("part-*") for row in table(path)}
    assert 20 <= len(rows) < 150
    gone, changed = sorted(rows)[:2]
    (place.folder / gone).unlink()
    (place.folder / changed).unlink()  # It is a link to what others are, too.
    (place.folder / changed).write_bytes(picture(999, size=30))
    for number in range(3):
        (place.folder / "in" / f"new{number}.jpg").write_bytes(picture(number))
    (place.folder / "in" / name_of(199)).unlink()
    ended = place.json("resume", "i", "--json")
    said = " ".join(ended["notes"])
    assert "1 input changed since the listing" in said
    assert "1 input vanished since the listing" in said
    assert "inputs had not been taken by earlier sessions, or came since" in said
    found = output(place.folder / "out")
    assert found.errors == {}
    expected = {f"in/{name_of(number)}" for number in range(199)} | {f"in/new{each}.jpg" for each in range(3)}
    assert found.rows.keys() == expected


def test_files_that_came_after_a_run_had_succeeded_are_done_by_a_resume(place):
    fill(place.folder / "in", 20)
    place.json("run", inference(place, **slow(place)), "--json")
    (place.folder / "in" / "new.jpg").write_bytes(picture(5))
    ended = place.json("resume", "i", "--json")
    assert ended["infer"]["rows"] == 21
    assert "in/new.jpg" in output(place.folder / "out").rows
    shutil.rmtree(place.folder / "in")
    assert place.json("resume", "i", "--json")["infer"]["rows"] == 21
    (place.folder / "in").mkdir()
    assert place.json("resume", "i", "--json")["infer"]["rows"] == 21


def table(path: Path):
    from pyarrow import parquet

    return parquet.read_table(path).to_pylist()

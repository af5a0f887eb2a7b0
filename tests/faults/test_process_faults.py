"""What goes wrong around a process run: killed drivers, files that change or are none, jobs that misbehave."""

from __future__ import annotations

import csv
import gzip
import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path
from resource import RLIMIT_NOFILE, setrlimit
from typing import Any

import pytest
from pyarrow import parquet

from faults.pictures import done
from shoal.files import open_storage

JOB = """\
import os, time
from pathlib import Path

def wait_for(name):
    Path(f"at-{name}").touch()
    while not Path(name).exists():
        time.sleep(0.005)

class Letters:
    key = ("letter",)

    def map(self, record):
        letter = record.row["text"]
        with open("log", "a") as log:
            log.write(letter)
        if letter == os.environ.get("WAIT"):
            wait_for("go")
        return [(letter, 1)]

    def finish(self, pairs):
        if os.environ.get("WAIT") == "finish":
            wait_for("go")
        yield from pairs

def raising(record):
    raise ValueError("not today")

def exiting(record):
    os._exit(7)

def endless(record):
    time.sleep(600)

def pairless(record):
    return [record.row["text"]]

def worded(record):
    return [(record.row["text"], "many")]
"""
LETTERS = "aabbccddee"


def process(place: Any, name: str = "p", **keys: Any) -> str:
    """A workload over lines with a letter each, five items of two; keys that are None are left out."""
    document = {
        "kind": "process",
        "name": name,
        "input": {"text": "lines/", "split": "4B"},
        "job": {"function": "jobs:Letters"},
        "output": "out/letters.csv",
        "limits": {"concurrent": 1, "retries": 0},
        **keys,
    }
    place.write("jobs.py", JOB)
    for number in range(5):
        place.write(f"lines/{number}.txt", "\n".join(LETTERS[2 * number : 2 * number + 2]) + "\n")
    place.write(
        f"{name}.yaml", json.dumps({key: value for key, value in document.items() if value is not None})
    )
    return f"{name}.yaml"


def counts(path: Path) -> dict[str, int]:
    with path.open(newline="") as file:
        _, *rows = csv.reader(file)
    return {key: int(count) for key, count in rows}


def errors(place: Any, name: str = "out/letters.errors.parquet") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = parquet.read_table(place.folder / name).to_pylist()
    return found


def partials(place: Any) -> int:
    return len(list((place.folder / "out").glob(".shoal-*/partial-*")))


def member(body: bytes, kind: str = "response", url: str = "http://a.example/") -> bytes:
    """A record of an archive, not compressed."""
    head = {"WARC-Type": kind, "WARC-Target-URI": url, "Content-Type": "application/http; msgtype=response"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in {**head, "Content-Length": len(body)}.items())
    return b"WARC/1.0\r\n" + lines.encode() + b"\r\n" + body + b"\r\n\r\n"


def page(server: str, body: bytes = b"") -> bytes:
    return member(b"HTTP/1.1 200 OK\r\nServer: %s\r\n\r\n%s" % (server.encode(), body))


def servers(place: Any, **keys: Any) -> str:
    """A workload that counts servers in one archive."""
    text = {"input": {"warc": "a.warc.gz", "split": "64KiB"}, "job": "servers", "output": "servers.csv"}
    return process(place, **text | keys)


# Killed drivers.


def killed_asleep(place: Any, file: str, is_written: Any, **env: str) -> None:
    """The driver falls asleep while its worker waits; the worker goes on and writes, and the driver is killed."""
    process = place.start("run", file, env=env)
    place.until((place.folder / "at-go").exists, process)
    process.send_signal(signal.SIGSTOP)
    (place.folder / "go").touch()
    place.until(is_written)
    place.kill(process)


def test_a_partial_that_nobody_recorded_is_adopted_and_no_record_is_mapped_twice(place):
    file = process(place)
    killed_asleep(place, file, lambda: partials(place) == 5, WAIT="e")
    assert done(place) < 5
    assert not (place.folder / "out" / "letters.csv").exists()
    ended = place.json("resume", "p", "--json")
    assert ended["process"]["records"] == len(LETTERS)
    assert counts(place.folder / "out" / "letters.csv") == Counter(LETTERS)
    assert (place.folder / "log").read_text() == LETTERS
    assert partials(place) == 0


@pytest.mark.long
def test_a_driver_killed_between_the_result_and_its_record_costs_nothing(place):
    result = place.folder / "out" / "letters.csv"
    killed_asleep(place, process(place), result.exists, WAIT="finish")
    assert done(place) == 5
    assert partials(place) == 5
    assert place.json("resume", "p", "--json")["state"] == "succeeded"
    assert counts(result) == Counter(LETTERS)
    assert (place.folder / "log").read_text() == LETTERS


@pytest.mark.long
def test_a_driver_that_takes_over_ends_the_run_and_the_first_writes_nothing(place):
    with open(place.folder / place.machine(2), "a") as cluster:
        cluster.write("storage: ../shared\n")
    sleeper = place.start("run", process(place), "--cluster", "lab.yaml", "--json", env={"WAIT": "c"})
    place.until((place.folder / "at-go").exists, sleeper)
    [run] = place.runs()
    copies = place.folder.parent / "shared" / "runs" / run / "copies"
    place.until(lambda: sorted(copies.glob("*/run.db")), sleeper)
    sleeper.send_signal(signal.SIGSTOP)
    heir = place.start(
        *("resume", run, "--cluster", "lab.yaml", "--take-over", "--json"),
        env={"SHOAL_HOME": str(place.folder.parent / "elsewhere")},
    )
    assert json.loads(place.end(heir, 0).stdout)["process"]["records"] == len(LETTERS)
    result = place.folder / "out" / "letters.csv"
    before = result.stat()
    (place.folder / "go").touch()
    sleeper.send_signal(signal.SIGCONT)
    assert "was taken over by" in place.end(sleeper, 1).stdout
    assert result.stat() == before
    assert counts(result) == Counter(LETTERS)


@pytest.mark.long
def test_a_run_that_was_stopped_goes_on_and_maps_no_record_twice(place):
    process_ = place.start("run", process(place), env={"WAIT": "d"})
    place.until((place.folder / "at-go").exists, process_)
    process_.send_signal(signal.SIGINT)
    place.end(process_, 3)
    assert place.json("resume", "p", "--json")["state"] == "succeeded"
    assert counts(place.folder / "out" / "letters.csv") == Counter(LETTERS)
    assert Counter((place.folder / "log").read_text()) - Counter(LETTERS) == Counter("d")


# Inputs.


def test_a_file_that_changes_after_it_was_cut_is_an_error_that_says_so(place):
    file = process(place)
    process_ = place.start("run", file, "--json", env={"WAIT": "a"})
    place.until((place.folder / "at-go").exists, process_)
    (place.folder / "lines" / "3.txt").write_text("x\ny\nz\n")
    (place.folder / "lines" / "4.txt").unlink()
    (place.folder / "go").touch()
    ended = json.loads(place.end(process_, 1).stdout)
    assert "it counts as failed" in ended["notes"][-1]
    found = {each["path"]: each["reason"] for each in errors(place)}
    assert found.keys() == {"lines/3.txt", "lines/4.txt"}
    assert "changed since" in found["lines/3.txt"]
    assert "vanished since" in found["lines/4.txt"]
    assert counts(place.folder / "out" / "letters.csv") == Counter("aabbcc")


def test_an_archive_inside_a_record_is_read_again_and_one_gzip_member_is_one_range(place):
    inner = b"".join(gzip.compress(page(f"inner{number}", os.urandom(2000)), 1) for number in range(200))
    pages = [page("outer"), page("outer", inner), page("other")]
    (place.folder / "a.warc.gz").write_bytes(b"".join(gzip.compress(each, 0) for each in pages))
    one = b"".join(page(f"s{number % 3}", os.urandom(3000)) for number in range(90))
    (place.folder / "b.warc.gz").write_bytes(gzip.compress(one))
    ended = place.json("run", servers(place, input={"warc": "*.warc.gz", "split": "64KiB"}), "--json")
    assert counts(place.folder / "servers.csv") == {"s0": 30, "s1": 30, "s2": 30, "outer": 2, "other": 1}
    assert ended["process"]["records"] == 93
    assert "b.warc.gz is compressed as one piece: one worker read all of it." in ended["notes"]
    assert any(note.startswith("a.warc.gz was read again in one go") for note in ended["notes"])
    assert len(ended["notes"]) == 2


def test_no_good_record_is_no_success_whatever_is_allowed(place):
    for name in ("a.warc.gz", "b.warc.gz"):
        (place.folder / name).write_bytes(b"not an archive")
    file = servers(place, input={"warc": ["a.warc.gz", "b.warc.gz"]}, limits={"errors": "100%"})
    ended = json.loads(place.shoal("run", file, "--json", code=1).stdout)
    assert ended["notes"] == ["it counts as failed: none of the records could be used."]
    assert len(errors(place, "servers.errors.parquet")) == 2


@pytest.mark.long
def test_entries_of_an_index_that_name_no_record_are_bad_records(place):
    (place.folder / "a.warc.gz").write_bytes(packed := gzip.compress(page("s")))
    good = {"filename": "a.warc.gz", "offset": 0, "length": len(packed)}
    rows = [good, {"filename": "a.warc.gz", "offset": -1, "length": 5}, {"url": "http://a/"}]
    place.write("i.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    file = servers(place, input={"index": "i.jsonl"}, limits={"errors": "70%"})
    ended = place.json("run", file, "--json")
    assert (ended["process"]["records"], ended["process"]["errors"]) == (1, 2)
    assert [each["path"] for each in errors(place, "servers.errors.parquet")] == ["i.jsonl"] * 2
    place.shoal("run", file, "--set", "limits.errors=60%", code=1)


@pytest.mark.long
def test_odd_names_and_empty_files_are_read_and_told(place):
    file = process(place, limits={"errors": "50%"})
    folder = os.fsencode(place.folder / "lines")
    for name in (b"with space.txt", b"two\nlines.txt", b"\xff\xfe.txt", "σ.txt".encode()):
        with open(os.path.join(folder, name), "wb") as lines:
            lines.write(b"n\n")
    (place.folder / "lines" / "empty.txt").touch()
    ended = place.json("run", file, "--json")
    assert counts(place.folder / "out" / "letters.csv") == Counter(LETTERS + "nnnn")
    assert ended["process"]["errors"] == 0
    for name in (b"bad \xff\n.txt", b"bad.txt"):
        with open(os.path.join(folder, name), "wb") as lines:
            lines.write(b"\x1f\x8b\x08not gzip")
    ended = place.json("run", file, "--json")
    assert sorted(each["path"] for each in errors(place)) == ["lines/bad \\xff\n.txt", "lines/bad.txt"]


def test_a_folder_in_the_place_of_a_file_and_a_file_in_that_of_a_folder_are_refused(place):
    (place.folder / "void").mkdir()
    assert "void" in place.refused("run", process(place, input={"text": "void"}))
    assert "is a file, not a folder" in place.refused("run", process(place, output="p.yaml/out.csv"))
    (place.folder / "void.csv").mkdir()
    assert "is a folder" in place.refused("run", process(place, output="void.csv"))


# Outputs.


def test_an_output_among_the_files_of_the_input_is_refused(place):
    file = process(place, input={"csv": "counts.csv"}, output="counts.csv")
    mine = place.write("counts.csv", "letter,count\na,3\n")
    said = "is among the files that input."
    assert said in place.refused("run", file)
    assert said in place.refused("run", process(place, output="lines/letters.csv"))
    assert said in place.refused("run", process(place, input={"text": "lines/*.csv"}, output="lines/a.csv"))
    assert mine.read_text() == "letter,count\na,3\n"


@pytest.mark.long
def test_a_file_that_is_no_result_of_the_job_is_not_replaced(place):
    (place.folder / "a.warc.gz").write_bytes(gzip.compress(page("s")))
    mine = place.write("servers.csv", "host,year\na,2020\n")
    for command in ("check", "run"):
        said = place.shoal(command, servers(place), code=2).stderr
        assert (
            "servers.csv is there already, and is no result of this job: it has the columns host, year"
            in said
        )
    (place.folder / "servers.parquet").write_bytes(b"no parquet")
    assert "cannot be read as parquet" in place.refused("run", servers(place, output="servers.parquet"))
    assert mine.read_text() == "host,year\na,2020\n"
    assert place.runs() == []
    mine.write_text("")
    place.json("run", servers(place), "--json")
    place.json("run", servers(place), "--json")
    assert counts(mine) == {"s": 1}


@pytest.mark.long
def test_a_job_of_ones_own_replaces_only_what_has_its_columns(place):
    mine = place.write("out/letters.csv", "host,year\na,2020\n")
    said = place.shoal("run", process(place), code=1).stderr
    assert "is no result of this job" in said
    assert mine.read_text() == "host,year\na,2020\n"
    mine.unlink()
    place.json("resume", "p", "--failed", "--json")
    assert counts(mine) == Counter(LETTERS)
    assert (place.folder / "log").read_text() == LETTERS


@pytest.mark.long
def test_of_two_runs_with_one_output_each_writes_a_whole_result(place):
    first = place.start("run", process(place, "p"), env={"WAIT": "finish"})
    place.until((place.folder / "at-go").exists, first)
    second = process(place, "q", input={"text": "lines/0.txt"})
    place.json("run", second, "--json")
    result = place.folder / "out" / "letters.csv"
    assert counts(result) == {"a": 2}
    (place.folder / "go").touch()
    place.end(first, 0)
    assert counts(result) == Counter(LETTERS)


@pytest.mark.long
def test_a_result_that_was_deleted_is_told_and_a_run_makes_it_anew(place):
    file = process(place)
    place.json("run", file, "--json")
    result = place.folder / "out" / "letters.csv"
    result.unlink()
    said = place.shoal("resume", "p", code=0)
    assert "out/letters.csv" in said.stdout + said.stderr
    assert "is not there" in said.stdout + said.stderr
    place.json("run", file, "--json")
    assert counts(result) == Counter(LETTERS)


@pytest.mark.long
def test_partials_that_were_deleted_are_told(place):
    process_ = place.start("run", process(place), env={"WAIT": "e"})
    place.until((place.folder / "at-go").exists, process_)
    for path in (place.folder / "out").glob(".shoal-*/partial-*"):
        path.unlink()
    (place.folder / "go").touch()
    said = place.end(process_, 1).stderr
    assert "is gone: run the workload again" in said


@pytest.mark.long
def test_a_limit_reads_the_first_items_only_and_each_once(place):
    ended = place.json("run", process(place), "--limit", "2", "--json")
    assert ended["process"]["records"] == 4
    assert counts(place.folder / "out" / "letters.csv") == Counter("aabb")
    assert (place.folder / "log").read_text() == "aabb"


# Jobs of one's own.


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("raising", "the job failed at it: ValueError: not today"),
        ("pairless", "which is no pair of a key and a value"),
        ("worded", "which is no int"),
    ],
)
def test_a_job_that_can_use_no_record_fails_the_run_with_the_reason(place, function, said):
    file = process(place, job={"function": f"jobs:{function}"}, limits={"errors": "99%"})
    end = place.shoal("run", file, code=1)
    assert said in end.stdout + end.stderr
    assert len(errors(place)) == len(LETTERS)


@pytest.mark.long
@pytest.mark.parametrize(("function", "said"), [("exiting", "exit"), ("endless", "timed out after 1")])
def test_a_job_that_ends_its_worker_or_never_ends_fails_the_run(place, function, said):
    file = process(place, job={"function": f"jobs:{function}"}, limits={"retries": 0, "timeout": "1s"})
    end = place.shoal("run", file, code=1)
    assert said in end.stdout + end.stderr, end
    assert not (place.folder / "out" / "letters.csv").exists()


@pytest.mark.long
def test_a_job_has_the_packages_that_it_requires(place, stocked):
    place.environment.update(stocked.environment)
    place.write("fish.py", "import shoalfish\n\ndef job(record):\n    return [(shoalfish.version, 1)]\n")
    file = process(place, job={"function": "fish:job"}, requirements=["shoalfish==1.0"])
    place.json("run", file, "--json")
    assert counts(place.folder / "out" / "letters.csv") == {"1.0": len(LETTERS)}


# Disks, open files and buckets.

FEW_FILES = 200


@pytest.mark.long
def test_there_may_be_more_partials_than_files_that_a_process_may_open(place):
    lines = [f"{number % 10}\n" for number in range(2 * FEW_FILES)]
    file = process(place, input={"text": "many.txt", "split": "2B"}, limits={})
    place.write("many.txt", "".join(lines))
    few = (FEW_FILES, FEW_FILES)
    process_ = place.start("run", file, "--json", preexec_fn=lambda: setrlimit(RLIMIT_NOFILE, few))
    assert json.loads(place.end(process_, 0).stdout)["items"]["done"] == len(lines) + 1
    assert counts(place.folder / "out" / "letters.csv") == {
        str(number): len(lines) // 10 for number in range(10)
    }


MANY = """\
def job(record):
    return [(record.row["text"], 1)]
"""


@pytest.mark.root
@pytest.mark.long
def test_a_disk_that_is_full_while_keys_are_put_aside_ends_the_run_and_with_room_it_goes_on(place, mount):
    disk = mount("-t", "tmpfs", "-o", "size=4m", "shoal-small")
    count = 300_000
    file = process(place, job={"function": "many:job"}, input={"text": "keys.txt"}, output="keys.parquet")
    place.write("many.py", MANY)
    place.write("keys.txt", "".join(f"{os.urandom(50).hex()}\n" for _ in range(count)))
    end = place.shoal("run", file, code=1, env={"TMPDIR": str(disk)})
    assert f"The disk of {disk}" in end.stderr
    assert "is full" in end.stderr
    assert not (place.folder / "keys.parquet").exists()
    subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)
    process_ = place.start("resume", "p", "--failed", "--json", env={"TMPDIR": str(disk)})
    assert json.loads(place.end(process_, 0).stdout)["process"]["rows"] == count
    assert list(disk.iterdir()) == []


@pytest.mark.s3
@pytest.mark.long
def test_a_bucket_that_fails_one_request_in_ten_changes_nothing_in_a_result(bucket, unreliable, place):
    storage = open_storage(f"{bucket.url}/in")
    for number in range(20):
        pages = b"".join(gzip.compress(page(f"s{each % 7}", os.urandom(3000))) for each in range(50))
        storage.write(f"{number}.warc.gz", pages)
    proxy = unreliable(bucket.server.endpoint, every=10, ways=("503", "429", "reset", "cut", "short", "late"))
    place.environment.update({name: value for name, value in os.environ.items() if name.startswith("AWS_")})
    place.environment["AWS_ENDPOINT_URL"] = proxy.url
    urls = {"input": {"warc": f"{bucket.url}/in", "split": "40KiB"}, "output": f"{bucket.url}/servers.csv"}
    ended = place.json("run", process(place, job="servers", **urls), "--json")
    assert ended["process"]["records"] == 1000
    assert len(proxy.faults) > 10
    open_storage(bucket.url).download("servers.csv", place.folder / "servers.csv")
    assert counts(place.folder / "servers.csv") == {
        f"s{each}": 20 * len(range(each, 50, 7)) for each in range(7)
    }
    assert [each.key for each in open_storage(bucket.url).list(hidden=True) if ".shoal-" in each.key] == []

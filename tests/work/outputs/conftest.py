"""What tests of outputs share: an output on each kind of storage, with faults on the way where there is a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from servers.hdfs import HdfsFolder
from servers.seaweedfs import Bucket
from servers.unreliable import Unreliable
from shoal.spec.shared_sections import Output

FAR = [
    pytest.param("s3", marks=pytest.mark.s3),
    pytest.param("hdfs", marks=pytest.mark.hdfs),
]


def made(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Output:
    if kind == "s3":
        bucket: Bucket = request.getfixturevalue("bucket")
        unreliable: Callable[..., Unreliable] = request.getfixturevalue("unreliable")
        proxy = unreliable(bucket.server.endpoint, every=10, ways=("503", "late", "reset", "cut"))
        return Output(path=f"{bucket.url}/some/out", endpoint=proxy.url)
    if kind == "hdfs":
        folder: HdfsFolder = request.getfixturevalue("hdfs_folder")
        return Output(path=f"{folder.url}/out")
    return Output(path=str(tmp_path / "out"))


@pytest.fixture(params=["local", *FAR])
def output(request: pytest.FixtureRequest, tmp_path: Path) -> Output:
    """An output that is not there yet."""
    return made(request.param, request, tmp_path)


@pytest.fixture(params=FAR)
def far_output(request: pytest.FixtureRequest, tmp_path: Path) -> Output:
    """The same, on storages behind a network."""
    return made(request.param, request, tmp_path)


@pytest.fixture
def local_output(tmp_path: Path) -> Output:
    """The same, in a folder."""
    return Output(path=str(tmp_path / "out"))

"""What tests of files share: an empty storage of each kind that can be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from servers.hdfs import HdfsFolder
from servers.seaweedfs import Bucket
from shoal.files import Patience, Storage, open_storage

QUICK = Patience(connect_s=2, answer_s=1, tries=8, retry_for_s=30, first_wait_s=0.01, longest_wait_s=0.1)
"""For servers on this machine: what does not answer within a second is stalled on purpose."""

KINDS = [
    "local",
    pytest.param("s3", marks=[pytest.mark.s3, pytest.mark.always]),
    pytest.param("hdfs", marks=[pytest.mark.hdfs, pytest.mark.always]),
]


@pytest.fixture(params=KINDS)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """An empty storage. Its root is not that of its server, and does not exist yet where there are folders."""
    if request.param == "s3":
        bucket: Bucket = request.getfixturevalue("bucket")
        return open_storage(f"{bucket.url}/some/where")
    if request.param == "hdfs":
        folder: HdfsFolder = request.getfixturevalue("hdfs_folder")
        return open_storage(folder.url)
    return open_storage(str(tmp_path / "root"))


@pytest.fixture
def quick() -> Patience:
    return QUICK

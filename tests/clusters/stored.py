"""Hosts with a real S3 server among them, whose address and keys the others know."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from clusters.desk import until
from servers.seaweedfs import ACCESS_KEY, SECRET_KEY, config, weed
from testbed import Testbed

BUCKET = "lab"
CREDENTIALS = f"[default]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"


@contextmanager
def bed_with_storage(hosts: Sequence[str]) -> Iterator[Testbed]:
    """These hosts and one more, `store`, with an empty bucket."""
    if weed() is None:
        pytest.skip("no SeaweedFS: make test-all installs it")
    with Testbed([*hosts, "store"]) as made:
        store = made["store"]
        store.write("s3.json", config())
        store.start(
            [
                *(str(weed()), "server", f"-ip={store.address}", "-ip.bind=0.0.0.0", f"-dir={store.work}"),
                *("-s3", "-s3.port=8333", f"-s3.config={store.home}/s3.json", "-filer"),
                *("-master.volumeSizeLimitMB=64", "-volume.max=20"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name in hosts:
            made[name].write(".aws/credentials", CREDENTIALS)
            made[name].write(
                ".aws/config", f"[default]\nregion = us-east-1\nendpoint_url = http://{store.address}:8333\n"
            )
        until(lambda: _makes_bucket(made), "the S3 server")
        yield made


def _makes_bucket(bed: Testbed) -> bool:
    store = bed["store"]
    ask = f"echo 's3.bucket.create -name {BUCKET}' | {weed()} shell -master={store.address}:9333"
    said = store.run(["sh", "-c", ask], check=False, timeout_s=60)
    return f"created bucket {BUCKET}" in said.stdout + said.stderr

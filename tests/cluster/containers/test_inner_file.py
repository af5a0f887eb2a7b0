"""The cluster file that drivers inside a cluster use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shoal import spec
from shoal.cluster.containers.container_groups import described

NODES = "nodes: [{host: a}]"


@pytest.mark.parametrize(
    ("storage", "there"),
    [("s3://lab/shoal", "s3://lab/shoal"), ("/mnt/shared", "/mnt/shared"), ("shared", "{folder}/shared")],
)
def test_a_storage_is_the_same_wherever_the_driver_is(tmp_path: Path, storage: str, there: str) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(f"kind: cluster\nname: lab\nprovider: ssh\n{NODES}\nstorage: {storage}\n")
    found = described(spec.load(file, kind="cluster"), "10.0.0.1:6379")
    assert found["storage"] == there.format(folder=tmp_path)
    assert found["address"] == "10.0.0.1:6379"


def test_what_is_written_for_a_driver_can_be_read_again_with_its_locations(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    places = 'locations: {home: {probe: "gateway.home:22"}, away: {home: 20ms}}'
    file.write_text(f"kind: cluster\nname: lab\nprovider: ssh\n{NODES}\n{places}\n")
    cluster = spec.load(file, kind="cluster")
    (tmp_path / "there.yaml").write_text(json.dumps(described(cluster)))
    again = spec.load(tmp_path / "there.yaml", kind="cluster")
    assert again.locations == cluster.locations
    assert (again.provider, again.address, again.storage) == ("ray", "auto", None)

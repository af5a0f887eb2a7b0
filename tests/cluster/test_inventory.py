"""What this machine has, as a node, and the virtual nodes of a cluster file."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from shoal import spec
from shoal.cluster import inventory, limits, virtual


def test_this_machine_has_what_the_system_says() -> None:
    node = inventory.this_machine()
    assert 1 <= node.cpu <= (os.cpu_count() or 1)
    assert 0 < node.memory_bytes <= psutil.virtual_memory().total
    assert node.host == os.uname().nodename


def test_gpus_are_those_that_are_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    inventory.gpus.cache_clear()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2,5")
    assert inventory.gpus() == ("0", "2", "5")
    assert inventory.this_machine().gpu == 3
    inventory.gpus.cache_clear()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert inventory.gpus() == ()
    inventory.gpus.cache_clear()


def test_virtual_nodes_have_what_the_file_says_and_the_rest_from_this_machine(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(
        "kind: cluster\nprovider: local\nnodes:\n"
        "  - {host: a, cpu: 1, memory: 2GiB, gpu: 2, labels: {tier: cloud}}\n"
        "  - {host: b}\n"
    )
    first, second = virtual.virtual_nodes(spec.load(file, kind="cluster"))
    machine = inventory.this_machine()
    assert (first.host, first.cpu, first.memory_bytes, first.gpu) == ("a", 1.0, 2 << 30, 2)
    assert first.labels == {"tier": "cloud"}
    assert (second.cpu, second.memory_bytes, second.gpu) == (machine.cpu, machine.memory_bytes, 0)


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """Control groups: this process is in a/b, and a has the tighter limit."""
    inner = tmp_path / "groups" / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "cpu.max").write_text("150000 100000\n")
    (inner / "memory.max").write_text("max\n")
    (inner.parent / "cpu.max").write_text("50000 100000\n")
    (inner.parent / "memory.max").write_text("1048576\n")
    (tmp_path / "mine").write_text("0::/a/b\n")
    return tmp_path


def test_the_tightest_limit_of_the_groups_around_counts(mounted: Path) -> None:
    where = str(mounted / "groups"), str(mounted / "mine")
    assert limits.cpu_quota(*where) == 0.5
    assert limits.memory_bytes(*where) == 1 << 20


def test_groups_of_version_1_are_read_as_well_and_those_out_of_sight_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "groups" / "cpu"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text("25000\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "mine").write_text("3:cpu,cpuacct:/docker/0123\n2:memory:/docker/0123\n0::/\n")
    where = str(tmp_path / "groups"), str(tmp_path / "mine")
    assert limits.cpu_quota(*where) == 0.25
    assert limits.memory_bytes(*where) is None
    (folder / "cpu.cfs_quota_us").write_text("-1\n")
    assert limits.cpu_quota(*where) is None


def test_a_part_of_a_cpu_has_room_for_one_worker_that_is_slow() -> None:
    assert (inventory.room(0.5), inventory.room(1.0), inventory.room(2.5)) == (1.0, 1.0, 2.5)

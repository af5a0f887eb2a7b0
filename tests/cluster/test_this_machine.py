"""What this machine has, as a node, and the virtual nodes of a cluster file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from shoal import spec
from shoal.cluster import this_machine, virtual


def test_this_machine_has_what_the_system_says() -> None:
    node = this_machine.this_machine()
    assert 1 <= node.cpu <= (os.cpu_count() or 1)
    assert 0 < node.memory_bytes <= psutil.virtual_memory().total
    assert node.host == os.uname().nodename


@pytest.fixture
def asking() -> Iterator[Callable[[], None]]:
    """Forgets what was found out of the GPUs."""

    def forget() -> None:
        this_machine.gpus.cache_clear()
        this_machine._told.cache_clear()

    forget()
    yield forget
    forget()


@pytest.mark.parametrize(
    ("visible", "found"),
    [
        ("0,2,5", ("0", "2", "5")),
        ("GPU-8932f937, MIG-1a2b", ("GPU-8932f937", "MIG-1a2b")),
        ("-1", ()),
        ("", ()),
        ("NoDevFiles", ()),
        ("1,-1,2", ("1",)),
    ],
)
def test_gpus_are_those_that_are_visible(
    monkeypatch: pytest.MonkeyPatch, asking: Callable[[], None], visible: str, found: tuple[str, ...]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert this_machine.gpus() == found
    assert this_machine.this_machine().gpu == len(found)


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asking: Callable[[], None]) -> Path:
    """A machine with two GPUs, as far as its driver says, and no tool of NVIDIA's."""
    for name in ("listed/0000:3b:00.0", "listed/0000:af:00.0", "nodes", "tools"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "nodes" / "nvidiactl").touch()
    monkeypatch.setattr(this_machine, "_LISTED", str(tmp_path / "listed"))
    monkeypatch.setattr(this_machine, "_NODES", str(tmp_path / "nodes"))
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path


def write_tool(driver: Path, *lines: str) -> None:
    told = "\n".join(lines)
    tool = driver / "tools" / "nvidia-smi"
    tool.write_text(f'#!/bin/sh\nwhile read -r line; do echo "$line"; done <<end\n{told}\nend\n')
    tool.chmod(0o755)


def test_a_container_has_the_gpus_that_it_was_given(driver: Path, asking: Callable[[], None]) -> None:
    """The driver of the machine tells a container of all of them."""
    assert this_machine.gpus() == ()
    asking()
    write_tool(driver, "GPU-a, 81559", "GPU-b, 4096")
    assert this_machine.gpus() == ("0", "1"), "nobody asked for a device so far"
    asking()
    (driver / "nodes" / "nvidia1").touch()
    assert this_machine.gpus() == ("0",)


@pytest.mark.parametrize(
    ("visible", "megabytes"),
    [(None, 4096), ("0", 4096), ("GPU-a", 81559), ("GPU-b,GPU-a", 4096), ("MIG-1a2b", 0), ("", 0)],
)
def test_the_memory_of_gpus_is_that_of_those_that_are_visible(
    driver: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, megabytes: int
) -> None:
    write_tool(driver, "GPU-a1, 81559", "GPU-b2, 4096")
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert this_machine.this_machine().gpu_memory_bytes == megabytes << 20


def test_memory_that_a_gpu_shares_with_processors_is_not_known(driver: Path) -> None:
    write_tool(driver, "GPU-a1, [N/A]")
    assert this_machine.this_machine().gpu_memory_bytes == 0


def test_virtual_nodes_have_what_the_file_says_and_the_rest_from_this_machine(tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(
        "kind: cluster\nprovider: local\nnodes:\n"
        "  - {host: a, cpu: 1, memory: 2GiB, gpu: 2, labels: {tier: cloud}}\n"
        "  - {host: b}\n"
    )
    first, second = virtual.virtual_nodes(spec.load(file, kind="cluster"))
    machine = this_machine.this_machine()
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
    assert this_machine.cpu_quota(*where) == 0.5
    assert this_machine.memory_limit_bytes(*where) == 1 << 20


def test_groups_of_version_1_are_read_as_well_and_those_out_of_sight_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "groups" / "cpu"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text("25000\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "mine").write_text("3:cpu,cpuacct:/docker/0123\n2:memory:/docker/0123\n0::/\n")
    where = str(tmp_path / "groups"), str(tmp_path / "mine")
    assert this_machine.cpu_quota(*where) == 0.25
    assert this_machine.memory_limit_bytes(*where) is None
    (folder / "cpu.cfs_quota_us").write_text("-1\n")
    assert this_machine.cpu_quota(*where) is None


def test_a_part_of_a_cpu_has_room_for_one_worker_that_is_slow() -> None:
    assert (this_machine.room(0.5), this_machine.room(1.0), this_machine.room(2.5)) == (1.0, 1.0, 2.5)

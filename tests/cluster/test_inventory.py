"""What this machine has, as a node, and the virtual nodes of a cluster file."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from shoal import spec
from shoal.cluster import inventory, virtual


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

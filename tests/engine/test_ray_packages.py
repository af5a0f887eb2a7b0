"""Packages on real Ray nodes: each has a cache of its own, and some cannot install anything."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.api.runs import plan

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore"),
]  # Ray and its libraries warn of themselves.

SWEEP = """
kind: sweep
trials: {grid: {x: %s}}
run: {function: "f:main"}
requirements: [shoalfish==2.0]
placement: {labels: {group: %s}}
"""
FUNCTION = """
import os, sys, time
import shoalfish
def main(x):
    time.sleep(0.02)
    return {"version": shoalfish.version, "python": sys.executable}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    ray.init(address=made.address, namespace="shoal", log_to_driver=False, configure_logging=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def add(cluster: Any, wheels: Any, tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Starts a node with one CPU: the folder it installs packages into."""
    added = []

    def add(host: str, group: str, *, able: bool = True, wait: bool = True) -> Path:
        cache = tmp_path / f"cache-{host}"
        settings = {**wheels.environment, "XDG_CACHE_HOME": str(cache)}
        if not able:
            settings["PIP_FIND_LINKS"] = str(tmp_path)
        labels = {"shoal.host": host, "group": group}
        added.append(cluster.add_node(wait=wait, num_cpus=1, labels=labels, env_vars=settings))
        return cache / "shoal" / "packages"

    yield add
    for node in added:
        cluster.remove_node(node, allow_graceful=False)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / ".shoal").mkdir()  # So that none further up is found.
    Path("f.py").write_text(FUNCTION)
    Path("ray.yaml").write_text(f"kind: cluster\nname: r\nprovider: ray\naddress: '{cluster.address}'\n")


def sweep(count: int, group: str) -> str:
    Path("s.yaml").write_text(SWEEP % (list(range(count)), group))
    return "s.yaml"


def complete(cache: Path) -> int:
    return len(list(cache.glob("*/complete")))


def installs(cache: Path) -> int:
    return sum(log.read_text().count("--- installing") for log in cache.glob("*.log"))


def test_each_node_installs_once_for_all_its_workers_and_runs(add: Any) -> None:
    caches = [add("a", "first"), add("b", "first")]
    [decision] = [d for d in plan(sweep(40, "first"), cluster="ray.yaml").decisions if d.name == "packages"]
    assert decision.choice == "install on each node"
    for _ in range(2):
        run = shoal.run(sweep(40, "first"), cluster="ray.yaml", display=False)
        rows = run.rows()
        assert run.state == "succeeded", rows[0]
        assert {row["version"] for row in rows} == {"2.0"}
        assert {row["node"] for row in rows} == {"a", "b"}
        for row in rows:
            assert row["python"].startswith(str(caches["ab".index(row["node"])]))
    assert [installs(cache) for cache in caches] == [1, 1]


def test_a_node_that_installs_counts_as_busy(add: Any) -> None:
    from shoal.engine.ray import arbiter, nodes
    from shoal.engine.ray.node_packages import NodePackages
    from shoal.model import Need
    from shoal.model.node import Packages

    cache = add("slow", "busy")
    installing = NodePackages(Packages(("shoalfish==2.0",)), [[Need(cpu=1, labels={"group": "busy"})]])
    assert "slow" not in installing.ready(nodes.alive())
    assert "slow" in ray.get(arbiter.find_or_make().busy.remote())
    installing.prepare(nodes.alive())
    assert complete(cache) == 1


def test_a_node_that_cannot_have_the_packages_is_named_before_the_start(add: Any) -> None:
    add("good", "second")
    add("bad", "second", able=False)
    with pytest.raises(shoal.SpecError, match=r"On bad: .*No matching distribution found for shoalfish==2.0"):
        shoal.run(sweep(4, "second"), cluster="ray.yaml", display=False)
    assert not Path(".shoal/runs").exists()


def test_a_node_that_joins_gets_work_only_once_it_has_the_packages(
    add: Any, caplog: pytest.LogCaptureFixture
) -> None:
    add("early", "third")
    other = add("other", "elsewhere")
    run = shoal.start(sweep(1500, "third"), cluster="ray.yaml")
    with caplog.at_level(logging.WARNING, "shoal"):
        good = add("late", "third")
        bad = add("unable", "third", able=False)
        deadline = time.monotonic() + 60
        while not (run.progress and "unable" in caplog.text) and time.monotonic() < deadline:
            time.sleep(0.05)
        run.wait()
    rows = run.rows()
    assert run.state == "succeeded"
    assert {row["node"] for row in rows} == {"early", "late"}
    assert {(row["version"], row["attempt"]) for row in rows} == {("2.0", 1)}
    assert (complete(good), complete(bad)) == (1, 0)
    assert not other.exists(), "nothing is installed where no trial may run"
    assert "unable gets no work: requirements: the packages could not be installed" in caplog.text


def test_a_module_that_no_node_has_ends_the_run_before_any_trial(add: Any) -> None:
    add("bare", "fourth")
    path = sweep(4, "fourth")
    Path(path).write_text(Path(path).read_text().replace("requirements: [shoalfish==2.0]\n", ""))
    with pytest.raises(shoal.SpecError, match=r"on bare, and no item was tried.*'shoalfish'"):
        shoal.run(path, cluster="ray.yaml", display=False)

"""`shoal cluster latency`, and how old what `shoal cluster status` says is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shoal.api.clusters.latency import LatencyRow
from shoal.cli import clusters
from shoal.cli.output import ago

LAB = """
kind: cluster
name: lab
provider: local
engine: embedded
nodes:
  - {host: node0, labels: {location: lab}}
  - {host: node1, labels: {location: home}}
locations:
  home: {lab: 20ms}
  node: {lab: 5ms, home: 7ms}
  mars: {venus: 3s}
"""


@pytest.fixture(autouse=True)
def _lab(tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(LAB)


def test_a_table_shows_the_nearest_node_of_each_location(shoal) -> None:
    done = shoal("cluster", "latency", "lab.yaml")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "node   to home       to node          to mars",
        "node0  20ms (known)  5.0ms (known) *  ?",
        "node1  0s (label) *  7.0ms (known)    ?",
    ]
    assert "* the nearest node" in done.stderr
    assert "node0 to mars: location mars has no probe, and no known round trip to lab." in done.stderr


def test_the_same_as_json(shoal) -> None:
    done = shoal("cluster", "latency", "lab.yaml", "--json", "--refresh")
    rows = json.loads(done.stdout)
    assert len(rows) == 6
    assert rows[0] == {
        "node": "node0",
        "location": "home",
        "min_s": 0.02,
        "median_s": None,
        "spread_s": None,
        "samples": 0,
        "age_s": None,
        "source": "known",
        "nearest": False,
        "why": "",
    }


def test_measured_cells_have_their_spread_and_their_age(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        LatencyRow("a", "home", 0.0201, 0.0205, 0.0012, 5, 130.0, "measured", False, ""),
        LatencyRow(
            "b", "home", 0.0031, 0.0032, 0.0002, 4, 7300.0, "measured", True, "no answer in 1 of 5 tries"
        ),
    ]
    clusters._show_latency(rows)
    out, err = capsys.readouterr()
    assert [line.split() for line in out.splitlines()] == [
        ["node", "to", "home", "measured"],
        ["a", "20ms", "+1.2ms", "2", "min", "ago"],
        ["b", "3.1ms", "+0.20ms", "*", "2", "h", "ago"],
    ]
    assert "b to home: no answer in 1 of 5 tries." in err


def test_a_probe_that_cannot_be_is_an_error_with_its_line(shoal, tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(LAB.replace("{venus: 3s}", '{probe: "mars:99999"}'))
    done = shoal("cluster", "latency", "lab.yaml")
    assert done.returncode == 2
    assert "lab.yaml:12: locations.mars.probe: expected" in done.stderr


@pytest.mark.parametrize(
    ("age_s", "words"),
    [(0, "just now"), (30, "30 s ago"), (150, "2 min ago"), (7199, "1 h ago"), (9 * 86400, "9 d ago")],
)
def test_an_age_is_told_in_one_unit(age_s: float, words: str) -> None:
    assert ago(age_s) == words


@pytest.mark.ray
def test_the_status_says_how_old_what_it_knows_is(shoal, tmp_path: Path) -> None:
    import time

    from shoal.cluster.book import Book

    (tmp_path / "lab.yaml").write_text(LAB.replace("embedded", "ray"))
    book = Book("lab", str(tmp_path / "lab.yaml"))
    with book.change() as state:
        ages = {"node0": 130.0, "node1": 9 * 86400.0}
        state["inventory"] = {
            host: {"cpu": 0.5, "speed": 0.5, "memory_bytes": 1 << 30, "measured_s": time.time() - age_s}
            for host, age_s in ages.items()
        }
    done = shoal("cluster", "status", "lab.yaml")
    assert [line.split()[:9] for line in done.stdout.splitlines()] == [
        ["host", "state", "cpu", "memory", "speed", "measured", "labels", "note"],
        ["node0", "down", "1", "1.0", "GiB", "0.50", "2", "min", "ago"],
        ["node1", "down", "1", "1.0", "GiB", "0.50", "9", "d", "ago"],
    ]
    assert "Measured more than a week ago: node1." in done.stderr

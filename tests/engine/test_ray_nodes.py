"""A pool on several real Ray nodes: one dies, one joins, nothing is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import SpecError
from shoal.model import Factory, Item, Need, Outcome
from shoal.shape.base import Ended, Progress
from shoal.shape.pool import Lane, Pool
from shoal.store import MemoryJournal

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore"),
]  # Ray and its libraries warn of themselves.

TRIAL = """
import os, time
class Trial:
    def __init__(self):
        open(os.path.join(os.environ["WORKERS"], str(os.getpid())), "w").close()

    def run(self, work):
        while int(work.id[1:]) > 400 and len(os.listdir(os.environ["WORKERS"])) < 4:
            time.sleep(0.02)  # So that there is work left for the last node, however long it takes to come.
        print("this is", work.id)
        open(os.path.join(os.environ["SHOAL_ITEM_DIR"], "note"), "w").write(work.id)
        time.sleep(0.05)
        return {"here": os.getcwd(), "secret": os.environ.get("NOT_FOR_ITEMS"), "given": os.environ.get("GIVEN")}
"""


def test_items_find_the_libraries_that_their_node_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """In many images the driver of a GPU is in a folder that only this variable names."""
    from shoal.engine.ray.actor import _environment

    monkeypatch.setenv("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64")
    monkeypatch.setenv("NOT_FOR_ITEMS", "secret")
    assert _environment()["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib64"
    assert "NOT_FOR_ITEMS" not in _environment()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    ray.init(address=made.address, log_to_driver=False, configure_logging=False)
    yield made
    ray.shutdown()
    made.shutdown()


class Numbers:
    def __init__(self, count: int) -> None:
        self._items = [Item(number, f"t{number}", {}) for number in range(1, count + 1)]

    def take(self, most: int, workers: int) -> Sequence[Item]:
        items, self._items = self._items, []
        return items

    def left(self) -> int:
        return len(self._items)

    def finished(self) -> bool:
        return not self._items

    def progressed(self, item: Item, metrics: Mapping[str, Any], step: int | None) -> str | None:
        return None

    def ended(self, item: Item, outcome: Outcome) -> None:
        return None


class Watch:
    """Does something when so many items have ended."""

    def __init__(self, **actions: Any) -> None:
        self.actions = sorted(actions.values())
        self.ended: list[Ended] = []

    def durable(self, ended: Sequence[Ended]) -> None:
        self.ended += ended
        while self.actions and len(self.ended) >= self.actions[0][0]:
            self.actions.pop(0)[1]()

    def moment(self, progress: Progress) -> None:
        return None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "mine.py").write_text(TRIAL)
    (folder / ".shoalignore").write_text("# large\nbig*\n")
    (folder / "big.bin").write_text("x")
    return folder


@pytest.mark.always
def test_one_node_dies_another_joins_and_every_item_ends_once(
    cluster: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shoal.engine.ray.engine import RayEngine

    monkeypatch.setenv("NOT_FOR_ITEMS", "secret")
    doomed = cluster.add_node(num_cpus=1, labels={"shoal.host": "doomed"})
    cluster.add_node(num_cpus=1, labels={"shoal.host": "steady"})
    watch = Watch(
        a=(30, lambda: cluster.remove_node(doomed, allow_graceful=False)),
        b=(60, lambda: cluster.add_node(num_cpus=1, labels={"shoal.host": "newcomer"}) and None),
    )
    engine = RayEngine(str(tmp_path / "run"), folder=str(folder))
    journal = MemoryJournal()
    workers = tmp_path / "workers"
    workers.mkdir()
    factory = Factory("mine:Trial", {}, {"GIVEN": "yes", "WORKERS": str(workers)}, str(folder))
    pool = Pool(engine, journal, [Lane(factory, Need())], Numbers(600), watcher=watch)
    pool.run()
    engine.close()
    assert journal.violations == []
    records = journal.records().values()
    assert {record.state for record in records} == {"done"}
    assert {record.item.used for record in records} == {1}, "the loss of a node uses no attempt"
    by_node = Counter(record.node for record in records)
    assert by_node["newcomer"] >= 10
    assert by_node["doomed"] > 0
    assert {record.metrics["here"] == str(folder) for record in records} == {False}, "the folder is shipped"
    assert {record.metrics["secret"] for record in records} == {None}
    assert {record.metrics["given"] for record in records} == {"yes"}
    for record in records:
        assert (tmp_path / "run" / "items" / record.item.id / "note").read_text() == record.item.id
        assert record.log is not None
        with open(tmp_path / "run" / record.log.file, "rb") as file:
            file.seek(record.log.start)
            assert file.read(record.log.end - record.log.start) == f"this is {record.item.id}\n".encode()


def test_a_folder_is_packed_without_what_no_work_needs(folder: Path, tmp_path: Path) -> None:
    from shoal.engine.ray import shipment

    (folder / ".git").mkdir()
    (folder / ".git" / "x").write_text("")
    (folder / "sub" / "__pycache__").mkdir(parents=True)
    (folder / "sub" / "data.csv").write_text("1")
    package = shipment.pack(str(folder))
    assert package == shipment.pack(str(folder))
    target = Path(shipment.unpack(package, str(tmp_path / "cache")))
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()) == [
        ".shoalignore",
        "mine.py",
        "sub/data.csv",
    ]
    assert shipment.unpack(package, str(tmp_path / "cache")) == str(target)


def test_a_folder_that_is_too_large_names_its_largest_files(folder: Path) -> None:
    from shoal.engine.ray import shipment

    with open(folder / "weights.bin", "wb") as file:
        file.truncate(shipment.LARGEST_BYTES + 1)
    with pytest.raises(SpecError, match=r"The largest: weights.bin \(256"):
        shipment.pack(str(folder))


def test_a_workload_runs_on_a_cluster_that_is_there_already(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shoal

    monkeypatch.chdir(tmp_path)
    (tmp_path / ".shoal").mkdir()
    (tmp_path / "lab.yaml").write_text(
        f"kind: cluster\nname: lab\nprovider: ray\naddress: '{cluster.address}'\n"
    )
    (tmp_path / "trial.py").write_text("import sys\nprint('score:', int(sys.argv[1]) * 2)\n")
    (tmp_path / "sweep.yaml").write_text(
        "kind: sweep\ntrials: {grid: {x: [1, 2, 3, 4]}}\nrun: {command: 'python trial.py {x}'}\n"
        "metrics: {score: 'score: (.+)'}\nobjective: {metric: score, goal: max}\n"
    )
    run = shoal.run("sweep.yaml", cluster="lab.yaml", display=False)
    assert run.state == "succeeded"
    assert [row["score"] for row in run.rows()] == [2, 4, 6, 8]
    by_value = shoal.run(lambda x: {"y": x + 1}, [{"x": 1}], cluster="lab.yaml", display=False)
    assert [row["y"] for row in by_value.rows()] == [2]
    with pytest.raises(shoal.CannotPlace, match="tier"):
        shoal.run("sweep.yaml", cluster="lab.yaml", sets=["placement.labels.tier=moon"], display=False)

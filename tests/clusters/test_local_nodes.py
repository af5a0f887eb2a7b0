"""The provider `local` with real Ray nodes: a cluster on this machine, kept in, with the results of any other."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from clusters.desk import HANG_S, SLEEPER, until
from faults.pictures import fill, inference, output, write_slow_class
from shoal.cluster.agent.requests import node_folder

pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [pytest.mark.ray, pytest.mark.long]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "next-cell"
NODES = [
    {"host": "one", "cpu": 1, "labels": {"tier": "cloud"}},
    {"host": "two", "cpu": 1, "labels": {"tier": "edge"}},
    {"host": "three", "cpu": 1, "memory": "512MiB", "labels": {"tier": "edge"}},
]
INPUTS = 2000
"""About seven seconds for three workers."""
REACH = """
import socket, os
def main(n, port):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as there:
        return {"answer": there.recv(100).decode(), "given": os.environ.get("GIVEN"),
                "ray": " ".join(name for name in os.environ if name.startswith("RAY_"))}
"""
TWICE = """
import os, sys, shoal
def look():
    shown = sorted(name for name in os.environ if name.startswith("RAY_AUTH"))
    return os.readlink("/proc/thread-self/ns/net"), shown
before = look()
try:
    shoal.run("lost.yaml", cluster="here.yaml", display=False)
except shoal.ClusterLost:
    print("lost", flush=True)
sys.stdin.readline()
run = shoal.run("again.yaml", cluster="here.yaml", display=False)
print(run.state, look() == before, flush=True)
"""
"""A notebook, say: it outlives a cluster, and goes on with the next."""
MARK = "MARK_OF_TEST"
"""In the environment of all that is started here, and of what that starts."""


class Here:
    """A folder of this machine with a cluster file in it, and Shoal's commands there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".shoal").mkdir()
        self.mark = uuid.uuid4().hex
        own = {
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_DATA_HOME": str(folder / "data"),
            MARK: self.mark,
        }
        self.environment = {**os.environ, **own, "SHOAL_LEASES": str(folder / "leases")}
        document = {"kind": "cluster", "name": "here", "provider": "local", "nodes": NODES}
        (folder / "here.yaml").write_text(json.dumps(document))

    def shoal(self, *arguments: str, code: int | None = 0, **env: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "shoal", *arguments],
            cwd=self.folder,
            env={**self.environment, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )
        said = f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback (most" not in done.stdout + done.stderr, said
        assert code is None or done.returncode == code, said
        return done

    def json(self, *arguments: str, **env: str) -> Any:
        return json.loads(self.shoal(*arguments, "--json", **env).stdout)

    def finish(self, *arguments: str, **env: str) -> list[dict[str, Any]]:
        return self.rows(self.json("run", *arguments, **env)["run"])

    def rows(self, run: str) -> list[dict[str, Any]]:
        found = json.loads(self.shoal("results", run, "--format", "json").stdout)
        assert isinstance(found, list)
        return found

    def sweep(self, name: str, code: str, grid: dict[str, Any], **keys: Any) -> str:
        document = {
            "kind": "sweep",
            "name": name,
            "trials": {"grid": grid},
            "run": {"function": f"{name}:main"},
        }
        (self.folder / f"{name}.py").write_text(code)
        (self.folder / f"{name}.yaml").write_text(json.dumps({**document, **keys}))
        return f"{name}.yaml"

    def processes(self) -> dict[int, str]:
        """All that was started from here, by whatever way, and still runs: their command lines."""
        mark, found = f"{MARK}={self.mark}".encode(), {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):
                if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    found[int(pid)] = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
        return found


@pytest.fixture(scope="module")
def here() -> Iterator[Here]:
    folder = Path(tempfile.mkdtemp(prefix="shoal-here-"))
    here = Here(folder)
    try:
        here.shoal("cluster", "up", "here.yaml")
        yield here
    finally:
        here.shoal("cluster", "down", "here.yaml", code=None)
        shutil.rmtree(folder)


@pytest.fixture
def up(here: Here) -> Here:
    here.shoal("cluster", "up", "here.yaml")
    return here


def without_where(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    own = ("node", "started", "seconds", "attempt")
    kept = [{name: value for name, value in row.items() if name not in own} for row in rows]
    return sorted(kept, key=lambda row: str(row["item"]))


def test_the_example_sweep_gives_what_it_gives_without_a_cluster(up: Here) -> None:
    shutil.copytree(EXAMPLE, up.folder / "next-cell", ignore=shutil.ignore_patterns(".shoal", "__pycache__"))
    on_nodes = up.finish("next-cell/sweep.yaml", "--limit", "4", "--cluster", "here.yaml")
    embedded = up.finish("next-cell/sweep.yaml", "--limit", "4")
    assert without_where(on_nodes) == without_where(embedded)
    assert {row["node"] for row in on_nodes} <= {"one", "two", "three"}


def test_labels_and_names_choose_the_nodes(up: Here) -> None:
    grid = {"n": list(range(12)), "ms": [100]}
    anywhere = up.finish(up.sweep("anywhere", SLEEPER, grid), "--cluster", "here.yaml")
    assert {row["node"] for row in anywhere} == {"one", "two", "three"}
    by_label = up.sweep("labelled", SLEEPER, grid, placement={"labels": {"tier": "edge"}})
    assert {row["node"] for row in up.finish(by_label, "--cluster", "here.yaml")} == {"two", "three"}
    by_name = up.sweep("named", SLEEPER, grid, placement={"node": "three"})
    assert {row["node"] for row in up.finish(by_name, "--cluster", "here.yaml")} == {"three"}


def test_a_trial_inherits_the_environment_and_reaches_the_network_of_the_machine(up: Here) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        threading.Thread(target=answer, args=(server,), daemon=True).start()
        file = up.sweep("reach", REACH, {"n": [1, 2, 3], "port": [port]})
        rows = up.finish(file, "--cluster", "here.yaml", GIVEN="from the shell")
    assert [row["answer"] for row in rows] == ["hello"] * 3
    assert {row["given"] for row in rows} == {"from the shell"}
    assert not any(row["ray"] for row in rows), "what is Ray's own"


def answer(server: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = server.accept()
            connection.sendall(b"hello")
            connection.close()


@pytest.mark.root
def test_nobody_outside_reaches_it(up: Here) -> None:
    ours = os.readlink("/proc/self/ns/net")
    of_ray = {pid: command for pid, command in up.processes().items() if "ray" in command}
    assert any("/raylet/raylet " in command for command in of_ray.values())
    for pid, command in of_ray.items():
        with suppress(FileNotFoundError):
            assert os.readlink(f"/proc/{pid}/ns/net") != ours, command
    inside = next(pid for pid, command in of_ray.items() if "/raylet/raylet " in command)
    table = Path(f"/proc/{inside}/net/dev").read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in table] == ["lo"]


def test_nodes_go_and_come_back_while_the_others_work(up: Here) -> None:
    file = up.sweep("scaled", SLEEPER, {"n": list(range(20)), "ms": [200]})
    up.shoal("cluster", "scale", "here.yaml", "2")
    states = {node["host"]: node["state"] for node in up.json("cluster", "status", "here.yaml")}
    assert sorted(states.values()) == ["down", "up", "up"]
    cluster = json.loads(next((up.folder / "state").rglob("state.json")).read_text())
    if os.geteuid() == 0 and cluster["network"] is not None:
        assert os.path.exists(cluster["network"]), "the network that the others are in"
    up.finish(file, "--cluster", "here.yaml")
    up.shoal("cluster", "scale", "here.yaml", "3")
    assert {row["node"] for row in up.finish(file, "--cluster", "here.yaml")} == {"one", "two", "three"}


def test_a_process_that_lost_its_cluster_goes_on_with_the_next(up: Here) -> None:
    up.sweep("lost", SLEEPER, {"n": list(range(600)), "ms": [200]})
    up.sweep("again", SLEEPER, {"n": list(range(6)), "ms": [50]})
    with subprocess.Popen(
        [sys.executable, "-c", TWICE],
        cwd=up.folder,
        env=up.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        until(lambda: any(each["run"].startswith("lost-") for each in up.json("ls")), "a run")
        run = next(each["run"] for each in up.json("ls") if each["run"].startswith("lost-"))
        until(lambda: up.json("show", run)["counts"].get("done", 0) > 3, "a run that is under way")
        for pid, command in up.processes().items():
            if "/gcs_server " in command:
                os.kill(pid, signal.SIGKILL)
        assert process.stdout is not None
        assert process.stdout.readline() == "lost\n"
        assert up.json("show", run)["state"] == "interrupted"
        said, _ = process.communicate("\n", timeout=HANG_S)
        assert said == "succeeded True\n"


def test_an_inference_whose_node_dies_has_every_row_once(up: Here) -> None:
    broken = fill(up.folder / "in", INPUTS)
    write_slow_class(up.folder / "mine.py")
    file = inference(
        up, name="dying", model={"function": "mine:Model"}, postprocess=None, limits={"errors": "1%"}
    )
    command = [sys.executable, "-m", "shoal", "run", file, "--cluster", "here.yaml", "--json"]
    with subprocess.Popen(
        command, cwd=up.folder, env=up.environment, stdout=subprocess.PIPE, text=True
    ) as process:
        until(lambda: "two" in working(up, "dying"), "work on the node")
        os.kill(raylet(up, "two"), signal.SIGKILL)
        said, _ = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, said
    assert json.loads(said)["infer"]["errors"] == len(broken), "a document, and nothing that Ray has to say"
    found = output(up.folder / "out")
    assert found.errors.keys() == {f"in/{name}" for name in broken}
    assert len(found.rows) == INPUTS - len(broken)
    assert "two" not in {
        node["host"] for node in up.json("cluster", "status", "here.yaml") if node["state"] == "up"
    }


def working(here: Here, name: str) -> set[str]:
    """The nodes on which items of the newest run of this name run now."""
    run = next((each["run"] for each in here.json("ls") if each["run"].startswith(f"{name}-")), None)
    items = here.json("show", run)["items"] if run else []
    return {each["node"] for each in items if each["state"] == "running"}


def raylet(here: Here, host: str) -> int:
    found = [
        pid for pid, line in here.processes().items() if "/raylet/raylet " in line and f'"{host}"' in line
    ]
    assert len(found) == 1, here.processes()
    return found[0]


def test_a_detached_run_is_like_any_other(up: Here) -> None:
    file = up.sweep("away", SLEEPER, {"n": list(range(30)), "ms": [100]})
    run = up.json("run", file, "--cluster", "here.yaml", "--detach")["run"]
    assert any(each["run"] == run for each in up.json("ls"))
    until(lambda: up.json("show", run)["state"] == "succeeded", "the end of the run")
    rows = up.rows(run)
    assert sorted(row["n"] for row in rows) == list(range(30))
    assert {row["node"] for row in rows} == {"one", "two", "three"}
    up.shoal("logs", run, "-f")
    long = up.json(
        "run",
        up.sweep("long", SLEEPER, {"n": list(range(300)), "ms": [200]}),
        "--cluster",
        "here.yaml",
        "--detach",
    )["run"]
    until(lambda: up.json("show", long)["counts"].get("done", 0) > 3, "a run that is under way")
    assert "stopped" in up.shoal("stop", long).stderr
    assert up.json("show", long)["state"] == "stopped"
    up.shoal("rm", run, long)
    assert not {run, long} & {each["run"] for each in up.json("ls")}


def test_down_leaves_nothing(up: Here) -> None:
    cluster = json.loads(next((up.folder / "state").rglob("state.json")).read_text())["id"]
    folders = [node_folder(cluster, str(node["host"])) for node in NODES]
    assert all(map(os.path.isdir, folders))
    assert up.processes()
    up.shoal("cluster", "down", "here.yaml")
    until(lambda: not up.processes(), "the end of all processes", 30)
    beside = os.listdir(os.path.dirname(folders[0]))
    assert not [name for name in beside if name.startswith((cluster, *map(os.path.basename, folders)))]
    assert cluster not in Path("/proc/self/mounts").read_text()
    assert not list((up.folder / "state").rglob("token"))
    assert {node["state"] for node in up.json("cluster", "status", "here.yaml")} == {"down"}
    assert "not up" in up.shoal("cluster", "down", "here.yaml").stderr

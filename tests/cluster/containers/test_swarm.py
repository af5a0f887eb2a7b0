"""The provider `swarm`, on a real Docker engine in a network namespace of its own: one host, and no registry.

The image is made of this machine's Python, Ray and Shoal. What one host cannot show: traffic between hosts.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from shoal import spec
from shoal.api.clusters.export_files import export
from shoal.cluster.containers.docker import Docker
from shoal.cluster.containers.swarm import SwarmProvider
from shoal.errors import ClusterError

IMAGE = "shoal-test:1"
LAB = f"""
kind: cluster
name: lab
provider: swarm
image: {IMAGE}
nodes:
  - {{host: node0, cpu: 0.5, memory: 2GiB, labels: {{tier: cloud, node.labels.rack: a}}}}
  - {{host: node1, cpu: 1, memory: 2GiB, labels: {{tier: edge, node.labels.rack: a}}}}
"""
LOOK = """
import json, ray
ray.init(address="auto", log_to_driver=False, logging_level="error")
nodes = {node["NodeName"]: [node["Resources"].get("CPU", 0), node["Labels"]] for node in ray.nodes() if node["Alive"]}
print(json.dumps(nodes))
"""


def until(condition: Callable[[], Any], timeout_s: float = 60.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come to be in time"
        time.sleep(0.1)
    return found


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    """A Docker engine that is a swarm of one, in a network namespace where nothing else is."""
    for program in ("dockerd", "docker", "unshare", "ip", "ldd"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    folder = tmp_path_factory.mktemp("engine")
    socket = f"unix://{folder}/sock"
    start = 'ip link set lo up && exec dockerd "$@"'
    options = [f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
    options += [f"--host={socket}", "--iptables=false", "--ip6tables=false", "--bridge=none"]
    with open(folder / "log", "wb") as log:
        engine = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", start, "sh", *options], stdout=log, stderr=subprocess.STDOUT
        )
    found = Docker(program=["docker", "-H", socket])
    try:
        ready = lambda: engine.poll() is not None or found.call("info").code == 0  # noqa: E731
        until(ready)
        if engine.poll() is not None:
            pytest.skip(f"dockerd does not start here: {(folder / 'log').read_text()[-300:]}")
        found.do("start a swarm", "swarm", "init", "--advertise-addr", "127.0.0.1")
        node = found.do("name the node", "node", "ls", "-q")
        found.do("label the node", "node", "update", "--label-add", "rack=a", node)
        yield found
    finally:
        with contextlib.suppress(ClusterError):
            found.call("swarm", "leave", "--force")
        engine.terminate()
        engine.wait(60)


@pytest.fixture(scope="module")
def image(docker: Docker) -> str:
    maker = [sys.executable, str(Path(__file__).parent / "root_file_system.py")]
    changes = ["-c", "ENV PATH=/usr/local/bin:/usr/bin HOME=/home/shoal", "-c", "USER 1000:1000"]
    with subprocess.Popen(maker, stdout=subprocess.PIPE) as made:
        subprocess.run(
            [*docker.command, "import", *changes, "-", IMAGE],
            stdin=made.stdout,
            check=True,
            capture_output=True,
        )
    assert made.returncode == 0
    return IMAGE


def provider(docker: Docker, text: str = LAB, **settings: Any) -> SwarmProvider:
    cluster = spec.loads(text, folder=".", label="lab.yaml", kind="cluster")
    assert isinstance(cluster, spec.Cluster)
    return SwarmProvider(cluster, "lab.yaml", docker=docker, **({"ready_timeout_s": 120.0} | settings))


def states(of: SwarmProvider) -> dict[str, str]:
    return {status.host: status.state for status in of.status()}


@pytest.mark.machine
@pytest.mark.root
@pytest.mark.long
@pytest.mark.ray
def test_a_stack_runs_ray_with_a_token(docker: Docker, image: str) -> None:
    import json

    lab, told = provider(docker), list[str]()
    assert states(lab) == {"node0": "down", "node1": "down"}
    assert lab.up(told.append) == {}
    until(lambda: states(lab) == {"node0": "up", "node1": "up"})
    door = lab.door()

    def nodes() -> Any:
        done = door.run(["python", "-c", LOOK], timeout_s=60)
        found = json.loads(done.output.splitlines()[-1]) if done.code == 0 else {}
        return found if len(found) == 2 else None

    found = until(nodes)
    assert found["node0"][0] == 0, "a small head does no work"
    assert found["node1"][0] == 1
    assert found["node1"][1] | {"tier": "edge", "rack": "a", "shoal.host": "node1"} == found["node1"][1]
    none = door.run(
        ["env", "-u", "RAY_AUTH_TOKEN_PATH", "-u", "RAY_AUTH_MODE", "python", "-c", LOOK], timeout_s=60
    )
    assert none.code != 0, "a driver without the token is refused"
    assert lab.up(told.append) == {}, "up may be repeated"
    lab.down(told.append, ["node1"])
    until(lambda: states(lab) == {"node0": "up", "node1": "down"})
    lab.down(told.append)
    lab.down(told.append)
    assert states(lab) == {"node0": "down", "node1": "down"}
    for what in ("service", "secret"):
        assert docker.do("look", what, "ls", "-q") == ""
    assert docker.do("look", "network", "ls", "-q", "--filter", "name=lab") == ""


@pytest.mark.machine
@pytest.mark.root
@pytest.mark.long
@pytest.mark.ray
def test_an_exported_job_runs_its_sweep(docker: Docker, image: str, tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(
        "kind: sweep\nname: squares\ntrials: {grid: {x: [1, 2, 3, 4]}}\n"
        "run: {function: 'mine:square'}\nobjective: {metric: y, goal: max}\n"
    )
    (tmp_path / "mine.py").write_text("def square(x):\n    return {'y': x * x}\n")
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nCOPY --chown=1000:1000 . /home/shoal/work\n")
    docker.do("build", "build", "-q", "-t", "squares:1", str(tmp_path))
    (tmp_path / "lab.yaml").write_text(LAB.replace(IMAGE, "squares:1"))
    exported = export(str(tmp_path / "sweep.yaml"), "swarm", cluster=str(tmp_path / "lab.yaml"))
    for document in exported.documents:
        (tmp_path / document.name).write_text(document.text)
    docker.do("make the secret", "secret", "create", "lab-token", "-", stdin=b"6" * 64)
    docker.do("deploy", "stack", "deploy", "-c", str(tmp_path / "stack.yaml"), "lab")
    try:
        ended = until(lambda: _ended(docker), 200)
        logs = docker.call("service", "logs", "--raw", "lab_driver")
        printed = (logs.output + logs.errors).decode()
        assert ended == "Complete", printed
        assert "4 done" in printed
        assert "6" * 64 not in printed
        head = provider(docker).door()
        assert (
            head.run(["sh", "-c", "cat /home/shoal/runs/runs/squares-*/results.csv"]).output.count(b"done")
            == 4
        )
    finally:
        provider(docker).down(lambda line: None)


def _ended(docker: Docker) -> str | None:
    state = docker.do("look", "service", "ps", "lab_driver", "--format", "{{.CurrentState}}").split()
    return state[0] if state and state[0] in ("Complete", "Failed", "Rejected") else None


@pytest.mark.machine
@pytest.mark.root
@pytest.mark.long
@pytest.mark.ray
def test_a_port_of_the_head_is_reached_through_loopback(docker: Docker, image: str) -> None:
    lab = provider(docker)
    lab.up(lambda line: None, [])
    try:
        door = lab.door()
        server = "from http.server import *; HTTPServer(('127.0.0.1', 8123), SimpleHTTPRequestHandler).serve_forever()"
        docker.do("serve", "exec", "-d", "-w", "/etc", door._container, "python", "-c", server)
        port, close = door.forward(8123)

        def ask() -> bytes | None:
            with (
                contextlib.suppress(OSError),
                urlopen(Request(f"http://127.0.0.1:{port}/passwd"), timeout=5) as answer,
            ):
                return bytes(answer.read())
            return None

        assert b"shoal:x:1000" in until(ask)
        close()
    finally:
        lab.down(lambda line: None)


@pytest.mark.machine
@pytest.mark.root
@pytest.mark.long
def test_an_image_that_is_not_there_is_an_error_with_the_reason(docker: Docker) -> None:
    lab = provider(docker, LAB.replace(IMAGE, "nowhere.invalid/none:1"), ready_timeout_s=10.0)
    try:
        with pytest.raises(
            ClusterError, match=r"head does not come up: .*(No such image|no such host|manifest)"
        ):
            lab.up(lambda line: None)
    finally:
        lab.down(lambda line: None)


def test_without_docker_it_says_so() -> None:
    with pytest.raises(ClusterError, match="docker is not installed"):
        provider(Docker(program=["no-such-docker"])).status()


@pytest.mark.machine
def test_without_an_engine_it_says_so(tmp_path: Path) -> None:
    if shutil.which("docker") is None:
        pytest.skip("docker is not installed")
    nobody = Docker(program=["docker", "-H", f"unix://{tmp_path}/none"])
    with pytest.raises(ClusterError, match="docker cannot list services: Cannot connect") as error:
        provider(nobody).status()
    assert "docker info" in str(error.value.hint)


def test_work_is_driven_from_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOAL_CLUSTER", raising=False)
    with pytest.raises(ClusterError, match="driven from inside"):
        provider(Docker()).join(lambda line: None)
    monkeypatch.setenv("SHOAL_CLUSTER", "lab")
    assert provider(Docker()).join(lambda line: None).address == "auto"

"""A cluster that Ray's own autoscaler grows: asked for what a backlog is worth, and let go of when that is done."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from shoal.model.record import EXIT_CODES

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [pytest.mark.ray, pytest.mark.long, pytest.mark.serial]

FIRST, OTHERS = "node0", ("node1", "node2")
HEAD_ID, HEAD_TYPE = "f" * 51 + "00000", "ray.head.default"
"""What Ray's fake provider calls the head."""
SECOND = {
    "RAY_enable_autoscaler_v2": "1",
    "RAY_CLOUD_INSTANCE_ID": HEAD_ID,
    "RAY_NODE_TYPE_NAME": HEAD_TYPE,
}
"""What makes it the second version of the autoscaler, as `ray up` and KubeRay have it."""
PATIENCE_S = 60.0
IDLE_MINUTES = 0.1
FILES = {
    "trial.py": "import time\ndef main(s):\n    time.sleep(s)\n",
    "big.yaml": "kind: cluster\nname: big\nprovider: ray\naddress: 'ADDRESS'\n",
    "sweep.yaml": "kind: sweep\nrun: {function: 'trial:main'}\ntrials: {grid: {s: [0.5]}, repeat: 1000}\n",
}

WATCH = """
import json, sys, time
from ray._raylet import GcsClient
from ray.core.generated.autoscaler_pb2 import GetClusterStatusReply, NodeStatus
gcs = GcsClient(sys.argv[1])
while True:
    status = GetClusterStatusReply.FromString(gcs.get_cluster_status(timeout_s=10)).cluster_resource_state
    alive = sum(node.status != NodeStatus.DEAD for node in status.node_states)
    asked = sum(each.count for all in status.cluster_resource_constraints for each in all.resource_requests)
    first_version = gcs.internal_kv_get(b"autoscaler_resource_request", None)
    asked += len(json.loads(first_version)) if first_version else 0
    print(json.dumps([time.time(), alive, asked]), flush=True)
    time.sleep(0.1)
"""


class Scaled:
    """A head with one CPU, and two nodes like it that the autoscaler may add, as processes of this machine."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="shoal-"))  # Ray's sockets have to have short paths.
        self._address = f"{ray.util.get_node_ip_address()}:{_free_port()}"
        token = self._folder / "token"
        token.write_text(secrets.token_hex(32))
        token.chmod(0o600)
        self._environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "SHOAL_HOME": str(self._folder / "home"),
        }
        (self._folder / "work").mkdir()
        for name, text in FILES.items():
            (self._folder / "work" / name).write_text(text.replace("ADDRESS", self._address))
        self._processes: list[subprocess.Popen[bytes]] = []

    def up(self, version: int) -> None:
        """With this version of the autoscaler."""
        config = self._folder / "autoscaler.json"
        config.write_text(json.dumps(_config(self._address)))
        self.start(
            "head",
            *("-m", "ray.scripts.scripts", "start", "--head", "--block", "--disable-usage-stats"),
            *(f"--port={self._address.rpartition(':')[2]}", f"--ray-client-server-port={_free_port()}"),
            *(f"--temp-dir={self._folder}/ray", f"--autoscaling-config={config}", "--num-cpus=1"),
            *("--include-dashboard=false", "--dashboard-agent-listen-port=0"),
            *("--min-worker-port=0", "--max-worker-port=0", "--object-store-memory=100000000"),
            f"--labels=shoal.host={FIRST}",
            RAY_FAKE_CLUSTER="1",
            AUTOSCALER_UPDATE_INTERVAL_S="1",
            **(SECOND if version == 2 else {}),
        )
        until(self._answers, "an answer of the head")
        self.start("watched", "-c", WATCH, self._address)
        until(self.is_alone, "the first node")

    def _answers(self) -> bool:
        assert self._processes[0].poll() is None, self._said("head")
        host, _, port = self._address.rpartition(":")
        with suppress(OSError), socket.create_connection((host, int(port)), 1):
            return True
        return False

    def start(self, name: str, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        """Python in the folder of the workload; what it says goes to a file of this name."""
        with (self._folder / name).open("w") as said:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self._folder / "work",
                env={**self._environment, **variables},
                stdout=said,
                stderr=subprocess.STDOUT if name == "head" else None,
            )
        self._processes.append(process)
        return process

    def _said(self, name: str) -> str:
        return (self._folder / name).read_text()

    def shoal(self, *arguments: str) -> Any:
        """What a command prints, which is JSON or nothing."""
        process = self.start("command", "-m", "shoal", *arguments)
        assert process.wait(PATIENCE_S) == 0, (
            self._said("command") + self._said("driver") + self._said("head")
        )
        return json.loads(self._said("command") or "null")

    def done(self) -> list[dict[str, Any]]:
        """The rows of the last run that are done."""
        return [row for row in self.shoal("results", "last", "--format=json") if row["state"] == "done"]

    def hosts_of_done(self) -> set[str]:
        return {row["node"] for row in self.done()}

    def seen(self) -> list[tuple[float, int, int]]:
        """When, how many nodes there were, and for how many places together the autoscaler had been asked."""
        whole = self._said("watched").rpartition("\n")[0]
        return [tuple(json.loads(line)) for line in whole.splitlines()]

    def is_alone(self) -> bool:
        """Whether there is one node, and nobody asks for more."""
        return self.seen()[-1:] != [] and self.seen()[-1][1:] == (1, 0)

    def close(self) -> None:
        until(self._is_gone, "the end of all processes")
        for process in self._processes:
            process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _is_gone(self) -> bool:
        """Nodes that were added are processes of their own: all that have the token's path in their environment."""
        mark, found = f"RAY_AUTH_TOKEN_PATH={self._folder}/token".encode(), 0
        for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
            with suppress(OSError):
                if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    os.kill(pid, signal.SIGKILL)
                    found += 1
        return found == 0


def _config(address: str) -> dict[str, Any]:
    """For `ray start --autoscaling-config`: Ray's fake provider, and one type for each node, so that it has a name."""
    size = {"CPU": 1, "object_store_memory": 100_000_000}
    types = {
        host: {"resources": size, "node_config": {}, "max_workers": 1, "labels": {"shoal.host": host}}
        for host in OTHERS
    }
    empty = ("setup_commands", "head_setup_commands", "worker_setup_commands", "initialization_commands")
    empty += ("head_start_ray_commands", "worker_start_ray_commands", "cluster_synced_files")
    return {
        "cluster_name": "fake",
        "max_workers": len(OTHERS),
        "upscaling_speed": 100.0,
        "idle_timeout_minutes": IDLE_MINUTES,
        "provider": {
            "type": "external",
            "module": "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider",
            "gcs_address": address,
            "head_node_id": HEAD_ID,
            "launch_multiple": True,
            "use_node_id_as_ip": True,
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
        },
        "available_node_types": {
            HEAD_TYPE: {"resources": {"CPU": 1}, "node_config": {}, "max_workers": 0},
            **types,
        },
        "head_node_type": HEAD_TYPE,
        "auth": {},
        "docker": {},
        "file_mounts": {},
        "file_mounts_sync_continuously": False,
        **{each: [] for each in empty},
    }


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("", 0))
        return int(found.getsockname()[1])


def until(condition: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    give_up = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < give_up, f"{what} did not come"
        time.sleep(0.05)


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.fixture
def scaled(request: pytest.FixtureRequest) -> Iterator[Scaled]:
    with closing(Scaled()) as cluster:
        cluster.up(request.param)
        yield cluster


@pytest.mark.parametrize("scaled", [2], indirect=True)
def test_work_begins_on_one_node_spreads_to_three_and_leaves_one(scaled: Scaled) -> None:
    commanded = time.time()
    driver = scaled.start("driver", "-m", "shoal", "run", "sweep.yaml", "--cluster", "big.yaml")
    until(lambda: scaled.seen()[-1][1] == 1 + len(OTHERS), "three nodes")
    until(lambda: scaled.hosts_of_done() == {FIRST, *OTHERS}, "work on all nodes")
    scaled.shoal("stop", "last")
    assert driver.wait(PATIENCE_S) == EXIT_CODES["stopped"]
    ended = time.time()
    until(scaled.is_alone, "the end of the other nodes")
    shown = scaled.shoal("show", "last", "--why", "--json")
    began = min(seconds(each["started"]) for each in scaled.done())
    changes = {(each["host"], each["change"]): seconds(each["at"]) for each in shown["scaling"]}
    request = next(each for each in shown["events"] if each["subject"] == "cluster")
    seen = scaled.seen()
    came = [min(at for at, nodes, _ in seen if nodes >= count) for count in (2, 3)]
    alone = max(at for at, nodes, _ in seen if nodes > 1)
    recorded = ", ".join(f"{host} {what} {at - began:.1f}" for (host, what), at in changes.items())
    print(
        f"The first item began {began - commanded:.1f} s after the command. Since then, in seconds: "
        f"first request {seconds(request['at']) - began:.1f}; Ray has two nodes {came[0] - began:.1f}, "
        f"three {came[1] - began:.1f}; recorded: {recorded}; the run ended {ended - began:.1f}; "
        f"one node {alone - began:.1f}. {request['why']}"
    )
    assert request["what"] == "requested"
    assert began < seconds(request["at"]) < came[0]
    assert changes.keys() >= {(host, change) for host in OTHERS for change in ("requested", "ready")}
    for host, at in zip(sorted(OTHERS, key=lambda host: changes[host, "ready"]), came, strict=True):
        assert changes[host, "requested"] < at < changes[host, "ready"] + 1.0
    assert alone > ended, "nodes that are at work stay"


@pytest.mark.parametrize("scaled", [1], indirect=True)
def test_what_a_driver_wished_for_that_was_killed_is_withdrawn(scaled: Scaled) -> None:
    driver = scaled.start("driver", "-m", "shoal", "run", "sweep.yaml", "--cluster", "big.yaml")
    until(lambda: scaled.seen()[-1][2] > 1, "a request for more than there is")
    driver.kill()
    killed = time.time()
    until(lambda: scaled.seen()[-1][2] == 0, "its withdrawal")
    print(f"It was withdrawn {time.time() - killed:.1f} s after the driver was killed.")

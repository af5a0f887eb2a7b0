"""The machine that a person sits at: Shoal's own commands in a folder there, and the files that they take."""

from __future__ import annotations

import json
import subprocess
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from shoal.cluster.book import Book
from testbed import Host, HostProcess, Testbed

HANG_S = 240.0
"""Far more than anything here takes on a busy machine: who waits longer hangs."""
SHOAL = ("python", "-m", "shoal")
SLEEPER = """
import os, time
def main(n, ms=100):
    time.sleep(ms / 1000)
    return {"square": n * n, "pid": os.getpid()}
"""

TRIAL = """
import os, time
def main(n, ms):
    print("trial", n, "says hello", flush=True)
    with open(os.path.join(os.environ["SHOAL_ITEM_DIR"], "note"), "w") as file:
        file.write(f"from {n}")
    time.sleep(ms / 1000)
    with open("/srv/work/ended", "a") as file:
        file.write(f"{n}\\n")
    return {"square": n * n}
"""
"""Each host has its own `/srv/work`: what was really run there to its end, whatever became of its result."""


class Desk:
    """One host of a bed, and a folder there: `~/work`, with a home for runs of its own."""

    def __init__(self, bed: Testbed, name: str = "desk", folder: str = "work") -> None:
        self.bed = bed
        self.host: Host = bed[name]
        self.folder = f"{self.host.home}/{folder}"
        self.host.run(["mkdir", "-p", f"{self.folder}/.shoal"])

    # Files.

    def write(self, name: str, text: str) -> str:
        self.host.write(f"{self.folder}/{name}", textwrap.dedent(text))
        return name

    def read(self, name: str) -> str:
        return self.host.read(f"{self.folder}/{name}")

    def cluster(self, nodes: Iterable[dict[str, Any]], name: str = "lab", **keys: Any) -> str:
        """A cluster file of this name, of provider ssh unless `keys` say otherwise."""
        document = {"kind": "cluster", "name": name, "provider": "ssh", "nodes": list(nodes), **keys}
        return self.write(f"{name}.yaml", json.dumps(document))

    def sweep(self, name: str, code: str, grid: dict[str, Any], **keys: Any) -> str:
        """A workload in a folder of its own that calls `main` of the code for each point of the grid."""
        document = {
            "kind": "sweep",
            "name": name,
            "trials": {"grid": grid},
            "run": {"function": f"{name.replace('-', '_')}:main"},
        }
        self.write(f"{name}/{name.replace('-', '_')}.py", code)
        return self.write(f"{name}/{name}.yaml", json.dumps({**document, **keys}))

    def sleeper(self, name: str, count: int, ms: int, **keys: Any) -> str:
        """So many trials that sleep so long."""
        return self.sweep(name, SLEEPER, {"n": list(range(count)), "ms": [ms]}, **keys)

    def trials(self, name: str, count: int, ms: int, **keys: Any) -> str:
        """So many trials that take so long, and leave traces of themselves: `TRIAL`."""
        return self.sweep(name, TRIAL, {"n": list(range(count)), "ms": [ms]}, **keys)

    # Commands.

    def start(self, *arguments: str, **options: Any) -> HostProcess:
        """Shoal's command, in the background."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": self.folder, **options}
        return self.host.start([*SHOAL, *arguments], **options)

    def shoal(
        self, *arguments: str, code: int | None = 0, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Shoal's command, to its end: with this exit code, and never a traceback."""
        return self.end(self.start(*arguments, env=env), code)

    def end(self, process: HostProcess, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        try:
            out, err = process.communicate(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"it hung, and had said:\n{out}\n{err}") from None
        said = f"exit code {process.returncode}\n{out}\n{err}"
        assert "Traceback (most" not in out + err, said
        assert "bug in Shoal" not in out + err, said
        assert code is None or process.returncode == code, said
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def json(self, *arguments: str, code: int | None = 0) -> Any:
        return json.loads(self.shoal(*arguments, "--json", code=code).stdout)

    def finish(self, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
        """Run to the end, with this exit code: the rows of the results."""
        return self.rows(self.json("run", *arguments, code=code)["run"])

    def detach(self, cluster: str, name: str, count: int, ms: int, **keys: Any) -> str:
        """Hand so many trials to the cluster: the id of the run."""
        done = self.json("run", self.trials(name, count, ms, **keys), "--cluster", cluster, "--detach")
        assert done["state"] == "running"
        run = str(done["run"])
        assert run.startswith(f"{name}-")
        assert self.shoal("ls").stdout.count(run) == 1
        return run

    def state(self, run: str) -> str:
        """The state of a run, as `ls` has it."""
        return next(str(each["state"]) for each in self.json("ls") if each["run"] == run)

    def rows(self, run: str) -> list[dict[str, Any]]:
        """The results of a run."""
        found = json.loads(self.shoal("results", run, "--format", "json").stdout)
        assert isinstance(found, list)
        return found

    def states(self, cluster: str) -> dict[str, str]:
        """The state of every node."""
        return {node["host"]: node["state"] for node in self.json("cluster", "status", cluster)}

    def runs(self) -> list[str]:
        """The runs whose folders are here."""
        return self.host.run(["sh", "-c", f"ls {self.folder}/.shoal/runs 2>/dev/null || true"]).stdout.split()

    def book(self) -> str:
        """The folder in which it keeps what it knows of the cluster `lab`."""
        return Book(
            "lab", f"{self.folder}/lab.yaml", {"XDG_STATE_HOME": f"{self.host.home}/.local/state"}
        ).folder

    def run_of(self, name: str) -> str:
        """The one run of this workload; empty as long as there is none."""
        return next((run for run in self.runs() if run.startswith(f"{name}-")), "")

    def done(self, name: str) -> int:
        """How many of its items are done now."""
        run = self.run_of(name)
        return int(self.json("show", run)["counts"].get("done", 0)) if run else 0


def ended_on(bed: Testbed, name: str) -> Counter[int]:
    """Which trials ran to their end on a host, and how often."""
    text = bed[name].run(["sh", "-c", f"cat {bed[name].work}/ended 2>/dev/null || true"]).stdout
    return Counter(map(int, text.split()))


def check_all_done_once(rows: list[dict[str, Any]], count: int) -> None:
    assert sorted(row["n"] for row in rows) == list(range(count)), "one row for each, and no row twice"
    assert {row["state"] for row in rows} == {"done"}
    assert all(row["square"] == row["n"] ** 2 for row in rows)


def ray_processes(host: Host) -> list[int]:
    """The processes of a host's Ray node that last as long as it does."""
    return [
        pid for pid, command in host.processes() if "/raylet/raylet " in command or "/gcs_server " in command
    ]


def raylet(host: Host) -> int:
    return next(pid for pid, command in host.processes() if "/raylet/raylet " in command)


def left_on(bed: Testbed, name: str) -> list[str]:
    """What a cluster could have left on a host: processes of Python or Ray, and files of its own folders."""
    host = bed[name]
    processes = [command for _, command in host.processes() if "python" in command or "ray" in command]
    of_this_machine = [word for path in bed.plan.visible for word in ("-path", path, "-prune", "-o")]
    folders = ["/tmp", "/var/tmp", "/dev/shm", host.work, host.home]
    listed = host.run(
        ["find", *folders, *of_this_machine, "-type", "f", "-print", "-o", "-type", "s", "-print"]
    )
    from_the_first = tuple(f"{host.home}/{name}" for name in (".ssh", ".profile", "bin"))
    return [*processes, *(path for path in listed.stdout.split() if not path.startswith(from_the_first))]


def until(condition: Callable[[], Any], what: str = "it", patience_s: float = HANG_S) -> Any:
    """Wait for something to become true."""
    deadline = time.monotonic() + patience_s
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what} never came true"
        time.sleep(0.2)

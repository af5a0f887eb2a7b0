"""A folder to break things in: workloads are written into it, and the real command runs in it as its own process.

Every process started from a test carries a mark in its environment; what still runs at the end fails the test.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.store import RunStore, run_ids

HANG_S = 90
"""Far more than anything here takes: who waits longer hangs."""
MARK = "SHOAL_FAULTS_MARK"
SHOAL = os.path.join(os.path.dirname(sys.executable), "shoal")


class Place:
    """One test's own folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / ".shoal"
        self.home.mkdir()  # So that none further up is found.
        self.environment = {name: value for name, value in os.environ.items() if name != "SHOAL_HOME"}
        self.mark = self.environment[MARK] = uuid.uuid4().hex
        self._started: list[subprocess.Popen[str]] = []

    # Writing.

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def sweep(self, name: str, trials: str, run: str, more: str = "") -> str:
        """A workload file of this name; the arguments are YAML, `run` is a command unless it says `function:`."""
        if not run.startswith("function:"):
            run = f"command: {json.dumps(run)}"
        text = f"kind: sweep\nname: {name}\ntrials: {trials}\nrun:\n  {run}\n{textwrap.dedent(more)}"
        self.write(f"{name}.yaml", text)
        return f"{name}.yaml"

    def machine(self, cpu: int = 2, name: str = "lab") -> str:
        """A cluster file: a virtual machine with so many CPUs, shared by all runs of this test."""
        self.write(
            f"{name}.yaml",
            f"kind: cluster\nname: {name}\nprovider: local\nengine: embedded\nnodes: [{{host: one, cpu: {cpu}}}]\n",
        )
        return f"{name}.yaml"

    # Running.

    def start(self, *arguments: str, cwd: Path | None = None, **settings: Any) -> subprocess.Popen[str]:
        """The real command, in the background."""
        return self.start_program([SHOAL, *arguments], cwd=cwd, **settings)

    def start_program(
        self,
        command: list[str],
        *,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        **settings: Any,
    ) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        settings = {"stdout": pipe, "stderr": pipe, "stdin": subprocess.DEVNULL, "text": True} | settings
        process = subprocess.Popen(
            command, cwd=cwd or self.folder, env=self.environment | (env or {}), errors="replace", **settings
        )
        self._started.append(process)
        return process

    def shoal(self, *arguments: str, code: int | None = None, **settings: Any) -> Any:
        """The real command, to its end. Whatever happens, no traceback; with `code`, this exit code."""
        return self.end(self.start(*arguments, **settings), code)

    def end(self, process: subprocess.Popen[str], code: int | None = None) -> Any:
        out, err = process.communicate(timeout=HANG_S)
        for text in (out, err):
            assert "Traceback (most" not in (text or ""), text
            assert "bug in Shoal" not in (text or ""), text
        if code is not None:
            assert process.returncode == code, f"exit code {process.returncode}\n{out}\n{err}"
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def refused(self, *arguments: str, **settings: Any) -> str:
        """A request that is wrong: exit code 2, one error with a sentence, nothing started. The sentence."""
        before = self.runs()
        done = self.shoal(*arguments, code=2, **settings)
        assert done.stdout == ""
        assert done.stderr.startswith("Error: "), done.stderr
        assert self.runs() == before, "a run was made"
        return done.stderr

    def run(self, *arguments: str, code: int = 0, command: str = "run") -> list[dict[str, str]]:
        """`shoal run` (or `resume`), with this exit code: the rows of results.csv."""
        done = self.shoal(command, *arguments, "--json", code=code)
        return self.table(json.loads(done.stdout)["results"])

    def json(self, *arguments: str) -> Any:
        return json.loads(self.shoal(*arguments, code=0).stdout)

    def killed(self, moment: Callable[[Place], Any], *arguments: str) -> None:
        """Start the real command and kill it in a short moment; where that was missed, all is forgotten, and again."""
        for _ in range(5):
            process = self.start(*arguments)
            while not moment(self):  # At full speed: the moments are short.
                if process.poll() is not None:
                    break
            self.kill(process)
            if process.returncode == -signal.SIGKILL:
                return
            for path in (*self.home.iterdir(), self.folder / "log"):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        raise AssertionError(f"it ended well five times without a moment when {moment.__name__} was seen")

    # Looking.

    def runs(self) -> list[str]:
        return run_ids(str(self.home))

    def table(self, path: str | Path) -> list[dict[str, str]]:
        with open(path, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def store(self, run: str | None = None, home: Path | None = None) -> RunStore:
        """A run's record as it is on disk now, to read."""
        where = str(home or self.home)
        return RunStore.open(where, run or run_ids(where)[-1], write=False)

    def states(self, run: str | None = None, home: Path | None = None) -> dict[int, str]:
        """The state of each item, by its number, as it is on disk now."""
        with self.store(run, home) as store:
            return {record.item.seq: record.state for record in store.items()}

    def counts(self, run: str | None = None) -> dict[str, int]:
        """How many items are in each state on disk now."""
        with self.store(run) as store:
            return store.counts()

    def until(self, condition: Callable[[], Any], process: subprocess.Popen[str] | None = None) -> Any:
        """Wait for something to become true; fails when it never does, or when the process ends first."""
        deadline = time.monotonic() + HANG_S
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            if process is not None and process.poll() is not None:
                found = condition()
                assert found, f"it ended first, with {process.returncode}: {process.communicate()}"
                return found
            time.sleep(0.005)
        raise AssertionError("it never came true")

    # Processes.

    def alive(self) -> list[int]:
        """The processes that were started from this test, by whatever way, and still run."""
        mark = f"{MARK}={self.mark}".encode()
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    found.append(int(pid))
            except OSError:
                continue
        return found

    def peak_bytes(self, process: subprocess.Popen[str]) -> int:
        """The most memory that the process, or any one that it started, has until it ends."""
        peak = 0
        while process.poll() is None:
            for pid in (process.pid, *self.alive()):
                peak = max(peak, _peak_bytes(pid))
            time.sleep(0.005)
        return peak

    def kill(self, process: subprocess.Popen[str]) -> None:
        """kill -9 of a driver; returns when all that it had started is gone, too."""
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=HANG_S)
        self.until(lambda: not self.alive())

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()
        deadline = time.monotonic() + 10
        while left := self.alive():
            if time.monotonic() > deadline:
                names = [_command_line(pid) for pid in left]
                for pid in left:
                    os.kill(pid, signal.SIGKILL)
                raise AssertionError(f"processes were left behind: {names}")
            time.sleep(0.02)


def _peak_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return 1024 * max((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), default=0)


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return str(pid)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "work"
    folder.mkdir()
    found = Place(folder)
    yield found
    found.close()


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts a disk of its own, given the arguments of mount(8) before the folder; skips where that is not allowed."""
    mounted: list[Path] = []

    def make(*arguments: str) -> Path:
        folder = tmp_path / f"disk{len(mounted)}"
        folder.mkdir()
        made = subprocess.run(["mount", *arguments, str(folder)], capture_output=True, text=True)
        if made.returncode:
            pytest.skip(f"this system does not let us mount a disk: {made.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)

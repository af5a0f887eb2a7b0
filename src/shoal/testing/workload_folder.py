"""A folder with a workload whose items do as `told_item` says, and the real command in it, as child processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shoal.testing.told_item import BEGUN, HOLD

HANG_S = 60.0
"""Far more than any command here takes: who waits longer hangs."""


class WorkloadFolder:
    """`write` puts the workload into the folder and gives the name of its file. Runs are kept in the folder, too."""

    def __init__(self, folder: Path, write: Callable[[Path], str]) -> None:
        self.folder = folder
        (folder / ".shoal").mkdir(parents=True)  # So that no home further up is found.
        self.file = write(folder)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
        state = {
            "SHOAL_LEASES": str(folder.parent / "leases"),
            "XDG_STATE_HOME": str(folder.parent / "state"),
        }
        self._environment = kept | state | {"COLUMNS": "100"}
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        command = [os.path.join(os.path.dirname(sys.executable), "shoal"), *arguments]
        settings: dict[str, Any] = {"stdout": pipe, "stderr": pipe, "stdin": subprocess.DEVNULL, "text": True}
        process = subprocess.Popen(command, cwd=self.folder, env=self._environment, **settings)
        self._started.append(process)
        return process

    def end(self, process: subprocess.Popen[str], code: int) -> subprocess.CompletedProcess[str]:
        """What it said, once it has ended with this exit code; never a traceback."""
        out, err = process.communicate(timeout=HANG_S)
        assert process.returncode == code, f"exit code {process.returncode}\n{out}\n{err}"
        assert "Traceback (most" not in err
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def shoal(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.end(self.start(*arguments), code)

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self.shoal(*arguments, code=code).stdout)

    def begun(self) -> list[str]:
        """The items that were begun, each as often as it was."""
        path = self.folder / BEGUN
        return path.read_text().split() if path.exists() else []

    def nothing_is_left(self) -> None:
        """That no run was made and no item was begun."""
        assert list((self.folder / ".shoal").iterdir()) == []
        assert self.begun() == []

    def held(self, *arguments: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
        """A run of which something is done, and something runs and waits; and what is shown of it then."""
        (self.folder / HOLD).touch()
        process = self.start("run", self.file, "--json", *arguments)
        self.until(lambda: len(set(self.begun())) > 1, process)
        return process, self.shown(lambda run: run["counts"]["done"] and run["counts"]["running"], process)

    def shown(
        self, condition: Callable[[dict[str, Any]], object], process: subprocess.Popen[str]
    ) -> dict[str, Any]:
        """What `show` says of the last run, once it is so."""
        found: list[dict[str, Any]] = []

        def looked() -> object:
            found[:] = [self.json("show", "last", "--json")]
            return condition(found[0])

        self.until(looked, process)
        return found[0]

    def until(self, condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
        """Wait for something to become true while the process runs."""
        deadline = time.monotonic() + HANG_S
        while not condition():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "it never came true"
            time.sleep(0.01)

    def let_go(self) -> None:
        (self.folder / HOLD).unlink()

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()

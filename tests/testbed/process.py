"""A command on a host, as a `subprocess.Popen` of the tester. How a process gets into the host's namespaces."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

JOIN = 'group=$1; shift; if [ -n "$group" ]; then echo 0 > "$group/cgroup.procs"; fi; exec nsenter "$@"'
ENTERED_WITHIN_S = 5.0


class CommandFailed(Exception):  # noqa: N818 it reads as a sentence in the tests
    """A command on a host ended with another code than 0. Has what it wrote."""

    def __init__(self, host: str, result: subprocess.CompletedProcess[str]) -> None:
        self.result = result
        said = f"{result.stdout[-4000:]}\n{result.stderr[-4000:]}".strip()
        super().__init__(f"On {host}, {result.args} ended with {result.returncode} and said:\n{said}")


class HostProcess(subprocess.Popen[str]):
    """Its `pid` is of `nsenter`, outside the host; signals go to the command itself, inside.

    The return code is that of the command, also when a signal ended it, or the whole host was killed.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        init_pid: int,
        group: Path | None,
        folder: str,
        environment: Mapping[str, str],
        **options: Any,
    ) -> None:
        spaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
        variables = [f"{name}={value}" for name, value in environment.items()]
        enter = ["--target", str(init_pid), *spaces, "--", "env", "-i", "-C", folder, *variables, *command]
        arguments = ["sh", "-c", JOIN, "sh", "" if group is None else str(group), *enter]
        super().__init__(arguments, text=True, **options)

    def send_signal(self, sig: int) -> None:
        """Nothing, when the command has ended."""
        inside = self._inside()
        if inside is not None:
            with suppress(ProcessLookupError):
                os.kill(inside, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _inside(self) -> int | None:
        """The command, as seen from outside: the one child of `nsenter`."""
        deadline = time.monotonic() + ENTERED_WITHIN_S
        while self.poll() is None and time.monotonic() < deadline:
            with suppress(OSError):
                children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
                if children:
                    return int(children[0])
            time.sleep(0.002)
        return None


def processes_of(init_pid: int) -> list[tuple[int, str]]:
    """Pid inside the host and command line of all that runs on it, its first process left out."""
    own = os.readlink(f"/proc/{init_pid}/ns/pid")
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.readlink(folder / "ns" / "pid") != own or folder.name == str(init_pid):
                continue
            status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
            command = (folder / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
            found.append((int(status["NSpid"].split()[-1]), command.decode(errors="replace")))
    return sorted(found)

"""One host of a bed, for tests: run commands on it, copy files, and do to it what happens to machines."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed import cgroups
from testbed.blueprint import WORK, HostPlan
from testbed.process import CommandFailed, HostProcess, processes_of

if TYPE_CHECKING:
    from testbed.bed import Testbed

PATIENCE_S = 60.0


class Host:
    """Paths that do not begin with `/` are below its home. Made by `Testbed`, never by tests."""

    def __init__(self, bed: Testbed, plan: HostPlan) -> None:
        self._bed = bed
        self._plan = plan
        self._init_pid: int | None = None
        self._started: list[HostProcess] = []

    def __repr__(self) -> str:
        return f"<Host {self.name} {self.address} {'up' if self.is_up else 'off'}>"

    @property
    def name(self) -> str:
        return self._plan.name

    @property
    def address(self) -> str:
        return self._plan.address

    @property
    def home(self) -> str:
        """Its path inside the host. Differs from host to host."""
        return self._plan.home

    @property
    def work(self) -> str:
        """A private folder outside the home, inside the host; the same path everywhere."""
        return WORK

    @property
    def is_up(self) -> bool:
        """False after `kill()`."""
        return self._init_pid is not None

    def start(
        self, command: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any
    ) -> HostProcess:
        """Start a command in the home and return at once; `options` are those of `subprocess.Popen`."""
        options.setdefault("stdin", subprocess.DEVNULL)
        process = HostProcess(
            command,
            init_pid=self._require_up(),
            group=self._bed.group_of(self.name),
            folder=options.pop("cwd", self.home),
            environment={**self._bed.plan.environment(self._plan), **(env or {})},
            **options,
        )
        self._started = [each for each in self._started if each.returncode is None] + [process]
        return process

    def run(
        self,
        command: Sequence[str],
        *,
        timeout_s: float = PATIENCE_S,
        input: str | None = None,  # noqa: A002 as in `subprocess.run`
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end. A code other than 0 is `CommandFailed`, unless `check` is off."""
        stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
        pipes = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with self.start(command, env=env, cwd=cwd or self.home, **pipes) as process:
            try:
                stdout, stderr = process.communicate(input, timeout=timeout_s)
            except BaseException:
                process.kill()
                raise
        result = subprocess.CompletedProcess(list(command), process.returncode, stdout, stderr)
        if check and result.returncode != 0:
            raise CommandFailed(self.name, result)
        return result

    def processes(self) -> list[tuple[int, str]]:
        """Pid and command line of all that runs here, as seen here."""
        return processes_of(self._require_up())

    def read(self, path: str) -> str:
        return self.run(["cat", "--", path]).stdout

    def write(self, path: str, text: str, *, mode: int = 0o644) -> None:
        """Folders above it are made."""
        quoted = shlex.quote(path)
        script = f'mkdir -p "$(dirname {quoted})" && cat > {quoted} && chmod {mode:o} {quoted}'
        self.run(["sh", "-c", script], input=text)

    def exists(self, path: str) -> bool:
        return self.run(["test", "-e", path], check=False).returncode == 0

    def put(self, source: Path, path: str) -> None:
        """Copy a file, or a folder with all in it, from the tester to `path`."""
        if source.is_dir():
            self._stream(["tar", "-C", str(source), "-cf", "-", "."], extract_into(path))
        else:
            inside = f'mkdir -p "$(dirname {shlex.quote(path)})" && cat > {shlex.quote(path)}'
            self._stream(["cat", str(source)], ["sh", "-c", inside])
            self.run(["chmod", f"{source.stat().st_mode & 0o7777:o}", path])

    def get(self, path: str, target: Path) -> None:
        """Copy a file, or a folder with all in it, from `path` to the tester."""
        folder = self.run(["test", "-d", path], check=False).returncode == 0
        command = ["tar", "-C", path, "-cf", "-", "."] if folder else ["cat", "--", path]
        into = target if folder else target.parent
        into.mkdir(parents=True, exist_ok=True)
        receive = ["tar", "-C", str(target), "-xf", "-"] if folder else ["dd", f"of={target}", "status=none"]
        with self.start(command, stdout=subprocess.PIPE) as sending:
            received = subprocess.run(receive, stdin=sending.stdout, check=False)
        if sending.returncode or received.returncode:
            raise OSError(f"Cannot copy {path} from {self.name} to {target}.")

    def _stream(self, command: list[str], inside: list[str]) -> None:
        with subprocess.Popen(command, stdout=subprocess.PIPE) as sending:
            receiving = self.start(inside, stdin=sending.stdout)
            code = receiving.wait()
        if code or sending.returncode:
            raise OSError(f"Cannot copy to {self.name}: {shlex.join(command)} | {shlex.join(inside)}")

    def cut(self) -> None:
        """Off the network: no packet to or from any other host arrives, also none that is under way."""
        self._bed.ask("cut", self.name, True)

    def mend(self) -> None:
        """On the network again."""
        self._bed.ask("cut", self.name, False)

    def kill(self) -> None:
        """A power cut: nothing on the host has a moment to say goodbye, and no connection is closed.

        Lost: all processes, `/tmp`, `/run`, `/dev/shm`. Kept: the home, the work folder, `/var/tmp`. Killing a host
        that is off does nothing.
        """
        if self._init_pid is not None:
            self._init_pid = None
            self._bed.ask("kill", self.name)

    def boot(self) -> None:
        """Switch it on again, with the same address; returns when `sshd` listens. Cuts, delays and limits stay."""
        if self._init_pid is None:
            self._init_pid = self._bed.ask("boot", self.name)[self.name]

    def limit_cpu(self, cpus: float | None) -> None:
        """At most so many CPUs' worth of time for the whole host (0.5: half of one); `None` lifts it."""
        group = self._bed.group_of(self.name)
        if group is None:
            raise OSError("No CPU controller of cgroups may be used here, so hosts cannot be made slower.")
        cgroups.limit_cpu(group, cpus)

    def set_init(self, pid: int | None) -> None:
        """For the bed: the first process of this host, once it runs; `None`: the host is no more."""
        self._init_pid = pid

    def collect(self) -> None:
        """For the bed, at its end: the commands that nobody waited for have died with the host."""
        for process in self._started:
            process.wait(PATIENCE_S)

    def _require_up(self) -> int:
        if self._init_pid is None:
            raise RuntimeError(f"{self.name} is off; boot() switches it on.")
        return self._init_pid


def extract_into(path: str) -> list[str]:
    quoted = shlex.quote(path)
    return ["sh", "-c", f"mkdir -p {quoted} && tar -C {quoted} --no-same-owner -xf -"]

"""The provider `ssh`: plain hosts with Python and Shoal on them, reached with OpenSSH's own client.

So the user's keys, aliases, jump hosts and agent work as they always do.
"""

from __future__ import annotations

import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shoal.cluster import agent_calls
from shoal.cluster.base import Done
from shoal.cluster.hosted import HostedProvider
from shoal.errors import ClusterError
from shoal.spec import Cluster

OPTIONS = (
    *("-o", "BatchMode=yes"),  # Never ask: nobody may be there to answer.
    *("-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=4"),
)
FAILED = 255
"""The exit code of ssh itself."""
NO_SHOAL = 96
"""The exit code of `FIND_PYTHON`."""
FIND_PYTHON = """
found=
for python in {candidates}; do
    command -v "$python" > /dev/null 2>&1 || continue
    found=$python
    "$python" -c 'import shoal' 2> /dev/null && exec "$python" {arguments}
done
if [ -n "$found" ]; then echo "shoal-ssh: no shoal in $found"; else echo "shoal-ssh: no python"; fi >&2
exit 96
"""
"""Runs the first Python there that has Shoal."""
CAUSES: tuple[tuple[str, str, str], ...] = (
    (
        "permission denied",
        "does not accept any of your SSH keys",
        "Try `ssh {host}`; add your key with ssh-copy-id.",
    ),
    (
        "could not resolve",
        "has a name that nobody knows",
        "Check the name, or give it an alias in ~/.ssh/config.",
    ),
    (
        "identification has changed",
        "has another host key than before",
        "If that is right, remove the old one: ssh-keygen -R {host}.",
    ),
    (
        "host key verification failed",
        "is not known yet",
        "Connect once by hand with `ssh {host}`, and compare its fingerprint.",
    ),
    ("connection refused", "has no SSH server that answers", "Is sshd running there?"),
    ("timed out", "does not answer", "Is it on, and can it be reached from here?"),
    ("no route to host", "cannot be reached from here", "Is it on, and on this network?"),
    ("network is unreachable", "cannot be reached from here", "Is this machine on a network?"),
    ("no python", "has no Python", "Install Python there, or name it with `python:` in the cluster file."),
    (
        "no shoal in",
        "has no Shoal",
        "Install it there (pip install 'shoal[ray]'), or name its Python with `python:` in the cluster file.",
    ),
)


class SshProvider(HostedProvider):
    """Keeps `Provider`."""

    def __init__(self, cluster: Cluster, file: str) -> None:
        self._ssh = SshHosts(cluster.python)
        super().__init__(cluster, file, self._ssh)

    def door(self) -> SshDoor:
        return SshDoor(self._ssh, self._head().host)


class SshHosts:
    """Agents on hosts that ssh reaches. Keeps `agent_calls.Hosts`."""

    def __init__(self, python: str | None) -> None:
        self._candidates = (python,) if python else (sys.executable, "python3", "python")

    def ask(self, host: str, request: Mapping[str, Any]) -> Any:
        given = agent_calls.line(request)
        done = self.python(host, ["-m", "shoal.cluster.agent"], given, agent_calls.PATIENCE_S)
        return agent_calls.answer(request["do"], done.output, done.errors)

    def python(
        self, host: str, arguments: Sequence[str], stdin: bytes = b"", timeout_s: float | None = None
    ) -> Done:
        """Run the host's Python to its end. Raises `ClusterError` where there is no way to it, or none with Shoal."""
        try:
            done = subprocess.run(
                [ssh_program(), *OPTIONS, host, "--", self._script(arguments)],
                input=stdin,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ClusterError(f"{host} did not answer within {timeout_s:g} s.") from None
        if done.returncode in (FAILED, NO_SHOAL):
            raise cannot_reach(host, done.stderr)
        return Done(done.returncode, done.stdout, done.stderr)

    def attached(self, host: str, arguments: Sequence[str]) -> int:
        """Run the host's Python on this terminal."""
        terminal = ["-tt"] if sys.stdin.isatty() and sys.stdout.isatty() else []
        command = [ssh_program(), *OPTIONS, "-q", *terminal, host, "--", self._script(arguments)]
        code = subprocess.run(command, check=False).returncode
        if code == FAILED:
            raise ClusterError(f"The connection to {host} was lost.", hint=f"Try `ssh {host}`.")
        return code

    def _script(self, arguments: Sequence[str]) -> str:
        candidates = " ".join(shlex.quote(python) for python in self._candidates)
        script = FIND_PYTHON.format(candidates=candidates, arguments=shlex.join(arguments))
        return f"exec sh -c {shlex.quote(script)}"


class SshDoor:
    """Commands on the head. `python` and `shoal` are those that the cluster uses there."""

    def __init__(self, hosts: SshHosts, head: str) -> None:
        self._hosts = hosts
        self._head = head

    def run(self, arguments: Sequence[str], *, stdin: bytes = b"", timeout_s: float | None = None) -> Done:
        return self._hosts.python(self._head, _python_arguments(arguments), stdin, timeout_s)

    def attach(self, arguments: Sequence[str]) -> int:
        return self._hosts.attached(self._head, _python_arguments(arguments))

    def forward(self, port: int) -> tuple[int, Callable[[], None]]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            here = int(probe.getsockname()[1])
        tunnel = subprocess.Popen(
            [
                *(ssh_program(), *OPTIONS, "-N", "-o", "ExitOnForwardFailure=yes"),
                *("-L", f"127.0.0.1:{here}:127.0.0.1:{port}", self._head),
            ],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        _wait_for_port(here, tunnel, self._head)
        return here, lambda: _end(tunnel)


def _python_arguments(arguments: Sequence[str]) -> list[str]:
    first, *rest = arguments
    if first not in ("python", "shoal"):
        raise ValueError(f"expected python or shoal, found {first!r}")
    return rest if first == "python" else ["-m", "shoal", *rest]


def _wait_for_port(port: int, tunnel: subprocess.Popen[bytes], head: str) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if tunnel.poll() is not None:
            assert tunnel.stderr is not None
            raise cannot_reach(head, tunnel.stderr.read())
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    _end(tunnel)
    raise ClusterError(f"No tunnel to {head} came up within 20 s.", hint=f"Try `ssh {head}`.")


def _end(tunnel: subprocess.Popen[bytes]) -> None:
    tunnel.terminate()
    tunnel.wait()
    if tunnel.stderr is not None:
        tunnel.stderr.close()


def ssh_program() -> str:
    found = shutil.which("ssh")
    if found is None:
        raise ClusterError("provider: ssh needs the program ssh.", hint="Install OpenSSH's client.")
    return found


def cannot_reach(host: str, errors: bytes) -> ClusterError:
    """What ssh said, in words that help."""
    text = errors.decode("utf-8", "replace")
    for sign, cause, hint in CAUSES:
        if re.search(sign, text, re.IGNORECASE):
            return ClusterError(f"{host} {cause}.", hint=hint.format(host=host))
    words = [line.strip() for line in text.splitlines() if line.strip()]
    return ClusterError(
        f"{host} cannot be reached: {words[-1] if words else 'ssh said nothing'}", hint=f"Try `ssh {host}`."
    )

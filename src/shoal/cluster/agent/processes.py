"""The processes of a Ray node, known by a mark in their environment that their children inherit. Linux only."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from shoal.model.marks import NODE_VARIABLE

PATIENCE_S = 5.0
SESSION_FILE = "session"


def remember_session(folder: str, session: int) -> None:
    """The session that a node's processes are in: some of Ray's write their title over their environment."""
    with open(os.path.join(folder, SESSION_FILE), "w", encoding="ascii") as file:
        file.write(str(session))


def of(folder: str) -> dict[int, str]:
    """The command lines of what runs for the node with this folder, by process id. This process is left out."""
    mark = f"{NODE_VARIABLE}={folder}".encode()
    session = _session(folder)
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                command = _read(f"/proc/{name}/cmdline").replace(b"\0", b" ").decode("utf-8", "replace")
                marked = mark in _read(f"/proc/{name}/environ").split(b"\0")
                if (marked or _is_titled(int(name), command, session)) and _is_running(name):
                    found[int(name)] = command
    return found


def _is_titled(process: int, command: str, session: int | None) -> bool:
    """Whether it is one of Ray's in the node's session that no longer shows its mark."""
    return session is not None and command.startswith("ray::") and os.getsid(process) == session


def _session(folder: str) -> int | None:
    try:
        return int(_read(os.path.join(folder, SESSION_FILE)))
    except (OSError, ValueError):
        return None


def end(folder: str) -> None:
    """All of them: asked first, then made to."""
    for number, patience_s in ((signal.SIGTERM, PATIENCE_S), (signal.SIGKILL, PATIENCE_S)):
        _send(folder, number)
        until = time.monotonic() + patience_s
        while of(folder) and time.monotonic() < until:
            time.sleep(0.05)
            if number == signal.SIGKILL:
                _send(folder, number)


def is_raylet(command: str) -> bool:
    return "/raylet/raylet " in command


def is_head(command: str) -> bool:
    return "/gcs/gcs_server " in command


def _send(folder: str, number: int) -> None:
    for process in of(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def _is_running(process: str) -> bool:
    """Not one that has ended and only waits to be asked for its exit code."""
    return _read(f"/proc/{process}/stat").rpartition(b")")[2].split()[0] != b"Z"


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()

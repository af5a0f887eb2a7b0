"""JupyterLab on this host: on loopback only, with a token, started once and ended with its cluster."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib.util import find_spec
from typing import NamedTuple

from shoal.cluster.agent.ray_node import free_port
from shoal.cluster.agent.requests import TOKEN_FILE
from shoal.errors import ClusterError
from shoal.files import write_secret
from shoal.model.marks import NODE_VARIABLE

FILE = "notebook.json"
LOG = "notebook.log"
START_S = 60.0
LOOPBACK, LISTENING = f"{int.from_bytes(bytes((127, 0, 0, 1)), sys.byteorder):08X}", "0A"
"""127.0.0.1 and the state of a socket, as the kernel's table of sockets has them."""


class Notebook(NamedTuple):
    """Where it listens, on this host's loopback, and what lets one in."""

    port: int
    token: str


def start(folder: str) -> Notebook:
    """The one that runs for the node with this folder, or a new one; answers when it does."""
    known = _read(folder)
    if known is not None and _answers(known):
        return known
    if find_spec("jupyterlab") is None:
        raise ClusterError(
            "JupyterLab is not installed on the head.", hint="Install it there: pip install jupyterlab"
        )
    os.makedirs(folder, mode=0o700, exist_ok=True)
    notebook = Notebook(free_port(), secrets.token_hex(24))
    with open(os.path.join(folder, LOG), "wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1"),
                *(f"--port={notebook.port}", "--ServerApp.port_retries=0", "--allow-root"),
            ],
            env=_environment(folder, notebook),
            cwd=os.path.expanduser("~"),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    _wait(notebook, folder, process)
    _write(folder, notebook)
    return notebook


def _environment(folder: str, notebook: Notebook) -> dict[str, str]:
    """The token is a variable and not an argument, which every user of the machine could read."""
    return {
        **os.environ,
        NODE_VARIABLE: folder,
        "JUPYTER_TOKEN": notebook.token,
        **_token(os.path.join(folder, TOKEN_FILE)),
    }


def _token(file: str) -> dict[str, str]:
    """For what connects to Ray in the notebook; in a container it is in the environment already."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": file} if os.path.exists(file) else {}


def _wait(notebook: Notebook, folder: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_S
    while not _answers(notebook):
        if process.poll() is not None or time.monotonic() > until:
            with open(os.path.join(folder, LOG), encoding="utf-8", errors="replace") as log:
                lines = [line.strip() for line in log if line.strip()]
            raise ClusterError(f"JupyterLab did not start: {lines[-1] if lines else 'it said nothing'}")
        time.sleep(0.1)


def _answers(notebook: Notebook) -> bool:
    """Asked only if it is this user's: on a machine that others use, one of them may listen where ours did."""
    if not _is_ours(notebook.port):
        return False
    request = urllib.request.Request(
        f"http://127.0.0.1:{notebook.port}/api/status", headers={"Authorization": f"token {notebook.token}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _is_ours(port: int) -> bool:
    """Whether what listens at this port of loopback was opened by this user."""
    place = f"{LOOPBACK}:{port:04X}"
    try:
        with open("/proc/thread-self/net/tcp", encoding="ascii") as file:
            sockets = [line.split() for line in file]
    except OSError:
        return False
    owners = [each[7] for each in sockets if each[1] == place and each[3] == LISTENING]
    return bool(owners) and set(owners) == {str(os.getuid())}


def _read(folder: str) -> Notebook | None:
    try:
        with open(os.path.join(folder, FILE), encoding="utf-8") as file:
            return Notebook(**json.load(file))
    except (OSError, ValueError, TypeError):
        return None


def _write(folder: str, notebook: Notebook) -> None:
    write_secret(os.path.join(folder, FILE), json.dumps(notebook._asdict()))

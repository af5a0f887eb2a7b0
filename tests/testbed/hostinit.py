"""The first process of a host, in namespaces of its own: mounts, network, `sshd`. When it dies, the host is dead.

Runs in a fork of the keeper and never returns; tests do not call it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from testbed import cgroups, linux, wire
from testbed.blueprint import SSH_PORT, SYSTEM, BedPlan, HostPlan
from testbed.furniture import private_folders

SPACES = linux.NEW_MOUNTS | linux.NEW_HOSTNAME | linux.NEW_IPC | linux.NEW_NETWORK | linux.NEW_CGROUP
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
LISTENING_WITHIN_S = 20.0
NETWORK = """link set lo up
link set eth0 mtu 9000 txqueuelen 5000 up
addr add {address}/24 dev eth0
route add default dev eth0
"""


def main(plan: BedPlan, host: HostPlan, group: Path | None, report: socket.socket) -> NoReturn:
    """Tell the keeper `up` (with the TUN descriptor), or what went wrong; then look after orphans for ever."""
    try:
        linux.die_with_parent(signal.SIGKILL)
        if group is not None:
            cgroups.join(group)
        linux.unshare(SPACES)
        socket.sethostname(host.name)
        tun = linux.open_tun("eth0")
        wire.send(report, "tun", [tun])  # fails when the keeper is gone already
        os.close(tun)
        text = NETWORK.format(address=host.address)
        subprocess.run(["ip", "-batch", "-"], input=text, text=True, check=True, capture_output=True)
        build_root(plan, host, group)
        os.environ.clear()
        os.environ.update(plan.environment(host))
        start_sshd()
        wire.send(report, "up")
        report.close()
    except BaseException:  # noqa: BLE001 whatever it is, the keeper has to hear of it
        with suppress(OSError):
            wire.send(report, traceback.format_exc())
        os._exit(1)
    reap_for_ever()


def reap_for_ever() -> NoReturn:
    """What a first process is for: orphans end up here."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        signal.sigwait({signal.SIGCHLD})


def build_root(plan: BedPlan, host: HostPlan, group: Path | None) -> None:
    """A root that shows only what is named here, and is read-only except for the private folders."""
    linux.mount("none", "/", flags=linux.PRIVATE | linux.RECURSIVE)
    folder = plan.folder(host.name)
    root = folder / "root"
    linux.mount("host", root, "tmpfs", options="mode=755")
    shutil.rmtree(folder / "tmp", ignore_errors=True)
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    for name, inside in private_folders(host).items():
        below(root, inside).mkdir(parents=True)
        linux.bind(folder / name, below(root, inside))
    for path in (*SYSTEM, *plan.visible):
        show(path, root)
    for name in ("hosts", "hostname", "nsswitch.conf", "passwd", "shadow", "ssh"):
        if below(root, f"/etc/{name}").exists():
            linux.bind(folder / "etc" / name, below(root, f"/etc/{name}"), read_only=True)
    build_run(root)
    build_devices(root)
    build_kernel_views(root, group)
    linux.mount("none", root, flags=linux.BIND | linux.REMOUNT | linux.READ_ONLY)
    linux.change_root(root)


def below(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def show(path: str, root: Path) -> None:
    """A folder of this machine, at the same place. What is shown by a folder above it already needs no mount."""
    target = below(root, path)
    if os.path.islink(path):
        if not target.is_symlink():
            target.symlink_to(os.readlink(path))
    elif os.path.isdir(path):
        if target.is_dir() and os.path.samestat(os.stat(path), os.stat(target)):
            return
        target.mkdir(parents=True, exist_ok=True)
        linux.bind(path, target, read_only=True)


def build_run(root: Path) -> None:
    (root / "run").mkdir()
    linux.mount("run", root / "run", "tmpfs", options="mode=755")
    (root / "run" / "sshd").mkdir()
    (root / "var" / "run").symlink_to("/run")


def build_devices(root: Path) -> None:
    devices = root / "dev"
    devices.mkdir()
    linux.mount("dev", devices, "tmpfs", options="mode=755")
    for name in DEVICES:
        (devices / name).touch()
        linux.bind(f"/dev/{name}", devices / name)
    for name in ("pts", "shm"):
        (devices / name).mkdir()
    linux.mount("devpts", devices / "pts", "devpts", options="newinstance,ptmxmode=0666,mode=620")
    linux.mount("shm", devices / "shm", "tmpfs", options="mode=1777")
    links = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
    for name, leads_to in links.items():
        (devices / name).symlink_to(leads_to)


def build_kernel_views(root: Path, group: Path | None) -> None:
    """Processes and devices of the host alone. Its CPU quota is where programs look for one."""
    (root / "proc").mkdir()
    linux.mount("proc", root / "proc", "proc")
    (root / "sys").mkdir()
    linux.mount("sysfs", root / "sys", "sysfs", linux.READ_ONLY)
    groups = root / "sys" / "fs" / "cgroup"
    if group is None or not groups.exists():
        return
    if (group / "cpu.max").exists():
        linux.bind(group, groups, read_only=True)
        return
    linux.mount("cgroup", groups, "tmpfs", options="mode=755")
    (groups / "cpu").mkdir()
    linux.bind(group, groups / "cpu", read_only=True)


def start_sshd() -> None:
    """Listening when it returns."""
    executable = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin") or "sshd"
    process = subprocess.Popen(
        [executable, "-D", "-f", "/etc/ssh/sshd_config", "-E", "/run/sshd.log"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + LISTENING_WITHIN_S
    while not listens(SSH_PORT):
        if process.poll() is not None or time.monotonic() > deadline:
            log = Path("/run/sshd.log")
            said = log.read_text() if log.exists() else "nothing"
            sys.exit(f"sshd does not listen; it said: {said}")
        time.sleep(0.005)


def listens(port: int) -> bool:
    """Whether somebody on this host listens there, without a connection that would be in the log."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in lines)

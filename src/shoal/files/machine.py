"""Which machine this is, and which process. The name of a host does not tell: containers have that of theirs, too."""

from __future__ import annotations

import os

try:
    from _blake2 import blake2b  # `hashlib` loads OpenSSL: 2 ms that every start would pay.
except ImportError:
    from hashlib import blake2b


def machine_name() -> str:
    """The same as long as this system is installed, and another one elsewhere; not readable by people."""
    return _short(_read("/etc/machine-id") or os.uname().nodename)


def machine_identity() -> str:
    """The same for processes that see each other, and the same files: not across a restart, nor across containers."""
    seen = [_link(f"/proc/self/ns/{kind}") for kind in ("mnt", "pid")]
    return _short("\n".join([machine_name(), _read("/proc/sys/kernel/random/boot_id"), *seen]))


def process_start(pid: int) -> int | None:
    """When the process started, in the system's ticks: with the id, a name no later process has. None: not alive."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return (
            None if fields[0] in (b"Z", b"X") else int(fields[19])
        )  # One that nobody has waited for is dead.
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except OSError:
        return None
    return 0 if not os.path.exists("/proc/self/stat") else None


def _read(path: str) -> str:
    """Empty where there is no such thing."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _short(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()

"""Which machine this is. The name of the host does not tell: two may have the same, and a container has its host's."""

from __future__ import annotations

import os
from hashlib import blake2b


def machine_name() -> str:
    """The same as long as this system is installed, and another one elsewhere; not readable by people."""
    return _short(_read("/etc/machine-id") or os.uname().nodename)


def machine_identity() -> str:
    """The same for processes that see each other, and the same files: not across a restart, nor across containers."""
    seen = [_link(f"/proc/self/ns/{kind}") for kind in ("mnt", "pid")]
    return _short("\n".join([machine_name(), _read("/proc/sys/kernel/random/boot_id"), *seen]))


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

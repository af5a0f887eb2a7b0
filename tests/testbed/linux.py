"""The system calls that Python 3.11 has no names for: namespaces, mounts, the TUN device. Nothing of hosts here."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from pathlib import Path

NEW_MOUNTS = 0x00020000
NEW_CGROUP = 0x02000000
NEW_HOSTNAME = 0x04000000
NEW_IPC = 0x08000000
NEW_PIDS = 0x20000000
NEW_NETWORK = 0x40000000

READ_ONLY = 1
REMOUNT = 32
BIND = 4096
RECURSIVE = 16384
PRIVATE = 1 << 18
DETACH = 2

DIE_WITH_PARENT = 1
SET_INTERFACE = 0x400454CA
PLAIN_TUN = 0x0001 | 0x1000
"""Packets without Ethernet, and without a header of their own."""

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Leave the namespaces that the flags name, for new ones."""
    _checked(_libc.unshare(flags), "unshare")


def set_namespace(descriptor: int, flags: int) -> None:
    """Enter the namespace that the descriptor is of."""
    _checked(_libc.setns(descriptor, flags), "setns")


def mount(
    source: str | Path, target: str | Path, kind: str = "none", flags: int = 0, options: str = ""
) -> None:
    """`mount -t KIND -o OPTIONS SOURCE TARGET`."""
    parts = [os.fsencode(each) for each in (source, target, kind)]
    _checked(_libc.mount(*parts, ctypes.c_ulong(flags), os.fsencode(options)), f"mount {source} on {target}")


def bind(source: str | Path, target: str | Path, *, read_only: bool = False) -> None:
    """Show a file or a folder in a second place."""
    mount(source, target, flags=BIND)
    if read_only:
        mount("none", target, flags=BIND | REMOUNT | READ_ONLY)


def change_root(folder: str | Path) -> None:
    """Make a mounted folder the root of this mount namespace, and let go of the old one."""
    os.chdir(folder)
    _checked(_libc.pivot_root(b".", b"."), "pivot_root")
    _checked(_libc.umount2(b".", DETACH), "umount2")
    os.chdir("/")


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send this process a signal when its parent ends, however it ends."""
    _checked(_libc.prctl(DIE_WITH_PARENT, signal_number, 0, 0, 0), "prctl")


def open_tun(name: str) -> int:
    """A new TUN device in this network namespace. It is gone when its descriptor is closed."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(descriptor, SET_INTERFACE, struct.pack("16sH22x", name.encode(), PLAIN_TUN))
    return descriptor

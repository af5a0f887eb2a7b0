"""Network namespaces of Linux: making one with nothing but loopback, keeping it in a file, entering and leaving.

A thread is in one of them at a time; threads and processes that it starts are born into the same.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Iterator

OUTSIDE = "SHOAL_OUTSIDE"
"""In the environment of processes that are kept in a namespace: the file that stands for the one outside."""
MINE = "/proc/thread-self/ns/net"
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_BIND = 4096  # MS_BIND
_DETACH = 2  # MNT_DETACH
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP


def enter(path: str) -> None:
    """Move this thread into the network namespace that the file stands for. Needs root."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call("setns", descriptor, _NEW_NETWORK)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def inside(path: str | None) -> Iterator[None]:
    """This thread is in that namespace meanwhile; None changes nothing."""
    if path is None:
        yield
        return
    back = os.open(MINE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter(path)
        try:
            yield
        finally:
            _call("setns", back, _NEW_NETWORK)
    finally:
        os.close(back)


def hold() -> str:
    """A path that stands for this thread's namespace until `release`, at most as long as this process lives."""
    return f"/proc/{os.getpid()}/fd/{os.open(MINE, os.O_RDONLY | os.O_CLOEXEC)}"


def release(path: str) -> None:
    """A path from `hold` stands for nothing any more."""
    os.close(int(path.rpartition("/")[2]))


def is_in(path: str) -> bool:
    """Whether the file stands for the namespace that this thread is in."""
    try:
        return os.path.samefile(path, MINE)
    except OSError:
        return False


def keep(path: str) -> None:
    """Let the file stand for this thread's namespace, until `forget`."""
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    _call("mount", os.fsencode(MINE), os.fsencode(path), None, _BIND, None)


def make_lonely(path: str) -> None:
    """A new namespace that has a loopback interface and nothing else, kept in the file. Needs root."""
    back = os.open(MINE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call("unshare", _NEW_NETWORK)
        try:
            _loopback_up()
            keep(path)
        finally:
            _call("setns", back, _NEW_NETWORK)
    finally:
        os.close(back)


def forget(path: str) -> None:
    """The file stands for nothing any more, and is gone. A file that is not there is as good."""
    with contextlib.suppress(OSError):
        _call("umount2", os.fsencode(path), _DETACH)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def possible() -> bool:
    """Whether this process may make namespaces at all."""
    return sys.platform == "linux" and os.geteuid() == 0


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        flags = struct.unpack("16sh22x", fcntl.ioctl(any_socket, _GET_FLAGS, struct.pack("16s24x", b"lo")))[1]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh22x", b"lo", flags | _UP))


def _call(name: str, *arguments: int | bytes | None) -> None:
    import ctypes  # Here, as most commands never come here.

    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")

"""The lock that gives a run one driver. The operating system holds it, so it dies with the driver.

Not a queue: taking it never waits for another driver.
"""

from __future__ import annotations

import fcntl
import json
import os
import weakref
from contextlib import suppress
from errno import EACCES, EAGAIN, EWOULDBLOCK
from typing import Any

from shoal.errors import RunLocked, SpecError, StoreError
from shoal.files import pause

_BUSY = {EACCES, EAGAIN, EWOULDBLOCK}
_TRIES, _PAUSE_S = 20, 0.005  # someone who only asks `is_locked` holds the lock for microseconds


class RunLock:
    """A lock that this process holds until `release`, which may be called twice, or until it ends."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor
        _held.add(self)

    @classmethod
    def take(cls, path: str, *, run: str, now: float, by_force: bool = False) -> RunLock:
        """Take the lock at once, or raise `RunLocked` with who has it. `by_force`, whoever has it: with a new file."""
        if by_force and is_locked(path):
            with suppress(OSError):
                os.unlink(path)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise _cannot_lock(run, path, error) from error
        try:
            _lock(descriptor, path, run)
            owner = {"pid": os.getpid(), "host": os.uname().nodename, "since": now}
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(owner).encode(), 0)
        except OSError as error:
            os.close(descriptor)
            raise _cannot_lock(run, path, error) from error
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor)

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def is_locked(path: str) -> bool:
    """Whether a driver has the lock now. Does not keep anyone from taking it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _BUSY
    finally:
        os.close(descriptor)
    return False


def owner(path: str) -> dict[str, Any] | None:
    """Who took the lock last: `pid`, `host`, `since`. None when that cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _lock(descriptor: int, path: str, run: str) -> None:
    for attempt in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _BUSY:
                raise
            if attempt == _TRIES - 1:
                raise locked(run, path) from None
            pause(_PAUSE_S)
        else:
            _still_there(descriptor, path, run)
            return


def _still_there(descriptor: int, path: str, run: str) -> None:
    """`shoal rm` may have moved the folder away between our opening the file and locking it."""
    try:
        same = os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        same = False
    if not same:
        raise SpecError(f"Run {run!r} was removed just now.")


def locked(run: str, path: str) -> RunLocked:
    """The error that says who drives the run."""
    who = owner(path) or {}
    by = f" (process {who['pid']} on {who['host']})" if "pid" in who and "host" in who else ""
    return RunLocked(
        f"Run {run!r} is being driven by another process{by}.",
        hint=f"Wait for it, or end it with `shoal stop {run}`.",
    )


def _cannot_lock(run: str, path: str, error: OSError) -> SpecError | StoreError:
    reason = f"{error.strerror or error} ({path})"
    if error.errno in _LOCKLESS:
        hint = "This file system has no locks: set SHOAL_HOME to a folder on a local disk."
        return StoreError(f"Run {run!r} cannot be locked: {reason}.", hint=hint)
    return SpecError(
        f"Run {run!r} cannot be written: {reason}.",
        hint="Make its folder writable, or copy it elsewhere and set SHOAL_HOME to the copy.",
    )


def _names(*names: str) -> set[int]:
    import errno

    return {getattr(errno, name) for name in names if hasattr(errno, name)}


_LOCKLESS = _names("ENOLCK", "ENOSYS", "ENOTSUP", "EOPNOTSUPP", "EINVAL")

_held: weakref.WeakSet[RunLock] = weakref.WeakSet()


def _let_go_in_child() -> None:
    """A forked child shares the lock; were it to outlive the driver, the run would stay locked."""
    for lock in list(_held):
        with suppress(OSError):
            lock.release()


os.register_at_fork(after_in_child=_let_go_in_child)

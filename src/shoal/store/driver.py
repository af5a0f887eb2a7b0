"""Who drives a run, whether that driver lives, and the lock that gives a run one driver.

The operating system holds the lock, so it dies with the driver.
"""

from __future__ import annotations

import fcntl
import json
import os
import weakref
from collections.abc import Mapping
from contextlib import suppress
from errno import EACCES, EAGAIN, EWOULDBLOCK
from typing import Any, NamedTuple

from shoal.errors import RunLocked, SpecError, StoreError, TakenOver
from shoal.files import pause
from shoal.files.machine import machine_identity, process_start

HEARD_S = 60.0
"""A driver that was heard of within this time, and cannot be seen from here, counts as alive."""
UNDRIVEN = "undriven"
"""A file in the folder of a run that was brought here, and that nobody has driven here since."""
BEAT_S = 10.0
"""How often a driver lets itself be heard of in the record."""
_BUSY = {EACCES, EAGAIN, EWOULDBLOCK}
_TRIES, _PAUSE_S = 20, 0.005  # someone who only asks `is_locked` holds the lock for microseconds


class Driver(NamedTuple):
    """One process that drives a run."""

    host: str
    pid: int
    start: int | None
    machine: str
    token: str
    """Differs for each, whatever else is equal."""

    @classmethod
    def this(cls, token: str = "") -> Driver:
        """The process that asks, at this try to drive."""
        pid = os.getpid()
        return cls(os.uname().nodename, pid, process_start(pid), machine_identity(), token)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Driver | None:
        """What was kept of one; None where there is nothing, or nothing that can be read."""
        try:
            start = document["start"]
            known = str(document["host"]), int(document["pid"]), None if start is None else int(start)
            return cls(*known, str(document["machine"]), str(document["token"]))
        except (KeyError, TypeError, ValueError):
            return None

    def is_alive(self) -> bool | None:
        """Whether that process lives; None where it cannot be seen from here."""
        if self.machine != machine_identity():
            return None
        return self.start is not None and process_start(self.pid) == self.start

    @property
    def words(self) -> str:
        return f"process {self.pid} on {self.host}"


def refuse_the_living(run: str, driver: Driver | None, heard: float | None, now: float) -> None:
    """`RunLocked` where this driver of an unfinished run is alive, or may be: heard of within a minute."""
    if driver is None or (driver.machine == machine_identity() and driver.pid == os.getpid()):
        return
    alive = driver.is_alive()
    ago = None if heard is None else max(0.0, now - heard)
    if alive or (alive is None and ago is not None and ago < HEARD_S):
        said = "" if ago is None else f", heard of {ago:.0f} s ago"
        raise RunLocked(
            f"Run {run!r} is being driven by another process ({driver.words}{said}).",
            hint=f"Wait for it, or end it there. If it is gone for good: shoal resume {run} --take-over",
        )


def taken_over(run: str, number: int, driver: Driver | None) -> TakenOver:
    """The error of a driver that was replaced."""
    by = driver.words if driver is not None else "another process"
    return TakenOver(
        f"Run {run!r} was taken over by {by} (turn {number}): this driver has ended its workers,"
        " and records nothing more.",
        hint=f"Look at the run there: shoal show {run}",
    )


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

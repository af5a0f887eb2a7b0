"""What a worker runs and says of itself, and what an item is given: its folders, a stopwatch. For every engine."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Protocol

now = time.perf_counter
"""Seconds on a clock that only runs forward."""
THIS_MACHINE = "127.0.0.1"
"""The address of a worker that only this machine has to reach."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_UNTOUCHED = 1_618_033_988
"""When a folder in which nothing was ever made was last changed, in nanoseconds: a moment that nothing else has."""


class Upcoming(NamedTuple):
    """An item that waits behind the one that runs."""

    seq: int
    attempt: int
    counted_attempt: int
    params: Mapping[str, Any]


class Work:
    """One attempt at one item, as the runner sees it."""

    __slots__ = (
        "attempt",
        "cancelled",
        "counted_attempt",
        "folder",
        "id",
        "log_fd",
        "on_cancel",
        "params",
        "report",
        "seq",
        "texts",
        "upcoming",
    )

    def __init__(
        self,
        seq: int,
        attempt: int,
        id: str,  # noqa: A002 - the word people use
        params: Mapping[str, Any],
        texts: Mapping[str, str] | None,
        *,
        report: Callable[[Mapping[str, Any], int | None], None],
        folder: str = "",
        log_fd: int = 1,
        counted_attempt: int = 1,
        upcoming: Callable[[], Upcoming | None] = lambda: None,
    ) -> None:
        self.seq = seq
        self.attempt = attempt
        self.id = id
        self.params = params
        self.texts = texts
        self.report = report
        """Send metrics on their way; raises `Cancelled` when the item was asked to end."""
        self.folder = folder
        """The item's own folder (`SHOAL_ITEM_DIR`)."""
        self.log_fd = log_fd
        """Where the output of processes started for this item goes."""
        self.counted_attempt = counted_attempt
        """Which of those that count this is (`SHOAL_ATTEMPT`); `attempt` also counts those handed out in vain."""
        self.upcoming = upcoming
        """What this worker has been told to do next, so that it can read ahead. It may be taken back."""
        self.cancelled: tuple[str, str] | None = None
        """(state, why) once somebody asked for the end."""
        self.on_cancel: Callable[[], None] | None = None
        """Called from another thread when that happens; None lets the worker interrupt the main thread."""


class Runner(Protocol):
    """Made once per worker by its factory; holds state such as a loaded model.

    An attribute `facts`, where it has one, is a mapping of what others may know of this worker (`port` and the like):
    told when the worker is ready, and before the end of an item that has changed it.
    """

    def run(self, work: Work) -> Mapping[str, Any] | None:
        """Do one item: its metrics, or None. Raising marks the item failed; `Failed` gives the sentence to record."""


class Facts:
    """What a worker says of itself when it is ready, and again when it has changed.

    That is what the engine knows of this process, and over it what its runner has as `facts`, if it has any.
    """

    def __init__(self, runner: Runner, address: str, devices: Sequence[str]) -> None:
        self._runner = runner
        self._known = {"pid": os.getpid(), "address": address, "devices": list(devices)}
        self._told: dict[str, Any] | None = None

    def news(self) -> Mapping[str, Any] | None:
        """All of them; None when they are as they were the last time."""
        own = getattr(self._runner, "facts", None)
        if own is None and self._told is not None:
            return None  # The usual case, asked after every item.
        facts = {**self._known, **(own or {})}
        if facts == self._told:
            return None
        self._told = facts
        return facts


class Failed(Exception):  # noqa: N818 - a state, not an error of Shoal
    """The item failed, and this is the whole sentence to record; no traceback is wanted."""


class NoRoom(Exception):  # noqa: N818 - a state, not an error of Shoal
    """Memory does not suffice for this worker beside the others of its node: it goes, and its item goes to another.

    Nobody is to blame, so that nothing ends this when all workers say so: only raise it where others can go on.
    """


class Broken(Exception):  # noqa: N818 - a state, not an error of Shoal
    """This process is of no use any more, whatever it is given next: it ends as if it had died of its item.

    So the item is tried again elsewhere, and counted. Whatever cleans up on the way must not hide where it was.
    """


class Cancelled(BaseException):
    """Raised inside user code when its item was asked to end."""


class Stopwatch:
    """Seconds by phase, summed over the threads that spent them; and how many things they got ready."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.seconds: dict[str, float] = {}
        self.ready = 0

    def add(self, phase: str, seconds: float) -> None:
        with self._lock:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    def count(self, number: int) -> None:
        with self._lock:
            self.ready += number

    @contextmanager
    def measuring(self, phase: str) -> Iterator[None]:
        began = now()
        try:
            yield
        finally:
            self.add(phase, now() - began)


def memory_bytes() -> int:
    """What this process holds in memory now; 0 where that cannot be known."""
    with suppress(OSError, ValueError, IndexError), open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES
    return 0


def busy_s() -> float:
    """Processor seconds that this process has used, all threads together."""
    return time.process_time()


def workload_folder() -> str:
    """Where a worker runs before it has begun an item: the workload's folder, or its copy on this machine."""
    return os.getcwd()


def cache_folder(name: str) -> str:
    """Where a machine keeps what can be made again: not made here."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "shoal", name)


class ItemFolder:
    """One kind of folder (`items`, `checkpoints`) under a run, for one worker, which holds one at a time."""

    __slots__ = ("_keeps", "_path", "_root")

    def __init__(self, root: str, *, keeps: bool) -> None:
        self._root = root
        self._keeps = keeps
        self._path: str | None = None
        os.makedirs(root, exist_ok=True)

    def enter(self, item: str) -> str:
        """The item's own folder: empty, unless it `keeps` what an earlier attempt left."""
        target = f"{self._root}/{item}"
        try:
            if self._path is None:
                os.mkdir(target)
                os.utime(target, ns=(_UNTOUCHED, _UNTOUCHED))
            else:
                os.rename(self._path, target)
            self._path = target
        except OSError:
            self._enter_existing(target)
        return target

    def _enter_existing(self, target: str) -> None:
        """An earlier attempt left something there (or the spare folder vanished)."""
        self.close()
        if not self._keeps:
            import shutil

            shutil.rmtree(target, ignore_errors=True)
        os.makedirs(target, exist_ok=True)
        self._path = target

    def leave(self) -> bool:
        """The item is over: whether it left anything behind. An empty folder serves the next item: `enter` that, or
        `park` it before anybody hears of this end."""
        if self._path is None:
            return False
        try:
            if os.stat(self._path).st_mtime_ns == _UNTOUCHED:
                return False
            with os.scandir(self._path) as entries:
                kept = next(entries, None) is not None
            if not kept:
                os.utime(self._path, ns=(_UNTOUCHED, _UNTOUCHED))
        except OSError:
            self._path = None
            return False
        if kept:
            self._path = None
        return kept

    def park(self) -> None:
        """Nothing follows: the spare folder gives up its item's name, which a retry on another worker may need."""
        if self._path is not None:
            spare = os.path.join(self._root, f".spare-{os.getpid()}")
            try:
                os.rename(self._path, spare)
                self._path = spare
            except OSError:
                self.close()

    def close(self) -> None:
        """Remove the spare folder."""
        if self._path is not None:
            with suppress(OSError):
                os.rmdir(self._path)
            self._path = None

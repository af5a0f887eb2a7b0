"""A run as a Python object: started in a thread of its own, with its results as they come."""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

from shoal.api.display import Display
from shoal.api.session import Session, read_only, summarize
from shoal.api.views.lookup import logs_of
from shoal.cluster.this_machine import Here
from shoal.errors import ClusterLost
from shoal.model.record import Summary
from shoal.shape.base import Ended, Progress, Watcher
from shoal.store import RunStore
from shoal.work.kind import Kind, kind_of


class Run:
    """A run that this process drives, in a thread, and that ends with the process; or one that was opened, to look at.

    What is read is what is recorded at that moment.
    """

    def __init__(self) -> None:
        self._known = threading.Event()
        self._failure: BaseException | None = None
        self._session: Session | None = None
        self._summary: Summary | None = None
        self._ended: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._display: Display | None = None
        self.id = ""
        self.folder = ""
        self.progress: Progress | None = None
        """The latest moment; None before the first."""

    @classmethod
    def begin(cls, make: Callable[[], Session]) -> Run:
        """Make a session and drive it in a thread. What is wrong with the request is raised here."""
        run = cls()
        run._thread = threading.Thread(target=run._drive, args=(make,), name="shoal-driver", daemon=True)
        run._thread.start()
        run._known.wait()
        if run._session is None and run._failure is not None:
            raise run._failure
        return run

    @classmethod
    def in_this_thread(cls, make: Callable[[], Session]) -> Run:
        """Make a session and drive it to its end, here. Ctrl-C stops it cleanly, where this is the main thread."""
        run = cls()
        main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, run._interrupted) if main else None
        try:
            run._drive(make)
        finally:
            if main:
                signal.signal(signal.SIGINT, before)
        run.wait()
        return run

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        if self._session is None:
            raise KeyboardInterrupt
        self.stop()

    @classmethod
    def over(cls, summary: Summary) -> Run:
        """A run that had nothing left to do."""
        run = cls()
        run.id, run.folder, run._summary = summary.run, summary.folder, summary
        run._ended.put(None)
        run._over.set()
        return run

    @classmethod
    def opened(cls, run_id: str, folder: str) -> Run:
        """A run that this process does not drive."""
        run = cls()
        run.id, run.folder = run_id, folder
        return run

    def _drive(self, make: Callable[[], Session]) -> None:
        try:
            session = make()
            session.watch(self)
            self.id = session.store.run
            self.folder = session.store.folder
            self._session = session
            self._known.set()
            self._summary = session.drive()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            self._failure = error
        finally:
            self._known.set()
            self._over.set()
            if self._display is not None:
                self._display.close()
            self._ended.put(None)

    # A watcher of its own session.

    def durable(self, ended: Sequence[Ended]) -> None:
        for entry in ended:
            self._ended.put(entry.item.id)

    def moment(self, progress: Progress) -> None:
        self.progress = progress

    # What people use.

    def watch(self, watcher: Watcher) -> None:
        """Somebody wants to see, from now on."""
        if self._session is not None:
            self._session.watch(watcher)

    def show(self, display: Display) -> None:
        """Watch, and close it at the end."""
        self._display = display
        self.watch(display)
        if self._over.is_set():
            display.close()

    def wait(self) -> Summary:
        """Until the run has ended. Ctrl-C stops it cleanly, and then this returns; one that was opened it leaves."""
        while self._thread is not None:
            try:
                # Not `join`: interrupted, it takes a thread that lives for one that has ended.
                self._over.wait()
                break
            except KeyboardInterrupt:
                self.stop()
        if self._failure is not None:
            raise self._failure
        if self._summary is not None:
            return self._summary
        with read_only(self.folder) as store:
            while store.state() in ("queued", "running"):
                Here().pause(0.1)
            return summarize(store)

    def stop(self) -> None:
        """Ask the run to end; `wait` returns when it has."""
        if self._session is not None:
            self._session.stop()
        elif self._summary is None:
            from shoal.api.runs import stop

            stop(self.id)

    def results(self) -> Iterator[dict[str, Any]]:
        """Result rows as items finish, each when it is recorded; ends with the run.

        A row is an item; of an inference, a row of its output. Of a run that was opened, those of `rows`.
        """
        if self._session is None and self._summary is None:
            yield from self.rows()
            return
        with read_only(self.folder) as store:
            kind = _kind(store)
        while (item := self._next_ended()) is not None:
            with read_only(self.folder) as store:
                yield from kind.rows_of(store, item)
        self._ended.put(None)
        if self._failure is not None:
            raise self._failure

    def _next_ended(self) -> str | None:
        try:
            return self._ended.get()
        except KeyboardInterrupt:
            self.stop()
            self.wait()
            raise

    def reports(self, item: str) -> list[dict[str, Any]]:
        """What an item reported while it ran, in order: `attempt`, `step`, `at`, and the metrics of each report."""
        with read_only(self.folder) as store:
            told = store.reports(store.item(item).item.seq)
        return [{"attempt": each.attempt, "step": each.step, "at": each.at, **each.metrics} for each in told]

    @property
    def state(self) -> str:
        if self._summary is not None:
            return self._summary.state
        if isinstance(self._failure, ClusterLost):
            return "interrupted"
        if self._thread is None:
            with read_only(self.folder) as store:
                return str(store.state())
        return "failed" if self._failure is not None else "running"

    @property
    def best(self) -> dict[str, Any] | None:
        """The best row so far, by the workload's objective."""
        with read_only(self.folder) as store:
            found = store.info().best
            return dict(found) if found is not None else None

    def rows(self) -> list[dict[str, Any]]:
        """Every item's row as it is now; of an inference, the rows of its output so far."""
        with read_only(self.folder) as store:
            return list(_kind(store).rows(store))

    def table(self) -> Any:
        """The rows as a pyarrow table (`.to_pandas()` where pandas is installed).

        A column whose values have several types is text, as in results.parquet. Of an inference it is its output.
        """
        with read_only(self.folder) as store:
            return _kind(store).table(store)

    def logs(self, item: str | None = None) -> str:
        """What the run, or one of its items, wrote to its output so far."""
        with read_only(self.folder) as store:
            return b"".join(logs_of(store, item)).decode(errors="replace")

    def files(self, item: str | None = None) -> list[str]:
        """Paths of the files that the items, or one of them, left in SHOAL_ITEM_DIR, in order."""
        with read_only(self.folder) as store:
            names = ("items",) if item is None else ("items", store.item(item).item.id)
        found = os.walk(os.path.join(self.folder, *names))
        return sorted(os.path.join(folder, name) for folder, _, files in found for name in files)

    def __repr__(self) -> str:
        return f"<Run {self.id}: {self.state}>"


def _kind(store: RunStore) -> Kind:
    return kind_of(store.info().kind)

"""The loop inside a worker: takes chunks, runs one item after the other, tells what happened.

It knows no transport: an engine feeds it from a reader thread and sends what it emits, messages as lines.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from shoal.engine.workers import messages, reporting
from shoal.engine.workers.reporting import ForkedReports
from shoal.engine.workers.runner import (
    Broken,
    Cancelled,
    Facts,
    Failed,
    ItemFolder,
    NoRoom,
    Runner,
    Upcoming,
    Work,
)
from shoal.model import ItemState

INTERRUPT = getattr(signal, "SIGRTMIN", signal.SIGUSR2) + (5 if hasattr(signal, "SIGRTMIN") else 0)
ERROR_LENGTH = 2000
BROKEN_STATUS = 71


class Harness:
    """Runs items for one worker. `emit` sends encoded messages at once and may be called from any thread.

    `reports` is the path of a file for what processes that items fork report. `now` is the engine's clock: what is told
    has to be comparable with what the engine says the time is.
    """

    def __init__(
        self,
        emit: Callable[[Sequence[bytes]], None],
        folder: str,
        reports: str,
        log_fd: int,
        now: Callable[[], float],
    ) -> None:
        self._emit = emit
        self._now = now
        self._log_fd = log_fd
        self._home = os.getcwd()
        self._queue: deque[messages.Entry] = deque()
        self._changed = threading.Condition()
        self._ending = False
        self._current: Work | None = None
        self._interruptible = False
        self._items = ItemFolder(os.path.join(folder, "items"), keeps=False)
        self._checkpoints = ItemFolder(os.path.join(folder, "checkpoints"), keeps=True)
        self._forked = ForkedReports(reports)
        self._main = threading.get_ident()
        self._process = os.getpid()

    # Called from the reader thread.

    def take(self, entries: Sequence[messages.Entry]) -> None:
        with self._changed:
            self._queue.extend(entries)
            self._changed.notify()

    def recall(self) -> None:
        with self._changed:
            returned = [(entry.seq, entry.attempt) for entry in self._queue]
            self._queue.clear()
        self._emit([messages.encode(messages.Returned(returned))])

    def end(self) -> None:
        with self._changed:
            self._ending = True
            self._changed.notify()

    def cancel(self, seq: int, attempt: int, state: str, why: str) -> None:
        work = self._current
        if work is None or (work.seq, work.attempt) != (seq, attempt) or work.cancelled:
            return
        work.cancelled = (state, why)
        if work.on_cancel is not None:
            work.on_cancel()
        else:
            self._interrupt()

    def _interrupt(self) -> None:
        """Have the user code that runs end, by an exception in the main thread."""
        signal.pthread_kill(self._main, INTERRUPT)

    # The main thread.

    def loop(self, runner: Runner, facts: Facts) -> None:
        """Run items until told to end. An item's end travels together with the start of the next, and behind facts
        that it has changed."""
        signal.signal(INTERRUPT, self._interrupted)
        told: list[bytes] = []
        while True:
            entry = self._next(block=False)
            if entry is None:
                self.park()
                self._emit(told)
                told = []
                entry = self._next(block=True)
                if entry is None:
                    break
            told = [self.attempt(runner, entry, told)]
            if (news := facts.news()) is not None:
                told.insert(0, messages.encode(messages.Facts(self._now(), news)))
        self.close()

    def park(self) -> None:
        """No item follows at once: to be called before anybody hears of the end of the last one."""
        self._items.park()
        self._checkpoints.park()

    def close(self) -> None:
        """No item follows."""
        self._items.close()
        self._checkpoints.close()

    def _next(self, *, block: bool) -> messages.Entry | None:
        with self._changed:
            while block and not self._queue and not self._ending:
                self._changed.wait()
            return self._queue.popleft() if self._queue else None

    def _upcoming(self) -> Upcoming | None:
        with self._changed:
            if not self._queue:
                return None
            entry = self._queue[0]
        return Upcoming(entry.seq, entry.attempt, entry.counted, entry.params)

    def attempt(self, runner: Runner, entry: messages.Entry, told: list[bytes]) -> bytes:
        """Run one item: the message of its end. `told` is sent together with that of its start."""
        seq, attempt, counted, item, params, texts, checkpoint = entry
        last: dict[str, Any] = {}
        report = self._reporter(seq, attempt, last)
        work = Work(
            seq, attempt, item, params, texts, report=report, counted_attempt=counted, upcoming=self._upcoming
        )
        try:
            self._settle(work, checkpoint)
        except OSError:
            self._emit(told)  # This worker is of no use any more, but what it has done is done.
            raise
        log_start = os.lseek(self._log_fd, 0, os.SEEK_END)
        self._current = work
        reporting.set_current(work)
        began = time.perf_counter()
        told.append(messages.encode(messages.Started(seq, attempt, self._now(), log_start)))
        self._emit(told)
        self._forked.begin(seq, attempt, report)
        state, metrics, error = self._run(runner, work)
        seconds = time.perf_counter() - began
        if os.getpid() != self._process:
            os._exit(0)  # A child that user code forked and let return: only its parent speaks for the item.
        reporting.set_current(None)
        self._current = None
        _flush()
        log_end = os.lseek(self._log_fd, 0, os.SEEK_END)
        self._checkpoints.leave()
        kept = self._items.leave()
        last.update(metrics)
        end = (seconds, log_start, log_end, kept)
        try:
            return messages.encode(messages.Ended(seq, attempt, self._now(), state, last, error, *end))
        except ValueError as unfit:
            return messages.encode(
                messages.Ended(seq, attempt, self._now(), ItemState.FAILED, {}, str(unfit), *end)
            )

    def _settle(self, work: Work, checkpoint: str) -> None:
        """Give the item its folders and its variables."""
        work.folder = self._items.enter(work.id)
        work.log_fd = self._log_fd
        os.chdir(self._home)  # An earlier item may have gone elsewhere.
        environment = os.environ
        environment["SHOAL_ITEM"] = work.id
        environment["SHOAL_ATTEMPT"] = str(work.counted_attempt)
        environment["SHOAL_ITEM_DIR"] = work.folder
        environment["SHOAL_CHECKPOINT_DIR"] = self._checkpoints.enter(checkpoint)

    def _run(self, runner: Runner, work: Work) -> tuple[str, Mapping[str, Any], str | None]:
        try:
            self._interruptible = True
            if work.cancelled:
                raise Cancelled  # It was cancelled before it could be interrupted.
            try:
                result = runner.run(work)
            finally:
                self._interruptible = False
                self._forked.end()
            if work.cancelled:
                return work.cancelled[0], {}, work.cancelled[1]
            return ItemState.DONE, _returned(result), None
        except Cancelled:
            self._interruptible = False  # Asked by a report, it may still be on its way as a signal.
            state, why = work.cancelled or (ItemState.STOPPED, "stopped")
            return state, {}, why
        except NoRoom as error:
            self._leave(messages.Leaving(_sentence(error)), 0)  # What it holds is what the others lack.
        except Broken as error:
            self._leave(messages.Broken(_sentence(error)), BROKEN_STATUS)
        except BaseException as error:  # noqa: BLE001 - whatever user code raises is a failed item, nothing more
            self._interruptible = False
            if work.cancelled:
                return work.cancelled[0], {}, work.cancelled[1]
            return ItemState.FAILED, {}, _sentence(error)
        finally:
            self._interruptible = False

    def _leave(self, last: messages.Farewell, status: int) -> NoReturn:
        """At once, with these last words."""
        self._interruptible = False
        if os.getpid() == self._process:
            _flush()
            self._emit([messages.encode(last)])
        self._exit(status)

    def _exit(self, status: int) -> NoReturn:
        os._exit(status)

    def _reporter(
        self, seq: int, attempt: int, last: dict[str, Any]
    ) -> Callable[[Mapping[str, Any], int | None], None]:
        def send(metrics: Mapping[str, Any], step: int | None) -> None:
            if os.getpid() != self._process:
                self._forked.tell(seq, attempt, metrics, step)
                return
            try:
                told = messages.encode(messages.Progressed(seq, attempt, self._now(), metrics, step))
            except ValueError as unfit:
                raise Failed(str(unfit)) from None
            last.update(metrics)
            self._emit([told])
            work = self._current
            if work is not None and work.cancelled and work.on_cancel is None:
                raise Cancelled

        return send

    def _interrupted(self, _signal: int, _frame: object) -> None:
        if self._interruptible and self._current is not None and self._current.cancelled:
            raise Cancelled


def _flush() -> None:
    """What user code left in its streams belongs to its item's log; it may have closed or replaced them, too."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001 - any object may stand there
            continue


def _returned(result: object) -> dict[str, Any]:
    if result is None:
        return {}
    if not isinstance(result, Mapping):
        raise Failed(f"returned a {type(result).__name__}; expected a dict of metrics, or None")
    try:
        return reporting.plain_metrics(result)
    except TypeError as error:
        raise Failed(str(error)) from None


def _sentence(error: BaseException) -> str:
    """One line for the record; the whole traceback goes to the item's log."""
    if isinstance(error, Failed | NoRoom | Broken):
        return str(error)[:ERROR_LENGTH]
    with suppress(Exception):  # User code may have closed the stream.
        traceback.print_exception(error)
    try:
        text = f"called sys.exit({error.code!r})" if isinstance(error, SystemExit) else str(error)
    except Exception:  # noqa: BLE001 - an exception whose text raises is still only a failed item
        text = "(its message cannot be shown)"
    if isinstance(error, MemoryError):
        text = text or "out of memory; give it more in resources: {memory: ...}, or make it smaller"
    if not isinstance(error, SystemExit):
        text = f"{type(error).__name__}: {text[:ERROR_LENGTH]}{_innermost(error)}"
    return text[:ERROR_LENGTH]


def _innermost(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    return f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})"

"""The inputs of an item, read and prepared in order by one thread or by many, and what came of them so far."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

from shoal.engine.workers.runner import Stopwatch, now
from shoal.errors import FileError
from shoal.work.protocols import Columns, Opened, Prepare, Unreadable

GROUP = 4
"""Inputs that a thread gets at once: handing them out one by one would cost as much as a small one."""
LONGEST_REASON = 500
MOST_THREADS, MOST_LOCAL = 64, 8
REMOTE_THREADS = 8
"""To begin with, where inputs come over a network."""
SLOW_SHARE = 0.05
"""When reading, or waiting for it, takes more of the time than this, more threads read."""
IDLE_SHARE = 0.85
"""Where the cores are busier than this, more threads would not help."""
MOST_AHEAD = 4096
"""Inputs that wait for the model; pictures of 224 x 224 need 150 KB each."""


class Taken(NamedTuple):
    """One input: ready for the model, or why it is not."""

    position: int
    value: Any = None
    error: str | None = None
    size_bytes: int = 0


class Intake:
    """Gives the inputs of one item, each once. For one thread; those that prepare are its own."""

    def __init__(self, opened: Opened, prepare: Prepare, watch: Stopwatch) -> None:
        self.opened = opened
        self.read_bytes = 0
        self.waited_s = 0.0
        """How long the asking thread waited for others."""
        self.is_reading = False
        """Whether the storage is what is waited for, where one thread reads and prepares."""
        self._prepare = prepare
        self._watch = watch
        self._positions = iter(range(len(opened)))
        self._left = len(opened)
        self._coming: deque[Future[list[Taken]]] = deque()
        self._outstanding = 0
        self._ready: deque[Taken] = deque()

    def __len__(self) -> int:
        """How many have not been given yet."""
        return self._left

    @property
    def all_asked_for(self) -> bool:
        """Whether other threads have been given all that is left."""
        return self._outstanding >= self._left

    @property
    def is_busy(self) -> bool:
        """Whether other threads are still at work for it."""
        return bool(self._coming) and not self._coming[-1].done()

    def reach_ahead(self, executor: Executor, depth: int) -> None:
        """Keep `depth` of the next inputs in preparation by other threads."""
        while self._outstanding < depth:
            group = self._next(GROUP)
            if not group:
                return
            self._outstanding += len(group)
            self._coming.append(executor.submit(self._make, group))

    def take(self, count: int) -> list[Taken]:
        """The next inputs, as many as there are. Blocks."""
        taken: list[Taken] = []
        while len(taken) < count:
            if self._ready:
                taken.append(self._ready.popleft())
            elif self._coming:
                began = now()
                self._ready.extend(self._coming.popleft().result())
                self.waited_s += now() - began
            else:
                group = self._next(count - len(taken))
                if not group:
                    break
                self._outstanding += len(group)
                self._ready.extend(self._make(group))
        self._left -= len(taken)
        self._outstanding -= len(taken)
        self.read_bytes += sum(entry.size_bytes for entry in taken)
        return taken

    def skip(self) -> None:
        """Leave out the next input, unread. Only where none is prepared ahead."""
        self._left -= len(self._next(1))

    def give_up(self) -> None:
        """Nobody wants the rest."""
        for future in self._coming:
            future.cancel()

    def _next(self, count: int) -> list[int]:
        return list(islice(self._positions, count))

    def _make(self, positions: Sequence[int]) -> list[Taken]:
        return list(self._each(positions))

    def _each(self, positions: Sequence[int]) -> Iterator[Taken]:
        reading = decoding = 0.0
        for position in positions:
            began = now()
            middle = began
            try:
                self.is_reading = True
                raw = self.opened.read(position)
                self.is_reading = False
                middle = now()
                size_bytes = len(raw) if isinstance(raw, bytes | str) else 0
                yield Taken(position, self._prepare.one(raw), size_bytes=size_bytes)
            except Unreadable as error:
                yield Taken(position, error=str(error)[:LONGEST_REASON])
            except MemoryError:
                yield Taken(position, error="too large for the memory there is")
            except FileError:
                raise  # Nobody can be reached: not the fault of this input.
            except Exception as error:  # noqa: BLE001 - whatever a library makes of it, it is one input
                yield Taken(position, error=f"{type(error).__name__}: {error}"[:LONGEST_REASON])
            reading += middle - began
            decoding += now() - middle
        self._watch.add("reading", reading)
        self._watch.add("decoding", decoding)
        self._watch.count(len(positions))


class Readers:
    """The threads of one worker that read and prepare. Adapts from item to item."""

    def __init__(self, *, remote: bool, on_gpu: bool) -> None:
        self._on_gpu = on_gpu
        self._remote = remote
        self._wanted = REMOTE_THREADS if remote else 0
        self._executor: ThreadPoolExecutor | None = None
        self._size = 0

    def executor(self, threads: int) -> ThreadPoolExecutor | None:
        """Those that prepare while the model runs; None where the thread of the model does it better by itself.

        With one thread for one core, a second would only take turns with the first. A model on a GPU leaves the cores
        to the others.
        """
        size = max(self._wanted, threads if self._on_gpu else threads - 1)
        if size == 0:
            return None
        if self._executor is None or size > self._size:
            if self._executor is not None:
                # What it has been given is still done: it may be of the next item.
                self._executor.shutdown(wait=False)
            self._executor = ThreadPoolExecutor(size, thread_name_prefix="shoal-read")
            self._size = size
        return self._executor

    @property
    def current(self) -> ThreadPoolExecutor | None:
        """Number of threads now."""
        return self._executor

    def depth(self, batch: int) -> int:
        """How many inputs are prepared ahead: another batch, and something for every thread, as memory allows."""
        return min(2 * batch + 4 * self._size, max(batch, MOST_AHEAD))

    def learn(
        self, reading_s: float, decoding_s: float, waited_s: float, busy_s: float, wall_s: float, threads: int
    ) -> None:
        """After an item: where its time went. More threads help where bytes are what is waited for, not cores."""
        waits = (waited_s if self._executor is not None else reading_s) > SLOW_SHARE * wall_s
        for_bytes = self._remote or reading_s > 2 * decoding_s
        if waits and for_bytes and busy_s < IDLE_SHARE * wall_s * max(threads, 1):
            most = MOST_THREADS if self._remote else MOST_LOCAL
            self._wanted = min(most, max(2, 2 * max(self._wanted, self._size)))

    def close(self) -> None:
        """Cancel what no thread has begun."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None


class Collected:
    """Filled batch by batch, in the order of the inputs. A column that a batch does not have is None there."""

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.errors: list[tuple[int, str]] = []
        self._batches: list[tuple[int, dict[str, Any]]] = []

    def fail(self, position: int, reason: str) -> None:
        self.errors.append((position, reason))

    def add(self, positions: Sequence[int], columns: Columns, bad: dict[int, str]) -> None:
        """A batch: its columns, and which of its inputs are errors after all."""
        for index, reason in bad.items():
            self.fail(positions[index], reason)
        good = [index for index in range(len(positions)) if index not in bad]
        self.positions.extend(positions[index] for index in good)
        kept = {name: _chosen(values, good) if bad else _own(values) for name, values in columns.items()}
        self._batches.append((len(good), kept))

    def columns(self) -> dict[str, Any]:
        """All batches together: arrays stay arrays, everything else becomes a list."""
        names = dict.fromkeys(name for _, columns in self._batches for name in columns)
        return {
            name: _joined([columns.get(name, [None] * count) for count, columns in self._batches if count])
            for name in names
        }


def _chosen(values: Any, indices: Sequence[int]) -> Any:
    return values[list(indices)] if hasattr(values, "dtype") else [values[index] for index in indices]


def _own(values: Any) -> Any:
    """A model of the user's may use the same array for its next batch."""
    return values.copy() if hasattr(values, "dtype") else values


def _joined(pieces: list[Any]) -> Any:
    if (
        not pieces
        or not all(hasattr(piece, "dtype") for piece in pieces)
        or len({p.shape[1:] for p in pieces}) > 1
    ):
        return [value for piece in pieces for value in piece]
    import numpy as np

    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

"""The driver's line to the head of a Ray cluster: what is asked there is asked in a thread, so that nothing here
hangs when the head is gone, and that it is gone is noticed before Ray ends the process over it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from shoal.engine.ray import nodes as ray_nodes
from shoal.errors import ClusterLost
from shoal.model import Node

ASK_S = 0.5
"""How often the head is asked which nodes are alive."""
LOST_S = 10.0
"""So long without an answer, and the head is lost. Ray itself ends a driver after 60 s."""
STEP_S = 0.5
"""No single look counts for more silence than this: a driver that was suspended has not listened."""
CLOSE_S = 2.0

Known = dict[str, tuple[str, Node]]
T = TypeVar("T")


class Link:
    """One per engine. Its calls are for the one loop that owns the engine; `ClusterLost` may come out of each.

    `look` gives the nodes that are alive and may get work.
    """

    def __init__(self, look: Callable[[], Known] = ray_nodes.alive) -> None:
        self._look = look
        self.nodes: Known = look()
        """Those that were alive when the head last answered."""
        self.lost = False
        self._answers = 0
        self._seen = 0
        self._silent_s = 0.0
        self._checked_at = time.monotonic()
        self._closed = threading.Event()
        self._hurry = threading.Event()
        self._questions: SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...], Future[Any]] | None] = (
            SimpleQueue()
        )
        # Daemons: a thread that hangs in a call to a head that is gone must not keep the process.
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._watch, self._serve)]
        for thread in self._threads:
            thread.start()

    def check(self) -> None:
        """Raise `ClusterLost` when the head has not answered for too long."""
        now = time.monotonic()
        passed, self._checked_at = now - self._checked_at, now
        answers = self._answers
        if answers != self._seen:
            self._seen, self._silent_s = answers, 0.0
        else:
            self._silent_s += min(passed, STEP_S)
        if self._silent_s > LOST_S:
            self.lost = True
        if self.lost:
            raise ClusterLost(
                f"The head of the Ray cluster has not answered for {LOST_S:g} s.",
                hint="What was done is recorded. Once the cluster is up again: shoal resume RUN",
            )

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """What the function gives or raises; it may ask the head, which `ray` calls do without a time limit."""
        self.check()
        answer: Future[T] = Future()
        self._questions.put((function, arguments, answer))
        while True:
            try:
                return answer.result(STEP_S / 2)
            except TimeoutError:
                if answer.done():
                    raise
                self.check()

    def tell(self, function: Callable[..., object], *arguments: Any) -> None:
        """Have it called after what was asked before, without waiting for it; what it raises is dropped."""
        self._questions.put((function, arguments, Future()))

    def hurry(self) -> None:
        """Something happened to a node: ask now."""
        self._hurry.set()

    def close(self) -> None:
        """Nobody asks the head any more when this returns, unless it hangs: `ray.shutdown` may follow."""
        self._closed.set()
        self._hurry.set()
        self._questions.put(None)
        for thread in self._threads:
            thread.join(0.0 if self.lost else CLOSE_S)

    def _watch(self) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(Exception):  # Ray raises what it likes when the head is gone: no answer.
                self.nodes = self._look()
                self._answers += 1
            self._hurry.wait(ASK_S)
            self._hurry.clear()

    def _serve(self) -> None:
        while (question := self._questions.get()) is not None:
            function, arguments, answer = question
            try:
                answer.set_result(function(*arguments))
            except BaseException as error:  # noqa: BLE001 - whoever asked gets it
                answer.set_exception(error)

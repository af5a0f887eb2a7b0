"""What a worker runs, and what it is given for one item. The same for every engine that runs user code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol


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

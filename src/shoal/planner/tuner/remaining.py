"""How much of a run is left, as far as that is known: nobody knows while inputs are still being found. Pure."""

from __future__ import annotations

import math

UNKNOWN_S = 600.0
"""While it is not known how much is left, there is probably a lot."""


class Remaining:
    """Told of each item that is handed out. Rates are those of all workers together."""

    def __init__(self) -> None:
        self._given = 0
        self._left: int | None = None
        """Inputs that nobody had in hand before the last item, its own among them."""
        self._again_at = math.inf

    def hand_out(self, rows: int, left: int | None) -> None:
        self._given += rows
        self._left = left

    def seconds(self, rate: float) -> float:
        """How long the rest takes."""
        return UNKNOWN_S if self._left is None else self._left / rate

    def surely_s(self, rate: float) -> float:
        """The same, with more care: a run of which the end is not known has as much to come as there was."""
        return self.seconds(rate) if self._left is not None else min(UNKNOWN_S, self._given / rate)

    def is_late(self, rows: int, workers: int) -> bool:
        """Whether others will have nothing to do before this item ends: it would be quicker than it is otherwise."""
        return self._left is not None and workers > 1 and self._left - rows < workers * rows / 2

    def settle(self) -> None:
        """What did not seem to pay may do so once there was twice as much."""
        self._again_at = 2 * self._given if self._left is None else math.inf

    def is_to_look_again(self) -> bool:
        """Whether it is time for that."""
        return self._given >= self._again_at

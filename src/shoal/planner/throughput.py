"""What so many workers did together, from what ended while there were so many: the points of the law of scalability."""

from __future__ import annotations

from shoal.planner.usl import Usl, fit

LEAST_S = 8.0
"""A number of workers is known once it was watched for so long: what ends, ends in lumps."""
SETTLE_S = 2.0
"""After their number changed, what ends was begun before."""


class Throughput:
    """Told of ends as they come, and of the workers that work. Time is whoever calls'."""

    def __init__(self) -> None:
        self._workers = 0
        self._from: float | None = None
        """Since when what ends counts for this number of workers."""
        self._at = 0.0
        self._watched: dict[int, tuple[float, float]] = {}
        """By the number of workers: what they did, and seconds."""

    def tell(self, now: float, workers: int, amount: float, began: float | None = None) -> None:
        """Since the last call, so much ended; so many workers work now.

        Of what `began` before it counts, only the part that was done since does.
        """
        if workers != self._workers or self._from is None:
            self._workers, self._from, self._at = workers, now + SETTLE_S, now + SETTLE_S
            return
        if now < self._from or workers == 0:
            return
        if began is not None and began < self._from:
            amount *= (now - self._from) / (now - began)
        done, seconds = self._watched.get(workers, (0.0, 0.0))
        self._watched[workers] = (done + amount, seconds + now - self._at)
        self._at = now

    def points(self) -> dict[int, float]:
        """What so many workers do a second, for numbers that were watched for long enough."""
        return {
            workers: done / seconds
            for workers, (done, seconds) in sorted(self._watched.items())
            if seconds >= LEAST_S and done > 0
        }

    def law(self) -> Usl | None:
        """How throughput grows with workers; None while fewer than two numbers of them were watched."""
        points = self.points()
        return fit(points.items()) if len(points) > 1 else None

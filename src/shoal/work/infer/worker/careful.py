"""An item at which attempts ended: gone through one input at a time, so that the one they end at can be left out."""

from __future__ import annotations

from shoal.engine.workers.runner import Broken, Work
from shoal.model.advice import AS_GIVEN, Setting
from shoal.units import format_seconds
from shoal.work.infer.worker.batch_prediction import Predicting
from shoal.work.infer.worker.collected import Collected
from shoal.work.infer.worker.intake import Intake
from shoal.work.infer.worker.pulse import Pulse
from shoal.work.outputs import NOWHERE, Crumbs, Ends

ENOUGH = 2
"""Attempts that ended at the same input, before it is blamed: a single one may have ended of something else."""


def go_carefully(
    intake: Intake, predicting: Predicting, setting: Setting, crumbs: Crumbs, work: Work, pulse: Pulse
) -> Collected:
    """All inputs but those that are to blame. `setting` is how the model is to be run, with a batch of one.

    Each input has the time that an item has otherwise: an attempt whose time is up has spent it at the one where it is.
    """
    collected = Collected()
    predicting.forget()
    suspects = crumbs.suspects(work.seq)
    # Where attempts are known to end at one, they may at others, too, and attempts are few.
    enough = 1 if any(ends.attempts >= ENOUGH for ends in suspects.values()) else ENOUGH
    trail = _Trail(crumbs, work, intake)
    if setting.runtime == AS_GIVEN:
        predicting.load(setting)  # Who dies of that dies of no input.
    has_loaded = setting.runtime == AS_GIVEN
    pulse.beat()
    try:
        for position in range(len(intake)):
            ends = suspects.get(position, Ends())
            if ends.attempts >= enough:
                intake.skip()
                collected.fail(position, _reason(ends, pulse.timeout_s))
                continue
            trail.at(position)
            taken = intake.take(1)
            if not has_loaded and taken[0].error is None:
                trail.at(NOWHERE)
                predicting.load(setting, taken)
                has_loaded = True
                pulse.beat()
                trail.at(position)
            predicting.run(setting, taken, collected)
            pulse.beat()
        trail.position = NOWHERE
    except Broken:
        raise  # It dies where it is, and the next attempt shall see that.
    except BaseException:
        trail.end()
        raise
    trail.end()
    return collected


class _Trail:
    """Where this attempt is, for the next one to know."""

    def __init__(self, crumbs: Crumbs, work: Work, intake: Intake) -> None:
        self.position = NOWHERE
        self._crumbs = crumbs
        self._work = work
        self._intake = intake

    def at(self, position: int) -> None:
        self.position = NOWHERE  # Until that is written, which may take long by itself.
        self._crumbs.at(self._work.seq, self._work.attempt, position)
        self.position = position

    def end(self) -> None:
        """Its process lives: the input where it is can only be blamed for the time it took, once it had been read."""
        is_late = self._work.cancelled is not None and self._work.cancelled[0] == "failed"
        position = self.position if is_late and not self._intake.is_reading else NOWHERE
        self._crumbs.at(self._work.seq, self._work.attempt, position, timed_out=is_late)


def _reason(ends: Ends, timeout_s: float | None) -> str:
    times = "once" if ends.attempts == 1 else f"{ends.attempts} times"
    if ends.timed_out == ends.attempts and timeout_s is not None:
        return f"timed out {times}: it takes longer than limits.timeout, {format_seconds(timeout_s)}"
    died = f"{ends.attempts} worker{'' if ends.attempts == 1 else 's'} died of it"
    return died if timeout_s is None else f"{died}, or had to be killed as it timed out"

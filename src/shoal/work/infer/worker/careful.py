"""An item at which workers died: gone through one input at a time, so that the one that kills them can be left out."""

from __future__ import annotations

from shoal.model.tuning import Setting
from shoal.work.infer.outputs import Crumbs
from shoal.work.infer.worker.collecting import Collected
from shoal.work.infer.worker.intake import Intake
from shoal.work.infer.worker.predicting import Predicting

DEATHS = 2
"""Workers that died at the same input, before it is blamed: a single one may have died of something else."""

NOWHERE = -1


def go_carefully(
    intake: Intake, predicting: Predicting, setting: Setting, crumbs: Crumbs, seq: int, attempt: int
) -> Collected:
    """All inputs but those that are to blame. `setting` is the model as given, with a batch of one."""
    collected = Collected()
    predicting.forget()
    deaths = crumbs.suspects(seq)
    del deaths[NOWHERE]  # Those ended by themselves.
    # Where one is known to kill workers, others may, too, and attempts are few.
    enough = 1 if any(count >= DEATHS for count in deaths.values()) else DEATHS
    predicting.load(setting)  # Who dies of that dies of no input.
    try:
        for position in range(len(intake)):
            if deaths[position] >= enough:
                intake.skip()
                collected.fail(
                    position, f"{deaths[position]} worker{'' if deaths[position] == 1 else 's'} died of it"
                )
                continue
            crumbs.at(seq, attempt, position)
            predicting.run(setting, intake.take(1), collected)
    finally:
        # It did not die of the last one, be it that all are done or that somebody stopped it.
        crumbs.at(seq, attempt, NOWHERE)
    return collected

"""A curve for each trial; what it went on from is a metric. PACE is the seconds that a step takes.

Trials from HANG_FROM on hang after their third step.
"""

import os
import time
from pathlib import Path

import shoal

STEPS = 8


def train(lr, layers):
    with open("ran.txt", "a") as file:
        file.write(f"{os.environ['SHOAL_ITEM']} {lr!r}\n")
    saved = Path(os.environ["SHOAL_CHECKPOINT_DIR"], "step.txt")
    owner, first = saved.read_text().split() if saved.exists() else (repr(lr), "0")
    print("lr", lr, "goes on after step", first)
    for step in range(int(first) + 1, STEPS + 1):
        time.sleep(float(os.environ.get("PACE", "0")))
        shoal.report(accuracy=1 - abs(lr - 0.01) ** 0.5 - 0.3 / step - 0.01 * layers, step=step)
        saved.write_text(f"{lr!r} {step}")
        while step == 3 and int(os.environ["SHOAL_ITEM"][1:]) >= int(os.environ.get("HANG_FROM", "1000")):
            time.sleep(0.1)
    return {"went_on_after": int(first), "is_own": owner == repr(lr)}

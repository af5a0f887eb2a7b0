"""What an item does in a workload that `KindContract` drives. Loaded in workers and by commands: needs no pytest."""

from __future__ import annotations

import os
import sys
import time

BEGUN = "begun"
"""A line for each time that an item was begun: its id."""
HOLD = "hold"
"""While this file is there, items but the first wait."""
FAIL = "fail"
"""While this file is there, the second item fails."""
LEFT = "left.txt"


def perform(number: int) -> None:
    """Item `number`, counted from 1, as the files in the current folder tell it; it is the workload's folder."""
    item = os.environ["SHOAL_ITEM"]
    with open(BEGUN, "a") as file:
        file.write(f"{item}\n")
    sys.stdout.write(f"hello from {item}\n")
    sys.stdout.flush()
    with open(os.path.join(os.environ["SHOAL_ITEM_DIR"], LEFT), "w") as file:
        file.write(item)
    while number > 1 and os.path.exists(HOLD):
        time.sleep(0.01)
    if number == 2 and os.path.exists(FAIL):
        raise RuntimeError("told to fail")

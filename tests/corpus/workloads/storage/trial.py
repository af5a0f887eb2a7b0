"""Trials with files and checkpoints. With HANG_AT in the environment that one saves its checkpoint, and hangs."""

import os
import time
from pathlib import Path


def main(x):
    with open("ran.txt", "a") as file:
        file.write(f"{x}\n")
    print("trial", x)
    checkpoint = Path(os.environ["SHOAL_CHECKPOINT_DIR"], "step.txt")
    restored = checkpoint.read_text() if checkpoint.exists() else "nothing"
    checkpoint.write_text(f"{x} saved this")
    Path(os.environ["SHOAL_ITEM_DIR"], "left.txt").write_text(f"left by {x}\n")
    while str(x) == os.environ.get("HANG_AT"):
        time.sleep(0.1)
    return {"y": 10 * x, "restored": restored}

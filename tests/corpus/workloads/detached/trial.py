"""What a detached run does, on the head of its cluster."""

import os
from pathlib import Path


def main(x):
    print("trial", x, "on the head")
    Path(os.environ["SHOAL_ITEM_DIR"], "left.txt").write_text(f"left by {x}\n")
    return {"y": 10 * x}

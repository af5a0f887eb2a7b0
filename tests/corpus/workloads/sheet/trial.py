"""A trial that leaves a file and a checkpoint; the flaky one fails once, and goes on from its checkpoint."""

import os
import sys
from pathlib import Path

import shoal

name, lr, note = sys.argv[1], float(sys.argv[2]), sys.argv[3]
item, attempt = os.environ["SHOAL_ITEM"], os.environ["SHOAL_ATTEMPT"]
with open("ran.txt", "a") as file:
    file.write(f"{item} {attempt}\n")
print("name", name, "note", repr(note))
checkpoint = Path(os.environ["SHOAL_CHECKPOINT_DIR"], "step.txt")
restored = checkpoint.read_text() if checkpoint.exists() else "nothing"
checkpoint.write_text(f"{item} saved this")
if name == "flaky" and attempt == "1":
    print("no luck this time")
    sys.exit(3)
for step in (1, 2):
    shoal.report(progress=step / 2, step=step)
shoal.report(restored=restored)
Path(os.environ["SHOAL_ITEM_DIR"], "weights.txt").write_text(f"weights of {name}\n")
print(f"loss {1 / (1 + lr):.4f}")

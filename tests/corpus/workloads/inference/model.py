"""The length of a line; every seventeenth cannot be used. With HANG_AT in the environment it stops at that line."""

import os
import time

import numpy as np


class Length:
    def __call__(self, batch):
        for line in batch:
            number = int(line.split()[1])
            while str(number) == os.environ.get("HANG_AT"):
                time.sleep(0.1)
            if number % 17 == 16:
                raise ValueError(f"line {number} is no good")
        return {"length": np.array([len(line) for line in batch]), "text": list(batch)}

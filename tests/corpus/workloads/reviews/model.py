"""The length of a line, in little time, most of which is for the batch."""

import time

import numpy as np


class Length:
    def __call__(self, batch):
        time.sleep(0.002 + 0.0002 * len(batch))
        return {"length": np.array([len(line) for line in batch])}

"""The example of a sweep that `shoal init` writes: small, complete, and run by the tests."""

from __future__ import annotations

_SWEEP = """\
# Every row of the table becomes a trial. Try it: shoal run sweep.yaml
# Other ways, and all keys: shoal schema sweep
kind: sweep
name: first-sweep
trials:
  table: experiments.csv
  # grid: {lr: [0.03, 0.3], steps: [50, 200]}
run:
  command: python trial.py --lr {lr} --steps {steps}
metrics:                              # the last match in what the script prints counts
  accuracy: 'accuracy: ([0-9.]+)'
  loss: 'loss: ([0-9.]+)'
objective: {metric: accuracy, goal: max}
resources: {cpu: 1}
limits: {timeout: 5m, retries: 1}
"""

_TABLE = """\
lr,steps
0.01,50
0.01,200
0.1,50
0.1,200
1.0,50
1.0,200
"""

_TRIAL = '''\
"""Learn to tell two clouds of points apart, in plain Python: what a trial of sweep.yaml runs."""

import argparse
import math
import random


def points(count, seed):
    """Points of two classes, whose clouds overlap a little."""
    chance = random.Random(seed)
    for _ in range(count):
        label = chance.randrange(2)
        yield chance.gauss(2.0 * label, 1.0), chance.gauss(1.0 - label, 1.0), label


def predict(weights, x, y):
    """The probability that a point is of the second class."""
    score = weights[0] * x + weights[1] * y + weights[2]
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, score))))


def train(rows, lr, steps):
    weights = [0.0, 0.0, 0.0]
    for _ in range(steps):
        gradient = [0.0, 0.0, 0.0]
        for x, y, label in rows:
            error = predict(weights, x, y) - label
            gradient = [g + error * value for g, value in zip(gradient, (x, y, 1.0))]
        weights = [w - lr * g / len(rows) for w, g in zip(weights, gradient)]
    return weights


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--steps", type=int, required=True)
    options = parser.parse_args()
    weights = train(list(points(500, seed=1)), options.lr, options.steps)
    unseen = list(points(500, seed=2))
    found = [predict(weights, x, y) for x, y, _ in unseen]
    right = sum((p > 0.5) == bool(label) for p, (_, _, label) in zip(found, unseen))
    loss = -sum(math.log(p if label else 1.0 - p) for p, (_, _, label) in zip(found, unseen))
    print(f"loss: {loss / len(unseen):.4f}")
    print(f"accuracy: {right / len(unseen):.4f}")


if __name__ == "__main__":
    main()
'''

SAMPLES = {"sweep.yaml": _SWEEP, "experiments.csv": _TABLE, "trial.py": _TRIAL}

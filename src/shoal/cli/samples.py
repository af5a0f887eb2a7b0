"""The examples that `shoal init` writes: small, complete, and run by the tests."""

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

_CLUSTER = """\
# Three virtual nodes on this machine. Try it: shoal run sweep.yaml --cluster cluster.yaml
# All keys: shoal schema cluster
kind: cluster
name: three
provider: local
engine: embedded     # nothing to start; without this line, real Ray nodes
nodes:
  - {host: node0, head: true, cpu: 1}
  - {host: node1, cpu: 1}
  - {host: node2, cpu: 1}
"""

_INFER = """\
# Every line of the text is an input, and gets a row of the output. Try it: shoal run infer.yaml
# Images, ONNX and TorchScript models, and all keys: shoal schema infer
kind: infer
name: first-inference
input: {text: reviews.txt}          # images, parquet, jsonl, text; a path, a pattern, s3://, hdfs://
model: {function: "mine:Predictor"} # or onnx: model.onnx, torchscript: model.pt
output: out/                        # Parquet parts; out/errors.parquet has what could not be used
tune: auto                          # or {batch: 8, workers: 2, threads: 1}
limits: {errors: 1%}
"""

_REVIEWS = """\
What a wonderful little machine, I love it.
It broke on the first day. Awful.
Good value, and great support.
I hate the noise it makes.
It works.
The worst purchase of the year, a bad joke.
Lovely colours, nice and quiet, great fun!
"""

_PREDICTOR = '''\
"""Tells by its words whether a review is friendly: what infer.yaml runs. A real one would load a model."""

import re

GOOD = {"fun", "good", "great", "lovely", "love", "nice", "wonderful"}
BAD = {"awful", "bad", "broke", "hate", "noise", "worst"}


class Predictor:
    """Made once in each worker, then called with batches."""

    def __init__(self):
        self.words = re.compile(r"\\w+")

    def __call__(self, batch):
        """One row of output for each input, as a dict."""
        return [self.judge(text) for text in batch]

    def judge(self, text):
        found = {word.lower() for word in self.words.findall(text)}
        score = len(found & GOOD) - len(found & BAD)
        return {"text": text, "label": "good" if score > 0 else "bad" if score < 0 else "unsure", "score": score}
'''

SAMPLES = {
    "sweep": {"sweep.yaml": _SWEEP, "experiments.csv": _TABLE, "trial.py": _TRIAL},
    "infer": {"infer.yaml": _INFER, "reviews.txt": _REVIEWS, "mine.py": _PREDICTOR},
    "cluster": {"cluster.yaml": _CLUSTER},
}
"""Of each kind: the files, by name. The first is the one to give to Shoal."""

NEXT = {
    "sweep": "Run it with: shoal run sweep.yaml",
    "infer": "Run it with: shoal run infer.yaml",
    "cluster": "Use it with: shoal run FILE --cluster cluster.yaml",
}

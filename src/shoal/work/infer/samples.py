"""The example of an inference that `shoal init` writes: small, complete, and run by the tests."""

from __future__ import annotations

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

SAMPLES = {"infer.yaml": _INFER, "reviews.txt": _REVIEWS, "mine.py": _PREDICTOR}

"""Models 2 and 3: learned cell embeddings under a feed-forward or an LSTM net, in plain numpy.

It holds the weights and their gradients. The loop over epochs is in `predict.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from optimizers import Arrays, Floats
from samples import Dataset, Samples

Cache = list[tuple[Floats, ...]]


def _sigmoid(x: Floats) -> Floats:
    return np.float32(1) / (np.float32(1) + np.exp(-np.clip(x, -30, 30)))


# Each activation with its slope, given its output.
ACTIVATIONS: dict[str, tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]] = {
    "tanh": (np.tanh, lambda y: 1 - y**2),
    "relu": (lambda x: np.maximum(x, 0), lambda y: (y > 0).astype(np.float32)),
    "sigmoid": (_sigmoid, lambda y: y * (1 - y)),
}


def _crossentropy(probabilities: Floats, truth: Floats) -> Floats:
    return probabilities - truth


def _mse(probabilities: Floats, truth: Floats) -> Floats:
    gap = probabilities - truth
    return probabilities * (gap - (probabilities * gap).sum(axis=1, keepdims=True))


# Each loss as its gradient with respect to the scores under the softmax.
LOSSES = {"crossentropy": _crossentropy, "mse": _mse}


@dataclass(frozen=True)
class Shape:
    """What the sheet says of a net's form."""

    embed: int
    hidden: int
    activation: str
    dropout: float


class FeedForward:
    """One dense layer over all the embedded cells side by side."""

    def __init__(self, shape: Shape, steps: int, weights: Arrays, rng: np.random.Generator) -> None:
        self.activate, self.slope = ACTIVATIONS[shape.activation]
        self.weights = weights
        weights["dense"] = _random(rng, (steps + 1) * shape.embed, shape.hidden)
        weights["dense_bias"] = np.zeros(shape.hidden, np.float32)

    def forward(self, cells: Floats, situation: Floats) -> tuple[Floats, Cache]:
        flat = np.concatenate([cells.reshape(len(cells), -1), situation], axis=1)
        output = self.activate(flat @ self.weights["dense"] + self.weights["dense_bias"])
        return output, [(flat, output)]

    def backward(self, d_output: Floats, cache: Cache, gradients: Arrays) -> tuple[Floats, Floats]:
        ((flat, output),) = cache
        d_sum = d_output * self.slope(output)
        gradients["dense"] = flat.T @ d_sum
        gradients["dense_bias"] = d_sum.sum(axis=0)
        d_flat = d_sum @ self.weights["dense"].T
        embed = self.weights["cells"].shape[1]
        return d_flat[:, :-embed].reshape(len(flat), -1, embed), d_flat[:, -embed:]


class Recurrent:
    """An LSTM that reads the cells one by one, oldest first, and the situation with each."""

    def __init__(self, shape: Shape, steps: int, weights: Arrays, rng: np.random.Generator) -> None:
        self.activate, self.slope = ACTIVATIONS[shape.activation]
        self.weights, self.hidden = weights, shape.hidden
        weights["gates"] = _random(rng, 2 * shape.embed + shape.hidden, 4 * shape.hidden)
        weights["gates_bias"] = np.zeros(4 * shape.hidden, np.float32)
        weights["gates_bias"][: shape.hidden] = 1.0  # remember at first

    def forward(self, cells: Floats, situation: Floats) -> tuple[Floats, Cache]:
        output = np.zeros((len(cells), self.hidden), np.float32)
        memory, cache = output, []
        for step in range(cells.shape[1]):
            read = np.concatenate([cells[:, step], situation, output], axis=1)
            sums = read @ self.weights["gates"] + self.weights["gates_bias"]
            keep, write, show = np.split(_sigmoid(sums[:, : 3 * self.hidden]), 3, axis=1)
            news = self.activate(sums[:, 3 * self.hidden :])
            before, memory = memory, keep * memory + write * news
            shown = self.activate(memory)
            output = show * shown
            cache.append((read, keep, write, show, news, before, shown))
        return output, cache

    def backward(self, d_output: Floats, cache: Cache, gradients: Arrays) -> tuple[Floats, Floats]:
        embed = self.weights["cells"].shape[1]
        gradients["gates"] = np.zeros_like(self.weights["gates"])
        gradients["gates_bias"] = np.zeros_like(self.weights["gates_bias"])
        d_memory, d_situation, d_cells = np.zeros_like(d_output), np.float32(0), []
        for step in reversed(cache):
            d_sums, d_memory = self._through_gates(d_output, d_memory, step)
            gradients["gates"] += step[0].T @ d_sums
            gradients["gates_bias"] += d_sums.sum(axis=0)
            d_read = d_sums @ self.weights["gates"].T
            d_cells.append(d_read[:, :embed])
            d_situation = d_situation + d_read[:, embed : 2 * embed]
            d_output = d_read[:, 2 * embed :]
        return np.stack(d_cells[::-1], axis=1), d_situation

    def _through_gates(
        self, d_output: Floats, d_memory: Floats, step: tuple[Floats, ...]
    ) -> tuple[Floats, Floats]:
        _, keep, write, show, news, before, shown = step
        d_memory = d_memory + d_output * show * self.slope(shown)
        d_keep = d_memory * before * keep * (1 - keep)
        d_write = d_memory * news * write * (1 - write)
        d_show = d_output * shown * show * (1 - show)
        d_news = d_memory * write * self.slope(news)
        return np.concatenate([d_keep, d_write, d_show, d_news], axis=1), d_memory * keep


class Network:
    """Cells, users, hours and kinds of day become vectors; the next cell is the one whose vector fits best.

    To each score it adds how often the user was there, with a learned weight: it starts as that baseline.
    """

    def __init__(
        self, encoder: type[FeedForward] | type[Recurrent], shape: Shape, data: Dataset, seed: int
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.dropout = shape.dropout
        self.habits = _habits(data)
        sizes = {"cells": data.cells, "users": data.users, "hours": 24, "workdays": 2}
        self.weights: Arrays = {name: self._vectors(size, shape.embed) for name, size in sizes.items()}
        self.encoder = encoder(shape, data.train.context.shape[1], self.weights, self.rng)
        self.weights["out"] = _random(self.rng, shape.hidden, shape.embed)
        self.weights["next"] = self._vectors(data.cells, shape.embed)
        self.weights["bias"] = np.zeros(data.cells, np.float32)
        self.weights["trust"] = np.ones(1, np.float32)

    def _vectors(self, count: int, embed: int) -> Floats:
        return self.rng.normal(0, 0.3, size=(count, embed)).astype(np.float32)

    def predict(self, samples: Samples, batch: int = 512) -> NDArray[np.int64]:
        chunks = [
            samples.pick(np.arange(at, min(at + batch, len(samples)))) for at in range(0, len(samples), batch)
        ]
        return np.concatenate(
            [self._scores(chunk, self._encode(chunk)[0])[0].argmax(axis=1) for chunk in chunks]
        )

    def gradients(self, samples: Samples, loss: str) -> tuple[Arrays, float]:
        """The gradients of one batch, and its mean cross-entropy."""
        encoded, cache = self._encode(samples)
        kept = _mask(self.rng, encoded.shape, self.dropout)
        scores, vector = self._scores(samples, encoded * kept)
        probabilities = _softmax(scores)
        rows = np.arange(len(samples))
        surprise = -np.log(probabilities[rows, samples.target] + 1e-12).mean()
        truth = np.zeros_like(probabilities)
        truth[rows, samples.target] = 1
        d_scores = LOSSES[loss](probabilities, truth) / np.float32(len(samples))
        return self._backward(samples, d_scores, vector, encoded, kept, cache), float(surprise)

    def _encode(self, samples: Samples) -> tuple[Floats, Cache]:
        w = self.weights
        situation = w["users"][samples.user] + w["hours"][samples.hour] + w["workdays"][samples.workday]
        return self.encoder.forward(w["cells"][samples.context], situation)

    def _scores(self, samples: Samples, encoded: Floats) -> tuple[Floats, Floats]:
        vector = encoded @ self.weights["out"]
        scores = vector @ self.weights["next"].T + self.weights["bias"]
        scores += self.weights["trust"] * self.habits[samples.user]
        scores[np.arange(len(samples)), samples.context[:, -1]] = -1e9  # a move never ends where it began
        return scores, vector

    def _backward(
        self, samples: Samples, d_scores: Floats, vector: Floats, encoded: Floats, kept: Floats, cache: Cache
    ) -> Arrays:
        w = self.weights
        d_vector = d_scores @ w["next"]
        gradients: Arrays = {
            "next": d_scores.T @ vector,
            "bias": d_scores.sum(axis=0),
            "trust": (d_scores * self.habits[samples.user]).sum(keepdims=True)[0],
            "out": (encoded * kept).T @ d_vector,
        }
        d_encoded = (d_vector @ w["out"].T) * kept
        d_cells, d_situation = self.encoder.backward(d_encoded, cache, gradients)
        gradients["cells"] = _scatter(
            w["cells"], samples.context.ravel(), d_cells.reshape(-1, d_cells.shape[-1])
        )
        for name, index in (("users", samples.user), ("hours", samples.hour), ("workdays", samples.workday)):
            gradients[name] = _scatter(w[name], index, d_situation)
        return gradients


def _random(rng: np.random.Generator, rows: int, columns: int) -> Floats:
    return (rng.normal(0, 1, size=(rows, columns)) * np.sqrt(1 / rows)).astype(np.float32)


def _mask(rng: np.random.Generator, shape: tuple[int, ...], dropout: float) -> Floats:
    """Which numbers to leave out, and by how much to raise the others so that their sum stays."""
    return (rng.random(shape, np.float32) >= dropout).astype(np.float32) / np.float32(1 - dropout)


def _scatter(like: Floats, index: NDArray[np.int64], values: Floats) -> Floats:
    gathered = np.zeros_like(like)
    np.add.at(gathered, index, values)
    return gathered


def _softmax(scores: Floats) -> Floats:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _habits(data: Dataset) -> Floats:
    """The logarithm of how often each user went to each cell, softened by how often everyone did."""
    counts = np.zeros((data.users, data.cells), np.float32)
    np.add.at(counts, (data.train.user, data.train.target), 1)
    everyone = (counts.sum(axis=0) + 0.1) / (counts.sum() + 0.1 * data.cells)
    shares = (counts + 5 * everyone) / (counts.sum(axis=1, keepdims=True) + 5)
    return np.log(shares).astype(np.float32)

"""Trains one model on one dataset and prints how often it names the next cell: a row of the sheet, a trial.

Run it as a script, or call `trial`. It needs numpy and nothing else; under Shoal it also reports each epoch.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np
from markov import Chain
from network import ACTIVATIONS, LOSSES, FeedForward, Network, Recurrent, Shape
from numpy.typing import NDArray
from optimizers import OPTIMIZERS, Optimizer
from samples import DAY_TYPES, UNKNOWN, DataError, Dataset, Samples, build, load

try:
    from shoal import report
except ImportError:  # the script is of use without Shoal, too

    def report(**metrics: float) -> None:
        """Nobody listens."""


MODELS = {1: "Markov chain", 2: "feed-forward net", 3: "LSTM"}


def _setting(default: Any, help_text: str, *choices: Any) -> Any:
    return field(default=default, metadata={"help": help_text, "choices": choices})


@dataclass(frozen=True)
class Settings:
    """A row of the sheet. The fields are the options of the script; a blank is the default."""

    data: str = _setting("all", "all, user-1 .. user-6, real, or the path of a CSV file or its folder")
    day_type: str = _setting("all", "the days to use", *DAY_TYPES)
    model: int = _setting(2, "1 Markov chain, 2 feed-forward net, 3 LSTM", *MODELS)
    steps: int = _setting(3, "how many cells to look back")
    epochs: int = _setting(10, "at most so many")
    embed: int = _setting(24, "size of a cell's vector")
    hidden: int = _setting(48, "size of the hidden layer")
    activation: str = _setting("tanh", "of the hidden layer", *ACTIVATIONS)
    optimizer: str = _setting("adam", "how to follow the gradient", *OPTIMIZERS)
    loss: str = _setting("crossentropy", "what to make small", *LOSSES)
    lr: float = _setting(0.003, "learning rate")
    beta1: float = _setting(0.9, "memory of the gradient")
    beta2: float = _setting(0.999, "memory of its square")
    batch: int = _setting(64, "samples in a step of the optimizer")
    dropout: float = _setting(0.1, "share of the hidden layer left out while training")
    patience: int = _setting(3, "epochs without a better accuracy before it stops")
    seed: int = _setting(1, "of the weights and the order of samples; the data has its own")

    def problems(self) -> list[str]:
        """Everything that is wrong with the values, not only the first."""
        found = [
            f"{one.name} must be one of {', '.join(map(str, one.metadata['choices']))}, but got {value!r}"
            for one in fields(self)
            if one.metadata["choices"] and (value := getattr(self, one.name)) not in one.metadata["choices"]
        ]
        for name in ("steps", "epochs", "embed", "hidden", "batch", "patience"):
            if getattr(self, name) < 1:
                found.append(f"{name} must be at least 1, but got {getattr(self, name)}")
        for name in ("beta1", "beta2", "dropout"):
            if not 0 <= getattr(self, name) < 1:
                found.append(f"{name} must be from 0 to below 1, but got {getattr(self, name)}")
        if not self.lr > 0:
            found.append(f"lr must be above 0, but got {self.lr}")
        return found


class Learner(Protocol):
    """Something that learns epoch by epoch and can be asked at any time."""

    def epoch(self, number: int) -> str:
        """Learn for one more epoch; numbers count from 1. Returns a word on it for the log."""

    def predict(self, samples: Samples) -> NDArray[np.int64]:
        """The cell that each sample most likely moves to."""


class NetworkLearner:
    """One of the nets, its optimizer, and a pass over the shuffled training part an epoch."""

    def __init__(self, settings: Settings, data: Dataset) -> None:
        encoder = FeedForward if settings.model == 2 else Recurrent
        shape = Shape(settings.embed, settings.hidden, settings.activation, settings.dropout)
        self.network = Network(encoder, shape, data, settings.seed)
        self.optimizer = Optimizer(settings.optimizer, settings.lr, settings.beta1, settings.beta2)
        self.order = np.random.default_rng(settings.seed)
        self.train, self.batch, self.loss = data.train, settings.batch, settings.loss
        self.predict = self.network.predict

    def epoch(self, number: int) -> str:
        shuffled = self.order.permutation(len(self.train))
        surprises = []
        for start in range(0, len(shuffled), self.batch):
            samples = self.train.pick(shuffled[start : start + self.batch])
            gradients, surprise = self.network.gradients(samples, self.loss)
            self.optimizer.update(self.network.weights, gradients)
            surprises.append(surprise)
        return f"crossentropy {np.mean(surprises):.4f}"


def _learner(settings: Settings, data: Dataset) -> Learner:
    return Chain(data.train) if settings.model == 1 else NetworkLearner(settings, data)


def accuracy(predicted: NDArray[np.int64], samples: Samples) -> float:
    """The share of moves foretold; a move to a cell that was never seen before always counts as missed."""
    return float(np.mean((predicted == samples.target) & (samples.target != UNKNOWN)))


def baselines(data: Dataset, samples: Samples) -> dict[str, float]:
    """What can be had without a model."""
    train = data.train
    everyone = np.full(len(samples), np.bincount(train.target).argmax())
    favourite = np.array(
        [np.bincount(train.target[train.user == user]).argmax() for user in range(data.users)]
    )
    guesses = {"most frequent cell": everyone, "user's most frequent cell": favourite[samples.user]}
    if samples.context.shape[1] > 1:
        guesses["back to the cell before"] = samples.context[:, -2]
    return {name: accuracy(guess, samples) for name, guess in guesses.items()}


def run(settings: Settings, say: Callable[[str], None] = print) -> dict[str, float]:
    """Train, say how it goes, and give the accuracies of the epoch that did best on the validation part."""
    if problems := settings.problems():
        raise ValueError("; ".join(problems))
    data = build(load(settings.data), settings.steps, settings.day_type)
    say(f"{MODELS[settings.model]} on {settings.data}: {len(data.train)} moves to learn, {data.cells} cells")
    for name, value in baselines(data, data.test).items():
        say(f"baseline on the test part, {name}: {value:.4f}")
    validation, test = _train(settings, data, say)
    report(accuracy=validation, test_accuracy=test)
    return {"accuracy": validation, "test_accuracy": test}


def _train(settings: Settings, data: Dataset, say: Callable[[str], None]) -> tuple[float, float]:
    learner = _learner(settings, data)
    best, best_test, best_epoch = -1.0, 0.0, 0
    for epoch in range(1, settings.epochs + 1):
        started = time.perf_counter()
        word = learner.epoch(epoch)
        reached = accuracy(learner.predict(data.validation), data.validation)
        seconds = time.perf_counter() - started
        say(f"epoch {epoch}/{settings.epochs}: {word}, accuracy {reached:.4f}, {seconds:.2f} s")
        report(accuracy=reached, step=epoch)
        if reached > best:
            best, best_epoch = reached, epoch
            best_test = accuracy(learner.predict(data.test), data.test)
        elif epoch - best_epoch >= settings.patience:
            say(f"no better for {settings.patience} epochs: stopped")
            break
    return best, best_test


def trial(data: str = "user-5", epochs: int = 15, **row: Any) -> dict[str, float]:
    """A row as keyword arguments, in the names of `Settings`: for a sweep over a function."""
    given = {name: value for name, value in row.items() if value is not None}
    return run(Settings(data=data, epochs=epochs, **given))


def _parse(arguments: Sequence[str] | None) -> tuple[argparse.ArgumentParser, Settings]:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    for one in fields(Settings):
        shown = f"{one.metadata['help']} (default: {one.default})"
        parser.add_argument(f"--{one.name.replace('_', '-')}", type=_blank_or(type(one.default)), help=shown)
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    return parser, Settings(**given)


def _blank_or(kind: type) -> Callable[[str], Any]:
    """Reads an option; a blank cell of the sheet arrives as an empty text."""

    def read(text: str) -> Any:
        return kind(text) if text.strip() else None

    read.__name__ = kind.__name__
    return read


def main(arguments: Sequence[str] | None = None) -> int:
    parser, settings = _parse(arguments)
    if problems := settings.problems():
        parser.error("; ".join(problems))
    try:
        result = run(settings, lambda line: print(line, flush=True))
    except DataError as error:
        parser.error(str(error))
    print(f"test_accuracy: {result['test_accuracy']:.4f}")
    print(f"val_accuracy: {result['accuracy']:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Adam, RMSprop and SGD with momentum for a dict of numpy arrays, as the sheet's OPTIMIZER names them.

They change the arrays in place and know nothing of the network these belong to.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]  # of float32, which numpy's own types lose track of
Arrays = dict[str, Floats]

LARGEST_NORM = 5.0  # of all gradients together: one odd batch must not throw the weights away


class Optimizer:
    """`beta1` is the memory of the gradient (momentum), `beta2` that of its square."""

    def __init__(self, name: str, learning_rate: float, beta1: float, beta2: float) -> None:
        self.learning_rate, self.beta1, self.beta2 = learning_rate, beta1, beta2
        self.direction: Callable[[str, Floats], Floats] = OPTIMIZERS[name].__get__(self)
        self.means: Arrays = {}
        self.squares: Arrays = {}
        self.step = 0

    def update(self, weights: Arrays, gradients: Arrays) -> None:
        self.step += 1
        norm = float(np.sqrt(sum(float((gradient**2).sum()) for gradient in gradients.values())))
        scale = np.float32(min(1.0, LARGEST_NORM / (norm + 1e-12)))
        for name, gradient in gradients.items():
            weights[name] -= self.learning_rate * self.direction(name, gradient * scale)

    def adam(self, name: str, gradient: Floats) -> Floats:
        mean = self._remember(self.means, name, gradient, self.beta1) / (1 - self.beta1**self.step)
        square = self._remember(self.squares, name, gradient**2, self.beta2) / (1 - self.beta2**self.step)
        return mean / (np.sqrt(square) + 1e-8)

    def rmsprop(self, name: str, gradient: Floats) -> Floats:
        return gradient / (np.sqrt(self._remember(self.squares, name, gradient**2, self.beta2)) + 1e-6)

    def sgd(self, name: str, gradient: Floats) -> Floats:
        velocity = self.means.get(name, np.zeros_like(gradient)) * np.float32(self.beta1) + gradient
        self.means[name] = velocity
        return velocity

    @staticmethod
    def _remember(memory: Arrays, name: str, value: Floats, beta: float) -> Floats:
        memory.setdefault(name, np.zeros_like(value))
        memory[name] += np.float32(1 - beta) * (value - memory[name])
        return memory[name]


OPTIMIZERS = {"adam": Optimizer.adam, "rmsprop": Optimizer.rmsprop, "sgd": Optimizer.sgd}

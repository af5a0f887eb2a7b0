"""Model 1: a Markov chain over the last cells of a user, backing off to shorter and wider contexts.

It counts once; an epoch tries one strength of back-off. Sizes, losses and learning rates mean nothing to it.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray
from samples import UNKNOWN, Samples

Context = tuple[Hashable, ...]

HOURS_TOGETHER = 3  # hours of the day are counted in blocks, or most of them would be too rare to count
KEPT = 40  # cells remembered for each context: the tail of a wide context never wins


class Chain:
    """Counts what followed each context; a longer context is trusted more the more often it was seen.

    There is one thing to find out: how much a context has to be seen to be trusted. Each epoch asks for more.
    """

    def __init__(self, train: Samples) -> None:
        self.backoff = 1.0
        counted: defaultdict[Context, Counter[int]] = defaultdict(Counter)
        for row, target in enumerate(train.target.tolist()):
            for context in _contexts(train, row):
                counted[context][target] += 1
        self.totals = {context: counter.total() for context, counter in counted.items()}
        self.counts = {context: counter.most_common(KEPT) for context, counter in counted.items()}

    def epoch(self, number: int) -> str:
        self.backoff = 2.0 ** (number - 1)
        return f"back-off {self.backoff:g}"

    def predict(self, samples: Samples) -> NDArray[np.int64]:
        lasts = samples.context[:, -1].tolist()
        return np.array([self._likeliest(_contexts(samples, row), last) for row, last in enumerate(lasts)])

    def _likeliest(self, contexts: list[Context], last: int) -> int:
        """Mix the contexts from the narrowest to the widest; what one does not explain, the next gets."""
        scores: defaultdict[int, float] = defaultdict(float)
        rest = 1.0
        for context in contexts:
            total = self.totals.get(context, 0)
            for cell, count in self.counts.get(context, ()):
                scores[cell] += rest * count / (total + self.backoff)
            rest *= self.backoff / (total + self.backoff)
        scores.pop(last, None)  # a move never ends where it began
        return max(scores, key=scores.__getitem__)


def _contexts(samples: Samples, row: int) -> list[Context]:
    """What is known before a move, from the narrowest to the widest; the last one is empty."""
    cells = tuple(samples.context[row].tolist())
    user, last = int(samples.user[row]), cells[-1]
    when = (int(samples.hour[row]) // HOURS_TOGETHER, int(samples.workday[row]))
    known = next((place for place in range(len(cells), 0, -1) if cells[place - 1] == UNKNOWN), 0)
    longer: list[Context] = [("cells", user, cells[place:]) for place in range(known, len(cells) - 1)]
    near: list[Context] = [("time", user, last, *when), ("cell", user, last), ("anyone", last)]
    return [*longer, *(near if last != UNKNOWN else []), ("user", user, *when), ("user", user), ()]

"""Who tries again how often, where a library tries by itself, too."""

from __future__ import annotations

import pytest

from shoal.errors import Unreachable
from shoal.files.base import Patience
from shoal.files.remote import retried, unreachable

QUICK = Patience(tries=4, first_wait_s=0.001, longest_wait_s=0.002)


class Server:
    """Fails so often, each time after so many tries of a library."""

    def __init__(self, failures: int, tries: int) -> None:
        self.asked = 0
        self._failures, self._tries = failures, tries

    def __call__(self) -> str:
        self.asked += 1
        if self.asked <= self._failures:
            raise unreachable("It said 503.", self._tries, None)
        return "well"


@pytest.mark.parametrize("tries", [1, 3])
def test_what_was_given_up_after_few_tries_is_tried_again(tries: int) -> None:
    server = Server(3, tries)
    assert retried(server, QUICK) == "well"
    assert server.asked == 4


def test_what_was_tried_often_enough_is_told_once() -> None:
    server = Server(99, 4)
    with pytest.raises(Unreachable) as told:
        retried(server, QUICK)
    assert server.asked == 1
    assert str(told.value) == "It said 503. Tried 4 times."

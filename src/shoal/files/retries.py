"""Trying again, for storages whose library does not: a bounded number of times, with growing waits and some chance."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from shoal.errors import Unreachable
from shoal.files.base import Patience

T = TypeVar("T")


def retried(action: Callable[[], T], patience: Patience) -> T:
    """What the action gives; it is done again after `Unreachable`, so doing it twice must be harmless."""
    began = time.monotonic()
    tries = 1
    while True:
        try:
            return action()
        except Unreachable as error:
            if error.tries >= patience.tries:  # The library tried as often as it should.
                raise
            wait_s = random.uniform(0.5, 1.0) * min(
                patience.longest_wait_s, patience.first_wait_s * 2 ** (tries - 1)
            )
            if tries >= patience.tries or time.monotonic() - began + wait_s > patience.retry_for_s:
                raise unreachable(str(error), tries, error.hint) from error
        time.sleep(wait_s)
        tries += 1


def unreachable(message: str, tries: int, hint: str | None) -> Unreachable:
    """The error when there is no more trying."""
    told = f"{message} Tried {tries} times." if tries > 1 else message
    return Unreachable(told, hint=hint, tries=tries)

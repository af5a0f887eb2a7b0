"""The items of an inference: what is recorded, what travels with a hand-out, what comes back. Names only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from shoal.model.item import HIDDEN, digest

COUNT = "inputs"
"""The one parameter that people see."""
LIST = f"{HIDDEN}inputs"
"""The fixed list of inputs, as `inputs` writes it. Recorded before the item is handed out."""
ADVICE = f"{HIDDEN}advice"
"""Advice for the worker (`model.advice.Advice`). Travels with a hand-out; not recorded."""
TURN = f"{HIDDEN}turn"
"""The turn of the driver that hands it out. Travels with a hand-out; not recorded."""
COMPARE = f"{HIDDEN}compare"
"""Runtimes whose outputs are to be compared with those of the model as given."""
FACTS = f"{HIDDEN}facts"
"""What became of it (`work.protocols.Facts`)."""
HEARD = f"{HIDDEN}heard"
"""What was measured meanwhile (`model.advice.Heard`)."""

CAREFULLY_FROM = 3
"""From this attempt on, of those that count, an item is gone through one input at a time. The second is like the first,
as workers also die without being to blame."""


def content_of(listed: Mapping[str, Any]) -> str:
    """Equal for the same list of inputs."""
    return digest(json.dumps(listed, sort_keys=True, ensure_ascii=True))


def item_id(seq: int) -> str:
    return f"i{seq:05d}"

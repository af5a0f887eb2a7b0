"""What a worker of a process run does with an item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.engine.workers.runner import Work
from shoal.work.process.steps import Steps


class ProcessRunner:
    """A `Runner`. The arguments are those of `Steps`."""

    def __init__(self, **arguments: Any) -> None:
        self._steps = Steps(**arguments)

    def run(self, work: Work) -> Mapping[str, Any]:
        return self._steps.do(work.seq, work.params, lambda: work.report({}, None), work.folder)

"""Drive one workload to its end and print when its first trial started and its last one was durable, as JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

from shoal.api import workloads
from shoal.api.machines import machines
from shoal.api.runs import new_session
from shoal.cluster.this_machine import Here
from shoal.shape.base import Ended, Progress


class Observer:
    """Sees each trial when it is durable."""

    def __init__(self) -> None:
        self.first_started = float("inf")
        self.last_durable = 0.0
        self.done = 0

    def durable(self, ended: Sequence[Ended]) -> None:
        self.last_durable = time.time()
        self.first_started = min(self.first_started, min(entry.started for entry in ended))
        self.done += sum(entry.outcome.state == "done" for entry in ended)

    def moment(self, progress: Progress) -> None:
        """Nothing: what matters is what is recorded."""


def main(workload: str, cluster: str) -> int:
    observer = Observer()
    session = new_session(workloads.from_file(workload), machines(cluster), Here(), observer)
    summary = session.drive()
    print(json.dumps(vars(observer)))
    return summary.exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

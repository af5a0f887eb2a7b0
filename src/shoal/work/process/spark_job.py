"""A process workload with `backend: spark` as a pool sees it: one item, which is all of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from shoal.cluster.containers.spark_application import EXECUTOR_MEMORY_BYTES, MASTER, SparkWork
from shoal.errors import SpecError
from shoal.files import is_url
from shoal.files.turns import Turn
from shoal.model import Decision, Item, Node, Outcome, Plan
from shoal.model.item import HIDDEN
from shoal.model.plan import Profile
from shoal.spec.process import INDEX, Process
from shoal.work.job import Conclusion, Learned, Past
from shoal.work.process.bad_records import BadRecords
from shoal.work.process.input_files import input_ranges
from shoal.work.process.item_params import STEP, content_of
from shoal.work.process.job import ProcessJob
from shoal.work.process.source import ProcessSource
from shoal.work.process.summary import conclude

RUNNER = "shoal.work.process.spark_run:SparkRunner"
PARAMS = {STEP: "spark"}
INSIDE, NOTES = f"{HIDDEN}inside", f"{HIDDEN}notes"
"""In the metrics of the one item: all items that it had executed, and what the source noted of them."""


class SparkJob(ProcessJob):
    """What it asks of a pool: a worker that holds the session, and with it what Spark uses of that node."""

    def __init__(self, spec: Process, limit: int | None) -> None:
        super().__init__(spec, limit)
        self.factory = self.factory._replace(target=RUNNER)
        # Those inside are tried again, and may fail, as the limits say. The one that has them all may not.
        self.policy = self.policy._replace(retries=0, crashes=spec.limits.retries)
        self.failures = 0

    def imports(self) -> Mapping[str, str]:
        return {**super().imports(), "pyspark": "backend"}

    def total(self) -> int | None:
        return 1

    def fit(self, nodes: Sequence[Node], *, here: bool = True) -> None:
        """A session without executors computes in its own process."""
        if self.spec.spark.is_local:
            most = max((node.cpu for node in nodes), default=self.need.cpu)
            self.need = self.need._replace(cpu=min(most, self.spec.spark.tasks or most))

    def begin(self, run: str, home: str, *, resumed: bool) -> None:
        super().begin(run, home, resumed=resumed)
        self.factory = self.factory._replace(arguments={**self.factory.arguments, "limit": self.limit})

    def source(self, past: Past, nodes: Callable[[], Sequence[Node]]) -> tuple[OneItem, None]:
        self._entries = BadRecords()
        if self.spec.input.key == INDEX:
            input_ranges(self.spec.input, self.spec.folder, self._entries.note)
        return OneItem(past.next_seq), None

    def weight(self) -> Callable[[Item], float] | None:
        return None

    def conclude(
        self, items: Iterator[tuple[Item, Mapping[str, Any]]], seconds: float, turn: Turn
    ) -> Conclusion:
        """As if the pool had had all of the items that Spark had."""
        source = ProcessSource([], 0)
        inside: list[tuple[Item, Mapping[str, Any]]] = []
        for _, metrics in items:
            source.notes += metrics[NOTES]
            inside += [
                (Item(seq, name, params, content=content), found)
                for seq, name, params, content, found in metrics[INSIDE]
            ]
        return conclude(self.spec, self._place, source, iter(inside), self._entries, seconds, turn)

    def plan(self, nodes: Sequence[Node], profile: Profile | None, learned: Learned | None = None) -> Plan:
        spark = self.spec.spark
        tasks = (
            "as many tasks at a time as it has cores" if spark.tasks is None else f"{spark.tasks} at a time"
        )
        made = super().plan(nodes, profile)
        return made._replace(
            items=1,
            workers=min(1, made.workers),
            decisions=(
                Decision("backend", "spark", f"the file says so; its master is {spark.master}, {tasks}"),
                Decision(
                    "resume",
                    "all or nothing",
                    "all of the run is one item, which is done again as a whole; partials that are there are adopted",
                ),
                *(each for each in made.decisions if each.name in ("input", "split")),
                Decision("prediction", None, "how fast Spark's executors are is not known"),
            ),
        )


class OneItem:
    """Keeps `Source`: one item."""

    def __init__(self, next_seq: int) -> None:
        self._seq = next_seq

    def take(self, most: int, workers: int) -> Sequence[Item]:
        given = [] if self.finished() else [Item(1, "spark", PARAMS, content=content_of(PARAMS))]
        self._seq += len(given)
        return given

    def left(self) -> int:
        return 0 if self.finished() else 1

    def finished(self) -> bool:
        return self._seq > 1

    def progressed(self, item: Item, metrics: Mapping[str, Any], step: int | None) -> str | None:
        return None

    def ended(self, item: Item, outcome: Outcome) -> None:
        return


def spark_work(spec: Process) -> SparkWork:
    """What an application of Spark's operator has. Raises `SpecError` where containers cannot share the output."""
    if not is_url(spec.output.path):
        raise SpecError(
            f"output: {spec.output.path} would be a file in one of several containers.",
            hint="Give a place on s3:// or hdfs://, which all of them reach.",
        )
    spark = spec.spark
    memory_bytes = spark.memory_bytes or EXECUTOR_MEMORY_BYTES
    sets = ("backend=spark", f"spark.master={MASTER}")
    return SparkWork(spark.executors or 1, spark.cores or 1, memory_bytes, spark.conf, sets)

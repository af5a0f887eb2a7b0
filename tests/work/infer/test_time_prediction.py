"""How long an inference takes on more nodes: from what was measured, and from inputs that are counted once."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal import spec as specs
from shoal.errors import CannotPlace, SpecError
from shoal.model import Item, Node, Prediction
from shoal.model.advice import Advice, Heard, Measured
from shoal.work.infer import time_prediction as prediction
from shoal.work.infer.item_fields import ADVICE, COUNT, LIST
from shoal.work.infer.job import InferJob
from shoal.work.infer.tuners import Tuning, machine_of
from shoal.work.inputs import Listing
from shoal.work.inputs.image_files import FilePiece
from shoal.work.inputs.known import KnownFiles
from shoal.work.inputs.lister import MOST_WAITING, Found
from shoal.work.job import Learned, Past

NODE = Node("here", 2, 8 << 30)
RATE, STARTUP_S = 1000.0, 2.0
"""Of each of two workers."""
WORKLOAD = """\
kind: infer
name: lengths
input: {images: words}
model: {function: "length:Length"}
output: out/
"""


class Counted(InferJob):
    """Lists what it is given, and knows how often it was asked to."""

    finds: Callable[[], Iterator[FilePiece]]
    listed = 0

    def list_inputs(self, past: Past) -> Listing:
        self.listed += 1
        return Found(self.finds, KnownFiles(()), None, time.monotonic)


def job_of(tmp_path: Path, inputs: int | None, more: str = "") -> Counted:
    """With so many inputs; None for more than anybody can count."""
    found = specs.loads(WORKLOAD + more, folder=str(tmp_path), kind="infer")
    assert isinstance(found, specs.Infer)
    job = Counted(found, None)
    numbers = itertools.count() if inputs is None else range(inputs)
    job.finds = lambda: (FilePiece("words", str(number), "0") for number in numbers)
    return job


def learned(job: InferJob, **more: Any) -> Learned:
    """What a run on one such node would have left."""
    tuning = Tuning(job.spec.tune, ("as-given",), job.need, {}, nodes=lambda: [NODE])
    for seq in range(1, 40):
        tuning.active(NODE.host, 2)
        rows = tuning.rows()
        sent = tuning.sent(Item(seq, f"i{seq}", {COUNT: rows, LIST: {}}), seq % 2, NODE.host)
        advice = Advice.read(sent.params[ADVICE])
        seconds = rows / RATE
        measured = Measured(advice.steps[-1].setting, advice.workers, rows, seconds, seconds / 2, 1 << 28)
        tuning.told(sent, Heard((measured,)))
    kind = machine_of(NODE, job.need).kind
    return {kind: {**tuning.learned()[kind], "startup_s": STARTUP_S, **more}}


def test_more_nodes_help_until_items_are_as_small_as_they_get(tmp_path: Path) -> None:
    job = job_of(tmp_path, 4000)
    known = learned(job)
    times = {count: job.predict(NODE, count, known).mid for count in (1, 2, 4, 8, 60)}
    assert times[1] == pytest.approx(STARTUP_S + 4000 / (2 * RATE))
    assert times[2] == pytest.approx(STARTUP_S + 1.0)
    assert times[4] == pytest.approx(STARTUP_S + 0.5)
    assert times[8] == pytest.approx(times[60]) == pytest.approx(STARTUP_S + 0.3, abs=0.01)
    assert job.listed == 1, "inputs are counted once, for whatever number of nodes"


def test_items_that_somebody_chose_are_not_cut_smaller_for_more_nodes(tmp_path: Path) -> None:
    job = job_of(tmp_path, 4000, "tune: {item: 1000}\n")
    known = learned(job)
    for count in (2, 60):
        assert job.predict(NODE, count, known).mid == pytest.approx(STARTUP_S + 1.0)


def test_no_more_workers_count_than_may_be_at_work(tmp_path: Path) -> None:
    job = job_of(tmp_path, 400_000, "limits: {concurrent: 3}\n")
    known = learned(job)
    assert job.predict(NODE, 1, known).mid == pytest.approx(STARTUP_S + 400_000 / (2 * RATE))
    assert job.predict(NODE, 4, known).mid == pytest.approx(STARTUP_S + 400_000 / (3 * RATE))
    nodes = [NODE, NODE._replace(host="there")]
    assert "limits.concurrent allows 3 of 4 workers" in why(job, nodes, known)


def test_the_law_over_nodes_bounds_what_more_of_them_do(tmp_path: Path) -> None:
    job = job_of(tmp_path, 400_000)
    known = learned(job, nodes=4, by_nodes={"1": 4000.0, "2": 6000.0, "4": 8000.0})
    four, many = (job.predict(NODE, count, known) for count in (4, 64))
    assert four.mid == pytest.approx(STARTUP_S + 400_000 / (4 * 2 * RATE))
    assert many.mid > STARTUP_S + (four.mid - STARTUP_S) / 2
    assert many.low < STARTUP_S + (four.mid - STARTUP_S) / 8, "they may be independent after all"
    assert many.high > four.mid, "or gain nothing"
    assert four.high == pytest.approx(1.12 * four.mid + 0.5)


def test_a_plan_says_on_what_its_prediction_rests(tmp_path: Path) -> None:
    job = job_of(tmp_path, 4000)
    nodes = [NODE, NODE._replace(host="there")]
    assert "1 node was at work then, and 2 are taken not to be in each other's way" in why(
        job, nodes, learned(job)
    )
    lawful = learned(job, nodes=1, by_nodes={"1": 2000.0, "4": 4000.0})
    assert "the law of scalability, fitted to runs on 1 and 4 nodes" in why(job, nodes, lawful)
    alone = why(job, nodes[:1], lawful)
    assert alone == "from the rate of the last run, the inputs there are, and what workers took to start"


def test_a_plan_without_a_prediction_says_what_to_do(tmp_path: Path) -> None:
    job = job_of(tmp_path, 4000)
    assert why(job, [NODE], {}).endswith(
        "has not been run here before, with inputs like these; run it once, or add --probe"
    )
    other = NODE._replace(host="there", cpu=8)
    assert why(job, [NODE, other], learned(job)).endswith(
        "on nodes like there before; run it once, or add --probe"
    )
    assert job.listed == 0, "nobody counts what cannot be predicted"


def test_more_inputs_are_counted_than_a_run_would_list_ahead(tmp_path: Path) -> None:
    job = job_of(tmp_path, MOST_WAITING + 10)
    assert job.predict(NODE, 1, learned(job)).mid == pytest.approx(
        STARTUP_S + (MOST_WAITING + 10) / (2 * RATE)
    )


def test_inputs_that_cannot_be_counted_in_time_are_an_error_that_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction, "COUNT_S", 0.05)
    monkeypatch.setattr(prediction, "ASKED_S", 0.1)
    job = job_of(tmp_path, None)
    with pytest.raises(
        SpecError, match=r"counted within 0.1 s: [\d,]+ were found so far, and a node does 2,000"
    ) as told:
        job.predict(NODE, 2, learned(job))
    assert told.value.hint is not None
    assert told.value.hint.endswith("ask for a part of them with --set input.images=PATTERN.")
    assert why(job, [NODE], learned(job)).endswith("with --nodes N they are counted for longer")


def test_inputs_that_cannot_be_listed_are_no_reason_to_fail_a_plan(tmp_path: Path) -> None:
    job = job_of(tmp_path, 0)

    def finds() -> Iterator[FilePiece]:
        raise SpecError("There is no bucket of that name.", hint="Make it.")

    job.finds = finds
    assert (
        why(job, [NODE], learned(job))
        == "the inputs cannot be listed: There is no bucket of that name; Make it."
    )
    with pytest.raises(SpecError, match="There is no bucket of that name") as told:
        job.predict(NODE, 2, learned(job))
    assert told.value.hint == "Make it."


def test_nodes_that_hold_no_worker_are_refused(tmp_path: Path) -> None:
    job = job_of(tmp_path, 10, "resources: {cpu: 4}\n")
    with pytest.raises(CannotPlace, match="has 2 CPU, needs 4"):
        job.predict(NODE, 2, {})


def why(job: InferJob, nodes: list[Node], known: Learned) -> str:
    plan = job.plan(nodes, None, known)
    (found,) = [decision for decision in plan.decisions if decision.name == "prediction"]
    assert (found.choice is None) == (plan.predicted_seconds is None)
    assert plan.predicted_seconds is None or isinstance(plan.predicted_seconds, Prediction)
    return found.why

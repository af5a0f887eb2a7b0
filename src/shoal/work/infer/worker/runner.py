"""What a worker of an inference does with an item: reads, prepares, predicts, writes, and tells what it measured."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from shoal import spec as specs
from shoal.engine.workers.runner import Stopwatch, Upcoming, Work, busy_s, cache_folder, now, workload_folder
from shoal.errors import Unreachable
from shoal.files import is_url, pause
from shoal.model.advice import AS_GIVEN, Advice, Heard, Setting
from shoal.spec import Infer
from shoal.work.infer.item_fields import ADVICE, CAREFULLY_FROM, COMPARE, FACTS, HEARD, LIST, TURN, content_of
from shoal.work.infer.postprocess import finishing
from shoal.work.infer.preprocess import preparation
from shoal.work.infer.worker.batch_prediction import Predicting, Task
from shoal.work.infer.worker.course import Course, Pulse, go_carefully
from shoal.work.infer.worker.intake import Collected, Intake, Readers
from shoal.work.infer.worker.model_cache import Holding
from shoal.work.inputs import opening
from shoal.work.models import models
from shoal.work.outputs import PartWriter
from shoal.work.outputs.misfits import WHERE
from shoal.work.protocols import Facts, Opened

logger = logging.getLogger(__name__)
PATIENCE_S = (5.0, 20.0, 60.0)
"""Between tries of an item whose storage cannot be reached, though each request was tried several times: a server that
is started anew should not cost a run that takes hours."""
SWITCH_S = 0.0005
"""How long a thread of Python may keep others waiting: the one that feeds the model waits for those that read."""


class InferRunner:
    """A `Runner`. The model is loaded with the first item: a worker that is given none needs no memory for it.

    `text` and `sets` are the workload; `data` is the folder that its relative inputs and outputs are in. Models and
    functions are in the worker's own folder, which is a copy of that one on other machines.
    """

    def __init__(self, text: str, label: str, sets: list[str], data: str, run: str, gpu: bool) -> None:
        found = specs.loads(text, folder=workload_folder(), label=label, sets=sets, kind="infer")
        assert isinstance(found, Infer)
        sys.setswitchinterval(SWITCH_S)
        self._timeout_s = found.limits.timeout_s
        self._chosen = AS_GIVEN if found.tune.runtime == "auto" else found.tune.runtime
        """What runs the model where nothing is to be found out."""
        self._watch = Stopwatch()
        on_gpu = gpu and found.model.device != "cpu"
        # Nobody else has what its own limit keeps from it.
        self._alone = found.resources.memory_bytes is not None and not on_gpu
        on_torch = on_gpu and found.model.kind == "torchscript"
        exact = found.model.kind == "function"
        self._prepare = preparation(found.preprocess, found.input, on_gpu=on_torch, exact=exact)
        ways = models(found.model, found.folder, cache_folder("models"), gpu=gpu)
        holding = Holding(ways, pinned=self._chosen != AS_GIVEN)
        self._predicting = Predicting(
            holding,
            self._prepare,
            finishing(found.postprocess),
            self._watch,
            takes_arrays=found.model.kind != "function",
            precision=found.model.precision,
        )
        self._readers = Readers(remote=is_url(found.input.target), on_gpu=on_gpu)
        self._course = Course(self._predicting, self._readers)
        self._open = opening(found.input, data)
        self._writer = PartWriter(found.output, data, run)
        self._next: tuple[Upcoming, Intake] | None = None

    def run(self, work: Work) -> Mapping[str, Any]:
        for wait_s in PATIENCE_S:
            try:
                return self._attempt(work)
            except Unreachable as error:
                logger.warning("%s Trying %s again in %g s.", error, work.id, wait_s)
            pause(wait_s)
        return self._attempt(work)

    def _attempt(self, work: Work) -> Mapping[str, Any]:
        content = content_of(work.params[LIST])
        earlier = self._writer.find(work.seq, content, work.params.get(TURN, 1))
        if earlier is not None:
            return _told(earlier, Heard())
        self._watch.seconds.clear()
        began, busy = now(), busy_s()
        intake = self._begun(work)
        advice, pulse = Advice.read(work.params[ADVICE]), Pulse(work, self._timeout_s)
        task = Task(
            others=0 if self._alone else advice.meant - 1,
            sharing=advice.sharing - 1,
            to_compare=work.params.get(COMPARE, ()),
            while_loading=pulse.loading,
        )
        try:
            heard = self._go(work, intake, advice, task, pulse)
            self._predicting.settle(task)
        except BaseException:
            intake.give_up()
            raise
        wall, seconds = now() - began, dict(self._watch.seconds)
        threads, collected = advice.steps[-1].setting.threads, task.collected
        reading, decoding = seconds.get("reading", 0.0), seconds.get("decoding", 0.0)
        self._readers.learn(reading, decoding, intake.waited_s, busy_s() - busy, wall, threads)
        facts = Facts(
            len(collected.positions), len(collected.errors), intake.read_bytes, seconds, work.attempt
        )
        return _told(self._write(work, content, intake.opened, collected, facts), heard)

    def _go(self, work: Work, intake: Intake, advice: Advice, task: Task, pulse: Pulse) -> Heard:
        if work.counted_attempt >= CAREFULLY_FROM:
            setting = Setting(self._chosen, 1, advice.steps[-1].setting.threads)
            crumbs = self._writer.crumbs
            go_carefully(intake, self._predicting, setting, task, crumbs, work, pulse)
            return Heard()
        return self._course.go(intake, advice, task, self._read_on(work, intake, advice, pulse))

    def _write(self, work: Work, content: str, opened: Opened, collected: Collected, facts: Facts) -> Facts:
        began = now()
        written = self._writer.write(
            work.seq,
            work.attempt,
            content,
            opened.keys(collected.positions),
            collected.columns(),
            _reasons(opened, collected),
            facts,
            work.params.get(TURN, 1),
        )
        return written._replace(seconds={**written.seconds, "writing": now() - began})

    # Reading ahead.

    def _begun(self, work: Work) -> Intake:
        """What was begun of this item while the last one was done, or a beginning."""
        ahead, self._next = self._next, None
        if ahead is not None:
            upcoming, intake = ahead
            same = (upcoming.seq, upcoming.attempt) == (work.seq, work.attempt)
            if same and work.counted_attempt < CAREFULLY_FROM:
                return intake
            intake.give_up()
        return Intake(self._open(work.params[LIST]), self._prepare, self._watch)

    def _read_on(self, work: Work, intake: Intake, advice: Advice, pulse: Pulse) -> Iterator[bool]:
        """Advanced once a batch: when all of this item is being read, the next one's inputs are.

        Gives whether those that read are busy: otherwise enough lies ready, or there is no more.
        """
        batch = advice.steps[-1].setting.batch
        while True:
            pulse.beat()
            executor = self._readers.current
            if executor is not None and intake.all_asked_for:
                upcoming = work.upcoming() if self._next is None else None
                if upcoming is not None and upcoming.counted_attempt < CAREFULLY_FROM:
                    opened = self._open(upcoming.params[LIST])
                    self._next = (upcoming, Intake(opened, self._prepare, self._watch))
                if self._next is not None:
                    self._next[1].reach_ahead(executor, self._readers.depth(batch))
            yield intake.is_busy or (self._next is not None and self._next[1].is_busy)


def _reasons(opened: Opened, collected: Collected) -> list[tuple[dict[str, Any], str]]:
    """The keys of each error, and the reason; where a key is missing, with the place, or nobody would find it."""
    columns = opened.keys([position for position, _ in collected.errors])
    found = []
    for index, (position, reason) in enumerate(collected.errors):
        keys = {name: _present(values[index]) for name, values in columns.items()}
        is_told = keys.get("path") is not None or None not in keys.values()
        found.append((keys, reason if is_told else f"{reason.rstrip('.')}{WHERE}{opened.where(position)}"))
    return found


def _present(value: Any) -> Any:
    """A value of Arrow that is null is None."""
    return None if getattr(value, "is_valid", True) is False else value


def _told(facts: Facts, heard: Heard) -> dict[str, Any]:
    return {
        "rows": facts.rows,
        "errors": facts.errors,
        FACTS: {**facts._asdict(), "seconds": dict(facts.seconds)},
        HEARD: heard.plain(),
    }

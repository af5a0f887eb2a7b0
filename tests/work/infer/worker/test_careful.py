"""An item at which attempts ended: the input that is to blame is found, and nothing else is blamed."""

from __future__ import annotations

import json
import threading
import time

import pytest

from shoal.engine.workers.runner import Broken, Cancelled, Stopwatch, Work
from shoal.files import open_storage
from shoal.model.advice import Advice, Setting, Step
from shoal.spec.shared_sections import Input
from shoal.work.infer.item_fields import ADVICE, CAREFULLY_FROM, LIST
from shoal.work.infer.worker import course
from shoal.work.infer.worker import runner as runners
from shoal.work.infer.worker.batch_prediction import Predicting, Task
from shoal.work.infer.worker.course import Pulse, go_carefully
from shoal.work.infer.worker.intake import Intake
from shoal.work.infer.worker.model_cache import Holding
from shoal.work.inputs import listing
from shoal.work.outputs import Crumbs
from work.infer.worker.test_worker_parts import Double, Models, Numbers, Prepare, finish

GIVEN = Setting("as-given", 1, 1)
TIMED_OUT = ("failed", "timed out after 2.0s")
STOPPED = ("stopped", "the run was stopped")


@pytest.fixture
def crumbs(tmp_path):
    return Crumbs(open_storage(str(tmp_path / "out")))


class Attempts:
    """Attempts at one item of six numbers, each in a worker of its own."""

    def __init__(self, crumbs, timeout_s=None):
        self._crumbs = crumbs
        self._timeout_s = timeout_s
        self.number = CAREFULLY_FROM - 1
        self.work = None
        self.reports = []

    def go(self, model=None, setting=GIVEN, numbers=None, models=None):
        self.number += 1
        self.work = Work(1, self.number, "i00001", {}, None, report=self._report)
        models = models or Models(as_given=model or Double())
        made = Predicting(
            Holding(models), Prepare(), finish, Stopwatch(), takes_arrays=False, precision="float32"
        )
        intake = Intake(numbers or Numbers(6), Prepare(), made.watch)
        signs = Pulse(self.work, self._timeout_s)
        task = Task()
        go_carefully(intake, made, setting, task, self._crumbs, self.work, signs)
        return task.collected

    def end(self, told, *, caught=False):
        """As when the driver asks for an end while user code runs, which may catch that."""
        self.work.cancelled = told
        if not caught:
            raise Cancelled

    def _report(self, metrics, step):
        assert (metrics, step) == ({}, None)
        self.reports.append(time.perf_counter())


class EndsAt(Double):
    """Is asked to end at some of its inputs."""

    def __init__(self, attempts, told, *positions, caught=False):
        super().__init__()
        self._attempts, self._told, self._positions, self._caught = attempts, told, positions, caught

    def predict(self, batch):
        if batch[0] in self._positions:
            self._attempts.end(self._told, caught=self._caught)
        return super().predict(batch)


def test_attempts_that_ended_by_themselves_are_no_deaths(crumbs):
    for attempt, position in enumerate((-1, -1, 4)):
        crumbs.at(1, attempt, position)
    collected = Attempts(crumbs).go()
    assert (collected.positions, collected.errors) == (list(range(6)), [])


def test_an_input_at_which_two_workers_died_is_left_out_and_then_one_is_enough_for_others(crumbs):
    for attempt, position in enumerate((2, 2, 4)):
        crumbs.at(1, attempt, position)
    collected = Attempts(crumbs).go()
    assert collected.positions == [0, 1, 3, 5]
    assert collected.errors == [(2, "2 workers died of it"), (4, "1 worker died of it")]


@pytest.mark.parametrize("caught", [False, True], ids=["at once", "though it was caught"])
def test_an_input_at_which_two_attempts_timed_out_is_an_error_and_the_others_are_done(crumbs, caught):
    attempts = Attempts(crumbs, timeout_s=2.0)
    for _ in range(2):
        with pytest.raises(Cancelled):
            attempts.go(EndsAt(attempts, TIMED_OUT, 3.0, caught=caught))
    collected = attempts.go()
    assert collected.positions == [0, 1, 2, 4, 5]
    assert collected.errors == [(3, "timed out 2 times: it takes longer than limits.timeout, 2.0s")]


def test_an_input_at_which_two_processes_became_useless_is_left_out(crumbs):
    class Breaks(Double):
        def predict(self, batch):
            if batch[0] == 3.0:
                raise Broken("the GPU is lost")
            return super().predict(batch)

    attempts = Attempts(crumbs)
    for _ in range(2):
        with pytest.raises(Broken):
            attempts.go(Breaks())
    collected = attempts.go(Breaks())
    assert collected.positions == [0, 1, 2, 4, 5]
    assert collected.errors == [(3, "2 workers died of it")]


def test_one_timeout_alone_or_two_at_different_inputs_blame_nobody(crumbs):
    attempts = Attempts(crumbs, timeout_s=2.0)
    for position in (3.0, 1.0):
        with pytest.raises(Cancelled):
            attempts.go(EndsAt(attempts, TIMED_OUT, position))
    assert attempts.go().errors == []


def test_once_an_input_is_known_to_hang_another_is_found_with_one_attempt(crumbs):
    attempts = Attempts(crumbs, timeout_s=2.0)
    for _ in range(3):
        with pytest.raises(Cancelled):
            attempts.go(EndsAt(attempts, TIMED_OUT, 1.0, 4.0))
    collected = attempts.go(EndsAt(attempts, TIMED_OUT, 1.0, 4.0))
    assert [position for position, _ in collected.errors] == [1, 4]
    assert [reason.partition(":")[0] for _, reason in collected.errors] == [
        "timed out 2 times",
        "timed out once",
    ]


def test_a_run_that_is_stopped_blames_nobody(crumbs):
    attempts = Attempts(crumbs, timeout_s=2.0)
    for _ in range(3):
        with pytest.raises(Cancelled):
            attempts.go(EndsAt(attempts, STOPPED, 3.0))
    assert crumbs.suspects(1) == {}
    assert attempts.go().errors == []


def test_an_input_that_is_waited_for_is_not_blamed_for_its_storage(crumbs):
    attempts = Attempts(crumbs, timeout_s=2.0)

    class Slow(Numbers):
        def read(self, position):
            if position == 3:
                attempts.end(TIMED_OUT)
            return super().read(position)

    for _ in range(3):
        with pytest.raises(Cancelled):
            attempts.go(numbers=Slow(6))
    assert attempts.go().errors == []


def test_workers_that_may_have_been_killed_for_the_time_they_took_are_told_so(crumbs):
    for attempt in range(2):
        crumbs.at(1, attempt, 5)
    collected = Attempts(crumbs, timeout_s=2.0).go()
    assert collected.errors == [(5, "2 workers died of it, or had to be killed as it timed out")]


@pytest.mark.parametrize("runtime", ["as-given", "openvino"])
def test_who_dies_while_the_model_is_loaded_dies_of_no_input(crumbs, runtime):
    class Watched(Models):
        def load(self, setting, example=None):
            assert crumbs.suspects(1) == {}
            assert (example is not None) == (runtime != "as-given"), "only a conversion needs an example"
            return super().load(setting, example)

    models = Watched(**{runtime.replace("-", "_"): Double()})
    collected = Attempts(crumbs).go(
        models=models, setting=GIVEN._replace(runtime=runtime), numbers=Numbers(4, bad=(0,))
    )
    assert models.loaded == [runtime]
    assert collected.positions == [1, 2, 3]


def test_an_attempt_that_gets_on_says_so_as_often_as_its_time_asks_for(crumbs):
    hurried, patient, endless = (Attempts(crumbs, timeout_s) for timeout_s in (1e-9, 3600.0, None))
    for attempts in (hurried, patient, endless):
        attempts.go()
    assert len(hurried.reports) == 1 + 6
    assert patient.reports == endless.reports == []


def test_a_careful_attempt_runs_the_model_in_the_way_that_somebody_chose(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"x": n}) + "\n" for n in range(3)))
    workload = "kind: infer\ninput: {jsonl: rows.jsonl, column: x}\nmodel: {onnx: m.onnx}\noutput: out/\n"
    found = listing(
        Input(jsonl="rows.jsonl", column=("x",)), ".", ordered=True, limit=None, now=time.monotonic
    )
    try:
        until = time.monotonic() + 30
        while (listed := found.take(10)) is None:
            assert time.monotonic() < until
    finally:
        found.close()
    params = {LIST: listed, ADVICE: Advice((Step(GIVEN._replace(batch=8)),)).plain()}
    for number, (sets, expected) in enumerate((([], "as-given"), (["runtime=openvino"], "openvino"))):
        models = Models(as_given=Double(), openvino=Double())
        monkeypatch.setattr(runners, "models", lambda *_, found=models, **__: found)
        worker = runners.InferRunner(workload, "w.yaml", sets, ".", "w-1", gpu=False)
        work = Work(number, 3, "i", params, None, report=lambda *_: None, counted_attempt=CAREFULLY_FROM)
        assert worker.run(work)["rows"] == 3
        assert models.loaded == [expected]


def test_loading_a_model_may_take_longer_than_an_input():
    told, before = threading.Semaphore(0), set(threading.enumerate())
    work = Work(1, 1, "i00001", {}, None, report=lambda *_: told.release())
    with Pulse(work, 0.01).loading():
        for _ in range(5):
            assert told.acquire(timeout=30), "nothing was heard of it"
    assert set(threading.enumerate()) <= before, "it beats on"


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["long enough", "asked to end"])
def test_loading_is_not_kept_alive_for_ever(monkeypatch, is_cancelled):
    told, before = [], set(threading.enumerate())
    work = Work(1, 1, "i00001", {}, None, report=lambda *_: told.append(None))
    if is_cancelled:
        work.cancelled = TIMED_OUT
    else:
        monkeypatch.setattr(course, "LOADING_S", 0.0)
    with Pulse(work, 0.01).loading():
        for thread in set(threading.enumerate()) - before:
            thread.join(30)
            assert not thread.is_alive()
    assert told == []

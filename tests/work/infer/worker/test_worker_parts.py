"""What a worker does with the inputs of an item, whatever they and the model do: in order, once, and measured."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

import numpy as np
import pytest

from shoal.engine.workers.runner import Broken, Failed, NoRoom, Stopwatch
from shoal.model.advice import Advice, Heard, Setting, Step
from shoal.work.infer.worker.batch_prediction import Predicting, Task
from shoal.work.infer.worker.course import Course
from shoal.work.infer.worker.intake import Collected, Intake, Readers, Taken
from shoal.work.infer.worker.model_cache import Holding
from shoal.work.protocols import OutOfMemory, Tensor, Unreadable, Unusable

GIVEN = Setting("as-given", 4, 1)


class Numbers:
    """An item of numbers; some cannot be read."""

    def __init__(self, count, bad=()):
        self._count, self._bad = count, set(bad)

    def __len__(self):
        return self._count

    def keys(self, positions):
        return {"path": [f"p{position}" for position in positions]}

    def read(self, position):
        if position in self._bad:
            raise Unreadable(f"{position} is bad")
        return position


class Prepare:
    def one(self, raw):
        return float(raw)

    def batch(self, prepared):
        return np.asarray(prepared, np.float32)


class Double:
    """A model that doubles; subclasses misbehave."""

    device = "cpu"

    def __init__(self):
        self.batches = []
        self.released = 0
        self.closed = False

    def inputs(self):
        return ()

    def predict(self, batch):
        self.batches.append(len(batch))
        return batch * 2

    def device_bytes(self):
        return 0

    def release(self):
        self.released += 1

    def close(self):
        self.closed = True


class Models:
    """What is loaded by the name of a runtime; an exception is raised."""

    def __init__(self, **ways):
        self.ways = {name.replace("_", "-"): way for name, way in ways.items()}
        self.loaded = []

    def runtimes(self):
        return tuple(self.ways)

    def load(self, setting, example=None):
        self.loaded.append(setting.runtime)
        way = self.ways[setting.runtime]
        if isinstance(way, Exception):
            raise way
        return way


def finish(outputs, count):
    assert len(outputs) == count
    bad = {index: "the model returned NaN" for index in range(count) if np.isnan(outputs[index])}
    return {"value": np.asarray(outputs)}, bad


def predicting(*, takes_arrays=False, **ways):
    models = Models(**ways)
    made = Predicting(
        Holding(models), Prepare(), finish, Stopwatch(), takes_arrays=takes_arrays, precision="float32"
    )
    return made, models


def taken(count):
    return [Taken(position, float(position)) for position in range(count)]


def result(task):
    values = [float(value) for value in task.collected.columns().get("value", [])]
    return dict(zip(task.collected.positions, values, strict=True))


@pytest.mark.parametrize("threads", [0, 3], ids=["by itself", "by other threads"])
def test_inputs_come_in_order_and_once_whoever_prepares_them(threads):
    intake = Intake(Numbers(50, bad=(7,)), Prepare(), Stopwatch())
    got = []
    with ThreadPoolExecutor(max(1, threads)) as executor:
        while len(intake):
            if threads:
                intake.reach_ahead(executor, 11)
            got += intake.take(8)
    assert [entry.position for entry in got] == list(range(50))
    assert [entry.position for entry in got if entry.error] == [7]
    assert got[7].error == "7 is bad"
    assert got[8].value == 8.0


def test_what_is_read_ahead_is_never_more_than_asked_for():
    intake = Intake(Numbers(100), Prepare(), Stopwatch())
    with ThreadPoolExecutor(1) as executor:
        intake.reach_ahead(executor, 10)
        assert not intake.all_asked_for
        intake.reach_ahead(executor, 200)
        assert intake.all_asked_for
        assert len(intake.take(1000)) == 100


def test_a_batch_that_does_not_fit_is_halved_and_the_size_remembered():
    class Small(Double):
        def predict(self, batch):
            if len(batch) > 3:
                raise OutOfMemory("too much")
            return super().predict(batch)

    model = Small()
    made, _ = predicting(as_given=model)
    task = Task()
    made.run(GIVEN._replace(batch=10), taken(10), task)
    assert result(task) == {n: 2.0 * n for n in range(10)}
    assert task.out_of_memory == [GIVEN._replace(batch=10), GIVEN._replace(batch=5)]
    assert made.largest(GIVEN._replace(batch=10), 0) == 2
    assert max(model.batches) == 2
    assert made.largest(GIVEN._replace(batch=8), 0) == 2  # There, nobody else was in its way.


def test_memory_that_does_not_suffice_for_one_input_ends_the_item():
    class Full(Double):
        def predict(self, batch):
            raise OutOfMemory("too much")

    made, _ = predicting(as_given=Full())
    with pytest.raises(Failed, match="not enough memory for a single input"):
        made.run(GIVEN, taken(8), Task())


def test_an_input_too_large_for_memory_says_nothing_about_the_others():
    class Picky(Double):
        def predict(self, batch):
            if 5.0 in batch:
                raise OutOfMemory("too much")
            return super().predict(batch)

    made, _ = predicting(as_given=Picky())
    task = Task()
    made.run(GIVEN._replace(batch=8), taken(8), task)
    assert [position for position, _ in task.collected.errors] == [5]
    assert task.out_of_memory == []
    assert made.largest(GIVEN._replace(batch=8), 0) == 8


def test_a_model_that_does_not_fit_beside_the_others_makes_its_worker_go():
    made, _ = predicting(as_given=OutOfMemory("Memory did not suffice to load it"))
    with pytest.raises(NoRoom, match="did not suffice"):
        made.run(GIVEN, taken(4), Task(others=1))
    with pytest.raises(Failed, match="did not suffice"):
        made.run(GIVEN, taken(4), Task())


def test_a_gpu_that_others_have_filled_makes_a_worker_go_that_has_done_nothing_yet():
    class Full(Double):
        def predict(self, batch):
            raise OutOfMemory("CUDA out of memory")

        device = "cuda"

    made, _ = predicting(as_given=Full())
    with pytest.raises(NoRoom, match="beside 3 other workers: CUDA out of memory"):
        made.run(GIVEN, taken(4), Task(others=3))


def test_a_gpu_that_fills_up_later_is_no_fault_of_the_inputs():
    class Filling(Double):
        device = "cuda"
        full = False

        def predict(self, batch):
            if self.full:
                raise OutOfMemory("CUDA out of memory")
            return super().predict(batch)

    model = Filling()
    made, _ = predicting(as_given=model)
    made.run(GIVEN, taken(4), Task())
    model.full, task = True, Task(others=3)
    with pytest.raises(NoRoom):
        made.run(GIVEN, taken(4), task)
    assert task.collected.errors == []
    with pytest.raises(Failed, match="not enough memory on the GPU"):
        made.run(GIVEN, taken(4), Task())


class Crowded(Double):
    """At a GPU that has room for so many inputs just now."""

    device = "cuda"
    room = 64

    def predict(self, batch):
        if len(batch) > self.room or max(batch) >= 1000:
            raise OutOfMemory("CUDA out of memory")
        return super().predict(batch)


def test_a_gpu_that_others_have_filled_for_a_moment_says_little_about_batches():
    model = Crowded()
    made, _ = predicting(as_given=model)
    task, model.room = Task(others=3, sharing=3), 10
    asked = GIVEN._replace(batch=64)
    made.run(asked, taken(64), task)
    assert task.out_of_memory == [asked]  # And not that 32 and 16 were too much, too.
    assert made.largest(asked, 3) == 8
    assert made.largest(GIVEN._replace(batch=40), 3) == 40  # Others get less, too.
    assert made.largest(asked, 2) == 64  # One has left.


def test_small_batches_make_a_worker_leave_a_full_gpu_and_a_large_input_does_not():
    model = Crowded()
    made, _ = predicting(as_given=model)
    task = Task(others=3, sharing=3)
    made.run(GIVEN._replace(batch=32), [*taken(31), Taken(31, value=np.float32(1000.0))], task)
    assert [position for position, _ in task.collected.errors] == [31]
    model.room = 8
    with pytest.raises(NoRoom, match="beside 3 other workers"):
        made.run(GIVEN._replace(batch=32), taken(32), Task(others=3, sharing=3))
    last_two = Task(others=1, sharing=1)  # They share what there is.
    made.run(GIVEN._replace(batch=32), taken(32), last_two)
    assert made.largest(GIVEN._replace(batch=32), 1) == 8


def test_a_runtime_that_needs_more_memory_than_there_is_gives_way_at_a_single_input():
    class Hungry(Double):
        def predict(self, batch):
            raise OutOfMemory("too much")

    made, _ = predicting(as_given=Double(), frozen=Hungry())
    task = Task()
    assert made.run(GIVEN._replace(runtime="frozen"), taken(8), task) == "as-given"
    assert result(task) == {n: 2.0 * n for n in range(8)}


def test_a_second_runtime_is_loaded_alone_where_both_do_not_fit():
    given, frozen = Double(), Double()

    class Narrow(Models):
        def load(self, setting, example=None):
            if any(not each.closed for each in (given, frozen) if each.batches):
                raise OutOfMemory("no room for two")
            return super().load(setting, example)

    models = Narrow(as_given=given, frozen=frozen)
    made = Predicting(
        Holding(models), Prepare(), finish, Stopwatch(), takes_arrays=False, precision="float32"
    )
    made.run(GIVEN, taken(4), Task())
    assert made.run(GIVEN._replace(runtime="frozen"), taken(4), Task()) == "frozen"
    assert given.closed


def test_a_runtime_for_which_memory_does_not_suffice_gives_way():
    made, _ = predicting(as_given=Double(), frozen=OutOfMemory("too large"))
    assert made.run(GIVEN._replace(runtime="frozen"), taken(4), Task()) == "as-given"
    assert made.holding.unusable == {"frozen": "too large"}


def test_a_runtime_that_fails_gives_way_to_the_model_as_given_for_good():
    class Broken(Double):
        def predict(self, batch):
            raise RuntimeError("no such operator")

    made, models = predicting(as_given=Double(), openvino=Broken())
    task = Task()
    assert made.run(Setting("openvino", 4, 1), taken(4), task) == "as-given"
    assert result(task) == {n: 2.0 * n for n in range(4)}
    assert made.holding.unusable == {"openvino": "RuntimeError: no such operator"}
    made.run(Setting("openvino", 4, 1), taken(4), Task())
    assert models.loaded == ["openvino", "as-given"]


def test_a_runtime_that_cannot_be_loaded_gives_way_and_says_why():
    made, _ = predicting(as_given=Double(), frozen=Unusable("it cannot be frozen"))
    assert made.run(Setting("frozen", 4, 1), taken(2), Task()) == "as-given"
    assert made.holding.unusable == {"frozen": "it cannot be frozen"}


def test_a_runtime_whose_outputs_differ_is_not_used_and_its_rows_are_those_of_the_model_as_given():
    class Other(Double):
        def predict(self, batch):
            return batch * 2.5

    made, _ = predicting(as_given=Double(), openvino=Other())
    task = Task(to_compare={"openvino"})
    assert made.run(Setting("openvino", 4, 1), taken(4), task) == "as-given"
    assert result(task) == {n: 2.0 * n for n in range(4)}
    assert "differs by up to" in made.holding.unusable["openvino"]
    assert task.differences["openvino"] == pytest.approx(1.5)


def test_a_runtime_that_agrees_is_used_and_compared_once():
    given = Double()
    made, _ = predicting(as_given=given, openvino=Double())
    task = Task(to_compare={"openvino"})
    for _ in range(3):
        assert made.run(Setting("openvino", 4, 1), taken(4), task) == "openvino"
    assert task.differences == {"openvino": 0.0}
    assert len(given.batches) == 1


def test_an_input_that_the_model_cannot_take_is_an_error_and_the_others_have_rows():
    class Picky(Double):
        def predict(self, batch):
            if (batch == 2).any():
                raise ValueError("two")
            return super().predict(batch)

    made, _ = predicting(as_given=Picky())
    task = Task()
    made.run(GIVEN, taken(4), task)
    assert result(task) == {0: 0.0, 1: 2.0, 3: 6.0}
    assert task.collected.errors == [(2, "the model failed: ValueError: two")]


def test_at_a_gpu_one_model_is_held_between_items_whoever_counts_its_memory():
    class There(Double):
        device = "cuda"

    holding = Holding(Models(as_given=There(), frozen=There()))
    for runtime in ("as-given", "frozen"):
        holding.get(GIVEN._replace(runtime=runtime), lambda: None, Task().loading)
    holding.let_go()
    assert [runtime for runtime, _ in holding._loaded] == ["frozen"]


def test_a_gpu_that_is_lost_while_outputs_are_fetched_is_no_fault_of_the_inputs():
    class Late(Double):
        def predict(self, batch):
            return Later() if (batch == 2).any() else super().predict(batch)

    class Later:
        def __len__(self):
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    made, _ = predicting(as_given=Late())
    task = Task()
    with pytest.raises(Broken, match="illegal memory access"):
        made.run(GIVEN, taken(4), task)
    assert task.collected.errors == []


def test_a_model_that_takes_nothing_at_all_ends_the_item_with_one_sentence():
    class Wrong(Double):
        def predict(self, batch):
            raise ValueError("expected four dimensions")

    made, _ = predicting(as_given=Wrong())
    with pytest.raises(Failed, match="The model failed on its first inputs: ValueError: expected four"):
        made.run(GIVEN, taken(8), Task())


def test_a_row_that_is_no_number_is_an_error():
    class Hole(Double):
        def predict(self, batch):
            return np.where(batch == 1, np.nan, batch * 2)

    made, _ = predicting(as_given=Hole())
    task = Task()
    made.run(GIVEN, taken(4), task)
    assert result(task) == {0: 0.0, 2: 4.0, 3: 6.0}
    assert task.collected.errors == [(1, "the model returned NaN")]


def go(made, count, steps, readers=None, bad=()):
    course = Course(made, readers or Readers(remote=False, on_gpu=False))
    intake = Intake(Numbers(count, bad), Prepare(), made.watch)
    task = Task()
    return task, course.go(intake, Advice(tuple(steps)), task, iter(()))


def test_the_steps_of_an_item_are_gone_through_in_order_and_the_last_goes_on():
    model = Double()
    made, _ = predicting(as_given=model)
    task, heard = go(made, 31, [Step(GIVEN._replace(batch=2), 8), Step(GIVEN._replace(batch=5))])
    assert model.batches == [2, 2, 2, 2, 5, 5, 5, 5, 3]
    assert result(task) == {n: 2.0 * n for n in range(31)}
    rows = {entry.setting.batch: entry.rows for entry in heard.measured}
    assert rows == {2: 4, 5: 15}, "two batches warm a model up, one a new size"


@pytest.mark.parametrize(("more", "rows"), [(True, 8), (False, 16)], ids=["more to read", "all read"])
def test_what_lay_ready_before_does_not_make_a_setting_look_faster(more, rows):
    made, _ = predicting(as_given=Double())
    intake = Intake(Numbers(32, ()), Prepare(), made.watch)
    with ThreadPoolExecutor(1) as others:
        intake.reach_ahead(others, 32)
    course = Course(made, Readers(remote=False, on_gpu=False))
    heard = course.go(intake, Advice((Step(GIVEN._replace(batch=8)),)), Task(), repeat(more))
    assert [entry.rows for entry in heard.measured] == [rows]  # Two batches of four only warmed it up.


def test_an_item_smaller_than_a_batch_is_measured_by_the_batch_it_had():
    made, _ = predicting(as_given=Double())
    for _ in range(3):
        _, heard = go(made, 3, [Step(GIVEN._replace(batch=64))])
    assert [(entry.setting.batch, entry.rows) for entry in heard.measured] == [(3, 3)]


def test_a_worker_tells_of_a_model_that_takes_a_fixed_number_of_inputs():
    class Eight(Double):
        def inputs(self):
            return (Tensor("x", (8, 3), "float32"),)

    made, _ = predicting(as_given=Eight())
    assert go(made, 20, [Step(GIVEN)])[1].fixed_rows == 8
    made, _ = predicting(as_given=Double())
    assert go(made, 20, [Step(GIVEN)])[1].fixed_rows == 0


def test_what_a_worker_tells_survives_the_way_to_the_driver():
    made, _ = predicting(as_given=Double())
    _, heard = go(made, 40, [Step(GIVEN)])
    assert Heard.read(heard.plain()) == heard


def test_inputs_read_by_other_threads_give_the_same_rows():
    made, _ = predicting(as_given=Double())
    readers = Readers(remote=True, on_gpu=False)
    try:
        task, _ = go(made, 100, [Step(GIVEN)], readers, bad=(3, 99))
    finally:
        readers.close()
    assert task.collected.positions == [n for n in range(100) if n not in (3, 99)]
    assert [position for position, _ in task.collected.errors] == [3, 99]


def test_readers_are_more_when_bytes_are_slow_to_come_and_the_cores_are_idle():
    readers = Readers(remote=False, on_gpu=False)
    assert readers.executor(1) is None
    readers.learn(reading_s=1.0, decoding_s=0.1, waited_s=0.0, busy_s=1.0, wall_s=1.0, threads=1)
    assert readers.executor(1) is None, "the cores are busy"
    readers.learn(reading_s=0.2, decoding_s=0.3, waited_s=0.0, busy_s=0.4, wall_s=1.0, threads=1)
    assert readers.executor(1) is None, "it is not the bytes that take time"
    readers.learn(reading_s=0.5, decoding_s=0.1, waited_s=0.0, busy_s=0.4, wall_s=1.0, threads=1)
    assert readers.executor(1) is not None
    readers.close()


def test_a_model_on_a_gpu_leaves_preparing_to_others():
    readers = Readers(remote=False, on_gpu=True)
    assert readers.executor(1) is not None
    readers.close()


def test_rows_are_copies_as_a_model_may_use_its_array_again():
    buffer = np.zeros(2, np.float32)
    collected = Collected()
    for number in (1, 2):
        buffer[:] = number
        collected.add([2 * number, 2 * number + 1], {"value": buffer}, {})
    assert collected.columns()["value"].tolist() == [1, 1, 2, 2]


def test_batches_of_different_shapes_become_lists_rather_than_a_failure():
    collected = Collected()
    collected.add([0], {"boxes": np.zeros((1, 3))}, {})
    collected.add([1], {"boxes": np.zeros((1, 5))}, {})
    assert [len(each) for each in collected.columns()["boxes"]] == [3, 5]


def test_whatever_a_library_makes_of_an_input_is_an_error_of_that_input():
    class Odd(Numbers):
        def read(self, position):
            if position == 1:
                raise OverflowError("date value out of range")
            return position

    intake = Intake(Odd(3), Prepare(), Stopwatch())
    assert [entry.error for entry in intake.take(3)] == [None, "OverflowError: date value out of range", None]


def test_a_runtime_that_somebody_chose_is_not_replaced_in_silence():
    holding = Holding(Models(as_given=Double(), openvino=Unusable("no such operator")), pinned=True)
    with pytest.raises(
        Failed, match=r"openvino, which tune\.runtime asks for, cannot be used: no such operator"
    ):
        holding.get(Setting("openvino", 4, 1), lambda: None, Task().loading)


def test_a_batch_that_the_model_itself_cannot_take_is_not_blamed_on_the_runtime():
    class Picky(Double):
        def predict(self, batch):
            if (batch == 2).any():
                raise ValueError("two")
            return super().predict(batch)

    made, _ = predicting(as_given=Picky(), openvino=Picky())
    task = Task()
    made.run(Setting("openvino", 4, 1), taken(4), task)
    assert [position for position, _ in task.collected.errors] == [2]
    assert made.holding.unusable == {}


def test_memory_for_batches_that_are_much_larger_is_given_back_once():
    model = Double()
    made, _ = predicting(as_given=model)
    holding = made.holding
    for batch in (64, 32, 8, 8):
        holding.expect(batch)
        made.run(Setting("as-given", batch, 1), taken(batch), Task())
        holding.counts("as-given", 1, batch)
    assert model.released == 1

"""The tuner of inference: what it makes of what it is told, what it remembers, and what it never does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.simulated import GIB, MIB, Node, measured, resnet
from shoal.model.advice import Advice, Heard, Machine, Measured, Setting, Space
from shoal.planner.tuner.batches import MARGIN, Memory
from shoal.planner.tuner.tuner import Tuner

RUNTIMES = ("as-given", "frozen", "onnxruntime", "openvino")


# Memory.


def test_memory_that_suffices_for_few_workers_leaves_the_others_without_items() -> None:
    surface = resnet(cpu=8, memory_bytes=3 * GIB)._replace(
        memory=lambda setting: (700 * MIB + 4 * MIB * setting.batch, 0)
    )
    node = Node(surface, Tuner(surface.space()), 0)
    node.run(3000)
    _, workers = node.tuner.chosen()
    assert workers <= 3
    assert node.tuner.active(8) == workers
    assert node.peak <= 1 - MARGIN
    assert surface.node(*node.tuner.chosen()) >= 0.95 * surface.node(*surface.best())


def test_after_out_of_memory_the_batch_stays_below_and_the_next_run_knows() -> None:
    tuner = Tuner(Space(("as-given",), Machine(2, 8 * GIB)))
    tuner.tell(0, Heard((measured(Setting("as-given", 64, 1), 1000.0),)))
    tuner.tell(0, Heard(out_of_memory=(Setting("as-given", 64, 1),)))
    later = Tuner(Space(("as-given",), Machine(2, 8 * GIB)), as_json(tuner.document()))
    for each in (tuner, later):
        for worker in range(20):
            assert all(step.setting.batch <= 32 for step in each.ask(worker, 4096, None).steps)


def test_where_a_worker_found_no_room_there_is_one_less() -> None:
    space = Space(("as-given",), Machine(8, 64 * GIB, 1, 48 * GIB))
    tuner = Tuner(space)
    assert tuner.active(8) == 8
    for worker in range(8):
        tuner.ask(worker, 8, 100_000)
    tuner.lost(7, suspicious=False, crowded=True)
    assert tuner.active(8) == 7
    tuner.tell(0, Heard((measured(Setting("as-given", 4, 1), 1000.0, workers=7),)))
    tuner.ask(6, 8, 100_000)
    tuner.lost(6, suspicious=False, crowded=True)
    assert tuner.active(8) <= 6


def test_the_first_worker_that_is_up_counts_those_that_still_start() -> None:
    tuner = Tuner(Space(("as-given",), Machine(8, 64 * GIB, 1, 48 * GIB)))
    tuner.active(1)
    assert tuner.ask(0, 8, 100_000)[1:] == (1, 8, 8)
    tuner.active(2)
    tuner.ask(1, 8, 100_000)
    tuner.active(8)
    tuner.lost(1, suspicious=False, crowded=True)
    assert tuner.active(8) == 7


def test_a_batch_that_kills_workers_is_not_tried_for_ever() -> None:
    assert deaths_by_batches(suspicious=True) <= 4  # Four at once, two at once: twice each.


def test_workers_that_die_for_another_reason_say_nothing_about_their_batch() -> None:
    assert deaths_by_batches(suspicious=False) > 10


def deaths_by_batches(*, suspicious: bool) -> int:
    """How often a worker was told to take more than one input at once, and died with it."""
    tuner = Tuner(Space(("as-given",), Machine(1, 64 * GIB)))
    tuner.active(1)
    tuner.ask(0, 8, 100_000)
    tuner.tell(0, Heard((measured(Setting("as-given", 1, 1), 1000.0, workers=1),)))
    deaths = 0
    for _ in range(50):
        tuner.active(1)
        advice = tuner.ask(0, 500, 100_000)
        if any(step.setting.batch > 1 for step in advice.steps):
            deaths += 1
            tuner.lost(0, suspicious=suspicious)
        else:
            tuner.tell(0, Heard((measured(Setting("as-given", 1, 1), 1000.0, workers=1),)))
    return deaths


# Runtimes.


def test_a_runtime_that_cannot_be_used_gets_no_more_inputs() -> None:
    tuner = Tuner(Space(RUNTIMES, Machine(2, 8 * GIB)))
    tuner.tell(0, Heard((measured(Setting("as-given", 1, 1), 5.0),), {"as-given": 0.5}))
    advice = tuner.ask(0, 100, 100_000)
    tried = advice.steps[0].setting.runtime
    assert tried == "openvino"
    tuner.tell(0, Heard(unusable={tried: "an operation is missing"}))
    for worker in range(30):
        assert all(step.setting.runtime != tried for step in tuner.ask(worker, 100, 100_000).steps)
    assert "openvino cannot be used: an operation is missing" in tuner.decisions()[0].why
    assert tuner.document()["unusable"] == {"openvino": "an operation is missing"}


def test_what_a_worker_was_trying_when_it_died_is_tried_by_another() -> None:
    tuner = Tuner(Space(("as-given", "openvino"), Machine(2, 8 * GIB)))
    tuner.tell(0, Heard((measured(Setting("as-given", 1, 1), 5.0),), {"as-given": 0.5}))
    assert tuner.ask(0, 16, 100_000).steps[0].setting.runtime == "openvino"
    assert tuner.ask(1, 16, 100_000).steps[0].setting.runtime == "as-given"
    tuner.lost(0)
    assert tuner.ask(1, 16, 100_000).steps[0].setting.runtime == "openvino"


def test_a_worker_does_not_load_a_runtime_for_the_last_few_inputs() -> None:
    tuner = Tuner(Space(("as-given", "openvino"), Machine(2, 8 * GIB)))
    tuner.tell(0, Heard((measured(Setting("as-given", 1, 1), 5.0),), {"as-given": 0.5}))
    tuner.tell(1, Heard((measured(Setting("openvino", 1, 1), 12.0),) * 3, {"openvino": 6.0}))
    assert tuner.chosen()[0].runtime == "openvino"
    assert tuner.ask(0, 10, 20).steps[-1].setting.runtime == "as-given"
    assert tuner.ask(0, 10, 20_000).steps[-1].setting.runtime == "openvino"


def test_a_runtime_that_differs_little_in_rate_is_reported_with_its_difference() -> None:
    tuner = Tuner(Space(("openvino",), Machine(2, 8 * GIB)))
    heard = Heard((measured(Setting("openvino", 1, 1), 5.0),), differences={"openvino": 1e-6})
    tuner.tell(0, heard)
    tuner.tell(1, heard._replace(differences={"openvino": 3e-6}))
    assert tuner.document()["differences"] == {"openvino": 3e-6}


# Items.


def test_items_are_small_at_first_and_as_long_as_asked_for_in_the_end() -> None:
    surface = resnet()
    node = Node(surface, Tuner(surface.space()), 0)
    assert node.tuner.rows_for(5.0) <= 8
    node.run(3000)
    setting, _ = node.tuner.chosen()
    expected = 5.0 * surface.each(setting, 2)[0]
    assert node.tuner.rows_for(5.0) == pytest.approx(expected, abs=2 * setting.batch)
    assert node.tuner.rows_for(5.0) % setting.batch == 0
    assert node.tuner.rows_for(1e9) == surface.space().largest_item


def test_items_that_were_too_short_to_measure_grow() -> None:
    tuner = Tuner(Space(("as-given",), Machine(1, 8 * GIB), batch=8))
    first = tuner.rows_for(5.0)
    assert first >= 16
    tuner.ask(0, first, None)
    tuner.tell(0, Heard())
    assert tuner.rows_for(5.0) > first


# What is remembered and told.


def test_a_known_profile_is_used_from_the_first_item_on() -> None:
    surface = resnet()
    node = Node(surface, Tuner(surface.space()), 0)
    node.run(3000)
    chosen = node.tuner.chosen()
    tuner = Tuner(surface.space(), as_json(node.tuner.document()))
    assert tuner.settled()
    assert tuner.chosen() == chosen
    again = Node(surface, tuner, 1)
    seconds = again.run(3000)
    assert again.log[0][3][1] == 1
    assert [step.setting for step in again.log[0][3].steps] == [chosen[0]]
    elsewhere = sum(step.setting != chosen[0] for _, _, _, advice in again.log for step in advice.steps)
    assert elsewhere <= len(again.log) / 3
    best, workers = surface.best()
    assert seconds <= 1.04 * (3000 / surface.node(best, workers) + surface.load_s[best.runtime])


def test_a_batch_of_the_last_run_for_which_memory_no_longer_suffices_is_given_up() -> None:
    space = Space(("as-given",), Machine(2, 64 * GIB, 1, 16 * GIB))
    first = Tuner(space)
    for batch in (4, 16, 64, 256, 512):
        for _ in range(4):
            tell_measured(first, Setting("as-given", batch, 1), 10.0 * batch)
    assert first.chosen()[0].batch == 512
    tuner = Tuner(space, as_json(first.document()))
    for _ in range(8):
        tuner.active(2)
        tuner.ask(0, 4096, 10**6)
        ran_out = Setting("as-given", 512, tuner.chosen()[0].threads)
        small = measured(ran_out._replace(batch=256), 100.0, workers=2)
        tuner.tell(0, Heard((small,), out_of_memory=(ran_out,)))
    assert tuner.chosen()[0].batch <= 256
    assert tuner.rate_of_worker() == pytest.approx(100.0, rel=0.1)


def tell_measured(tuner: Tuner, setting: Setting, rate: float) -> None:
    tuner.active(2)
    advice = tuner.ask(0, 4096, 10**6)
    threads = advice.steps[-1].setting.threads
    heard = measured(setting._replace(threads=threads), rate, workers=advice.workers)
    tuner.tell(0, Heard((heard,)))


def test_a_given_batch_larger_than_any_item_is_measured_all_the_same() -> None:
    tuner = Tuner(Space(("as-given", "openvino"), Machine(1, 8 * GIB), batch=64))
    seen = set()
    for _ in range(20):
        tuner.active(1)
        advice = tuner.ask(0, 50, 10**6)
        setting = advice.steps[-1].setting
        seen.add(setting.runtime)
        tuner.tell(0, Heard((measured(setting._replace(batch=50), 100.0, workers=1),)))
    assert tuner.rate_of_worker() == pytest.approx(100.0, rel=0.1)
    assert seen == {"as-given", "openvino"}


def test_what_killed_workers_may_have_been_an_input_so_the_next_run_tries_the_batch_again() -> None:
    space = Space(("as-given",), Machine(1, 64 * GIB, 1, 80 * GIB))
    tuner = Tuner(space)
    for _ in range(2):
        tuner.active(1)
        first = tuner.ask(0, 16, 10**6).steps[0].setting.batch
        tuner.lost(0)
    assert tuner.ask(0, 16, 10**6).steps[0].setting.batch < first
    assert Tuner(space, as_json(tuner.document())).ask(0, 16, 10**6).steps[0].setting.batch == first


def test_a_profile_of_other_wishes_is_used_as_far_as_they_permit() -> None:
    surface = resnet()
    node = Node(surface, Tuner(surface.space()), 0)
    node.run(3000)
    document = as_json(node.tuner.document())
    pinned = Tuner(surface.space(batch=3, workers=1), document)
    assert pinned.chosen() == (Setting("openvino", 3, 2), 1)
    gone = Tuner(surface.space()._replace(runtimes=("as-given", "frozen")), document)
    assert gone.chosen()[0].runtime == "as-given"
    for garbage in (
        {},
        {"version": 1},
        {"version": 1, "memory": 3},
        {"version": "x"},
        document | {"chosen": []},
    ):
        assert not Tuner(surface.space(), garbage).settled()


def test_a_runtime_that_was_installed_since_is_tried() -> None:
    surface = resnet()
    fewer = surface.space()._replace(runtimes=("as-given", "frozen"))
    node = Node(surface, Tuner(fewer), 0)
    node.run(3000)
    again = Node(surface, Tuner(surface.space(), as_json(node.tuner.document())), 1)
    again.run(6000)
    assert again.tuner.chosen()[0].runtime == "openvino"


def test_a_runtime_that_could_not_be_used_is_tried_again_in_the_next_run() -> None:
    given, space = Setting("as-given", 1, 1), Space(("as-given", "openvino"), Machine(2, 8 * GIB))
    tuner = Tuner(space)
    tuner.tell(0, Heard((measured(given, 5.0),), {"as-given": 0.5}))
    tuner.tell(1, Heard((measured(given._replace(runtime="openvino"), 4.5),)))
    tuner.tell(1, Heard(differences={"openvino": 0.5}, unusable={"openvino": "it differs by 0.5"}))
    later = Tuner(space, as_json(tuner.document()))
    later.tell(0, Heard((measured(given, 5.0),)))
    assert later.ask(0, 100, 100_000).steps[0].setting.runtime == "openvino"
    later.tell(0, Heard(differences={"openvino": 1e-6}))
    assert later.document()["differences"] == {"openvino": 1e-6}
    assert later.document()["unusable"] == {}


def test_every_decision_has_its_figures() -> None:
    surface = resnet()
    node = Node(surface, Tuner(surface.space()), 0)
    before = {each.name: each.why for each in node.tuner.decisions()}
    assert before["runtime"] == "nothing is measured yet"
    node.run(3000)
    decisions = {each.name: each for each in node.tuner.decisions()}
    assert list(decisions) == ["runtime", "batch", "threads", "workers", "memory"]
    assert decisions["runtime"].choice == "openvino"
    assert "as-given is slower" in decisions["runtime"].why
    assert "inputs/s a worker by batch: 1: " in decisions["batch"].why
    assert "1 x 2 threads: " in decisions["threads"].why
    assert "of 8.0 GiB, of which 20% stay free" in decisions["memory"].why


def test_the_document_has_the_measured_curve() -> None:
    surface = resnet()
    node = Node(surface, Tuner(surface.space()), 0)
    node.run(3000)
    document = as_json(node.tuner.document())
    [point] = [
        each
        for each in document["points"]
        if (each["runtime"], each["batch"], each["threads"], each["workers"])
        == tuple(document["chosen"][name] for name in ("runtime", "batch", "threads", "workers"))
    ]
    assert point["node_rate"] == pytest.approx(2 * point["rate"])
    assert point["node_rate"] == document["chosen"]["rate"]
    assert point["rows"] > 500
    assert document["load_s"]["openvino"] == 6.0


def test_the_same_calls_give_the_same_answers() -> None:
    surface = resnet()
    logs = []
    for _ in range(2):
        node = Node(surface, Tuner(surface.space()), 5)
        node.run(2000)
        logs.append(node.log)
    assert logs[0] == logs[1]


# What never happens.

counts = st.integers(1, 16)
machines = st.builds(
    Machine,
    counts,
    st.integers(GIB // 2, 64 * GIB),
    st.integers(0, 2),
    st.sampled_from([0, 8 * GIB, 80 * GIB]),
    st.integers(0, 20),
)
spaces = st.builds(
    Space,
    st.lists(st.sampled_from(RUNTIMES), min_size=1, unique=True).map(tuple),
    machines,
    batch=st.none() | st.integers(1, 64),
    threads=st.none() | st.integers(1, 4),
    workers=st.none() | st.integers(1, 20),
    largest_batch=st.integers(1, 256),
    largest_item=st.just(4096),
)


@settings(max_examples=150)
@given(spaces, st.data())
def test_whatever_is_told_in_any_order_pins_ranges_and_memory_are_kept(space: Space, data: Any) -> None:
    tuner = Tuner(space)
    ran_out = False
    for _ in range(data.draw(st.integers(1, 25))):
        call = data.draw(st.sampled_from(["ask", "ask", "tell", "lost", "active"]))
        worker = data.draw(st.integers(0, 3))
        if call == "ask":
            rows, left = data.draw(st.integers(1, 5000)), data.draw(st.none() | st.integers(0, 10**6))
            check(space, tuner, tuner.ask(worker, rows, left))
        elif call == "tell":
            heard = data.draw(heards(space))
            ran_out = ran_out or any(setting.batch == 1 for setting in heard.out_of_memory)
            tuner.tell(worker, heard)
        elif call == "lost":
            tuner.lost(worker)
        else:
            alive = data.draw(st.integers(0, 20))
            active = tuner.active(alive)
            assert min(1, alive) <= active <= alive
            assert space.workers is None or active <= space.workers
            assert space.workers is None or ran_out or active == min(alive, space.workers)
        assert 1 <= tuner.rows_for(data.draw(st.floats(0.0, 100.0))) <= space.largest_item
    again = Tuner(space, as_json(tuner.document()))
    assert as_json(again.document())["points"] is not None
    check(space, again, again.ask(0, 100, 1000))
    if tuner.settled() and tuner.rate() is not None:
        assert again.chosen() == tuner.chosen()
    assert len(tuner.decisions()) == 5


@settings(max_examples=30)
@given(st.integers(0, 1000), st.sampled_from(["batch", "threads", "workers"]), st.integers(1, 3))
def test_a_pin_is_kept_for_a_whole_run(seed: int, name: str, value: int) -> None:
    surface = resnet(cpu=2)
    node = Node(surface, Tuner(surface.space(**{name: value})), seed, workers=4)
    node.run(400)
    for _, _, _, advice in node.log:
        for step in advice.steps:
            assert name == "workers" or getattr(step.setting, name) == value
    if name == "workers":
        assert node.tuner.chosen()[1] == value
        assert max(worker for _, worker, _, _ in node.log) == value - 1


def check(space: Space, tuner: Tuner, advice: Advice) -> None:
    """What holds for every advice."""
    assert advice.steps
    assert Advice.read(as_json(advice.plain())) == advice
    memory = Memory(space.machine)
    memory.read(as_json(tuner.document()["memory"]))
    for step in advice.steps:
        runtime, batch, threads = step.setting
        assert runtime in space.runtimes
        assert 1 <= batch <= max(space.largest_batch, space.batch or 1)
        assert space.batch in (None, batch)
        assert space.threads in (None, threads)
        assert threads >= 1
        if space.workers is None and space.threads is None:
            assert advice.workers * threads <= space.machine.cpu
            assert advice.workers <= (space.machine.places or space.machine.cpu)
        assert batch == 1 or space.batch or memory.holds(runtime, batch, advice.workers)


def heards(space: Space) -> st.SearchStrategy[Heard]:
    names = st.sampled_from(space.runtimes)
    settings_ = st.builds(Setting, names, st.integers(1, 256), st.integers(1, 16))
    each = st.builds(
        Measured,
        settings_,
        st.integers(1, 16),
        st.integers(0, 5000),
        st.floats(0.0, 100.0),
        st.floats(0.0, 100.0),
        st.integers(0, 16 * GIB),
        st.integers(0, 16 * GIB),
    )
    return st.builds(
        Heard,
        st.lists(each, max_size=3).map(tuple),
        st.dictionaries(names, st.floats(0.0, 20.0), max_size=2),
        st.dictionaries(names, st.floats(0.0, 1.0), max_size=1),
        st.dictionaries(names, st.just("broken"), max_size=1),
        st.lists(settings_, max_size=1).map(tuple),
    )


def as_json(document: Any) -> Any:
    return json.loads(json.dumps(document, allow_nan=False))


def test_the_last_items_say_nothing_about_rates_as_others_are_idle() -> None:
    tuner = Tuner(Space(("as-given",), Machine(2, 8 * GIB)))
    tuner.active(2)
    setting = tuner.chosen()[0]
    for worker in (0, 1, 0, 1):
        tuner.ask(worker, 100, 100_000)
        tuner.tell(worker, Heard((measured(setting, 100.0),)))
    for worker in (0, 1, 0, 1):
        tuner.ask(worker, 100, 150)
        tuner.tell(worker, Heard((measured(setting, 190.0),)))
    assert tuner.rate_of_worker() == pytest.approx(100.0)
    for worker in (0, 1, 0, 1):
        tuner.ask(worker, 100, 1000)
        tuner.tell(worker, Heard((measured(setting, 190.0),)))
    assert tuner.rate_of_worker() != pytest.approx(100.0)


def test_batches_at_a_gpu_have_sizes_that_it_computes_without_waste() -> None:
    machine = Machine(2, 8 * GIB, 1, 16 * GIB)
    tuner = Tuner(Space(("as-given",), machine, largest_batch=100))
    asked = set()
    for number in range(40):
        advice = tuner.ask(0, 4096, 1_000_000)
        asked |= {step.setting.batch for step in advice.steps}
        points = (measured(step.setting, 1000.0 + number % 3) for step in advice.steps)
        tuner.tell(0, Heard(tuple(points)))
    assert {batch for batch in asked if batch > 32} == {64, 96}
    given = Tuner(Space(("as-given",), machine, batch=100))
    assert given.ask(0, 4096, 1_000_000).steps[0].setting.batch == 100


def test_every_gpu_of_a_node_is_used_however_large_the_model_is() -> None:
    machine = Machine(8, 512 * GIB, 4, 80 * GIB, places=4)
    tuner = Tuner(Space(("as-given",), machine))
    assert tuner.active(4) == 4
    large = measured(Setting("as-given", 4, 2), 10.0, workers=4)._replace(device_bytes=60 * GIB)
    tuner.tell(0, Heard((large,)))
    assert tuner.active(4) == 4
    assert tuner.ask(0, 100, 100_000).sharing == 1

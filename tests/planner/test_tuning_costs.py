"""What tuning costs, and what it finds: whole runs of the tuner on simulated nodes, over seeds of noise."""

from __future__ import annotations

import statistics

import pytest

from planner.simulated import (
    ALONE,
    GIB,
    Node,
    Surface,
    alone,
    compare,
    contended,
    crowded_gpu,
    filled_up,
    gpu,
    h200,
    resnet,
    tiny,
)
from shoal.model.advice import Heard
from shoal.planner.scalability import Usl
from shoal.planner.tuner.tuner import Tuner

RUNTIMES = ("as-given", "frozen", "onnxruntime", "openvino")
QUICK_LOADS = {"as-given": 0.5, "frozen": 1.0, "onnxruntime": 2.0, "openvino": 3.0}


@pytest.fixture(params=[2, pytest.param(6, marks=pytest.mark.long)], ids=["two seeds", "six seeds"])
def seeds(request: pytest.FixtureRequest) -> range:
    return range(request.param)


@pytest.mark.parametrize(
    ("surface", "apart_s", "regret"),
    [
        (resnet(), 0.1, 0.05),
        (tiny(), 0.1, 0.05),
        (resnet(memory_bytes=3 * GIB // 2), 0.1, 0.05),
        (resnet(loads=QUICK_LOADS, threading=1.12), 0.1, 0.06),
        (resnet(cpu=4, law=contended), 4.0, 0.08),
    ],
    ids=["large model", "small model", "little memory", "threads beat workers", "contention"],
)
def test_little_is_lost_by_tuning_and_the_choice_is_close_to_the_best_of_the_grid(
    surface: Surface, apart_s: float, regret: float, seeds: range
) -> None:
    results = [compare(surface, seed, apart_s=apart_s) for seed in seeds]
    assert statistics.mean(result.regret for result in results) <= regret
    assert max(result.regret for result in results) <= regret + 0.05  # Noise is different in both runs.
    assert min(result.choice for result in results) >= 0.95


@pytest.mark.long
def test_the_same_holds_for_a_gpu_that_many_workers_have_to_decode_for() -> None:
    for seed in range(2):
        result = compare(gpu(), seed, best_s=60.0)
        assert result.regret <= 0.15  # The workers come one step after the other, and each has to load.
        assert result.choice >= 0.95
        assert result.tuner.chosen()[1] == 16


def test_a_gpu_is_used_well_although_its_cores_cannot_keep_it_busy(seeds: range) -> None:
    # With 7, 9 and 10, noise alone would lead to a batch of 128.
    results = [compare(h200(), (9, 10, 7, 6, 8, 11)[seed], best_s=25.0) for seed in seeds]
    for result in results:
        setting, workers = result.tuner.chosen()
        assert alone(setting.batch) >= 0.95 * max(ALONE.values())
        assert workers == 16
        assert result.choice >= 0.95
        assert result.regret <= 0.05


@pytest.mark.long
@pytest.mark.parametrize("gib", [8, 18, 24])
def test_a_gpu_with_little_memory_is_shared_by_fewer_workers_with_batches_that_pay(gib: int) -> None:
    """With 18 GiB, 16 workers have room for batches of 4."""
    results = [compare(h200(gib=gib), seed, best_s=45.0) for seed in range(2)]
    for result in results:
        assert result.tuner.chosen()[0].batch >= 32
        assert result.choice >= 0.95
        assert result.regret <= 0.1


@pytest.mark.long
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "unknown"])
def test_fewer_workers_are_tried_at_a_gpu_that_all_wait_for_once_it_pays(is_known: bool) -> None:
    """Also where the end is not known for long: then later."""
    surface = crowded_gpu()
    tuner = Tuner(surface.space())
    seconds = Node(surface, tuner, 0, is_end_known=is_known).run(3_000_000)
    assert tuner.chosen()[1] <= 4
    best = 3_000_000 / surface.node(*surface.best())
    assert seconds <= best * (1.1 if is_known else 1.2)


@pytest.mark.parametrize("rows", [24, 64])
def test_a_model_that_takes_a_fixed_number_of_inputs_gets_as_many(rows: int) -> None:
    result = compare(filled_up(rows), 0)
    assert result.tuner.chosen()[0].batch % rows == 0
    assert result.choice >= 0.95
    assert result.regret <= 0.1
    late = [step for now, _, _, advice in result.node.log if now > 15.0 for step in advice.steps]
    assert all(step.setting.batch % rows == 0 for step in late)
    assert result.tuner.settled()


@pytest.mark.parametrize("item_s", [2.0, 10.0])
def test_it_does_not_matter_much_how_long_items_are(item_s: float, seeds: range) -> None:
    results = [compare(resnet(), seed, item_s=item_s) for seed in seeds]
    assert statistics.mean(result.regret for result in results) <= 0.055
    assert min(result.choice for result in results) >= 0.95


@pytest.mark.parametrize("best", RUNTIMES)
def test_the_fastest_runtime_is_found_whichever_it_is(best: str) -> None:
    rates = {name: 12.0 if name == best else 6.0 for name in RUNTIMES}
    surface = resnet(rates)
    for seed in range(3):
        node = Node(surface, Tuner(surface.space()), seed)
        node.run(12_000)
        setting, _ = node.tuner.chosen()
        assert setting.runtime == best


def test_a_short_run_of_a_small_model_is_not_slower_than_without_tuning() -> None:
    surface = tiny()
    plain = surface.space()._replace(runtimes=("as-given",))
    for rows in (1, 10, 100, 1000):
        untuned = Node(surface, Tuner(plain), 0, noise=0.0).run(rows)
        assert Node(surface, Tuner(surface.space()), 0, noise=0.0).run(rows) <= untuned * 1.01


def test_runtimes_that_no_worker_has_cost_next_to_nothing() -> None:
    for surface in (resnet(), tiny()):
        plain = surface.space()._replace(runtimes=("as-given",))
        best_s = 60.0
        rows = round(surface.node(*surface.best()) * best_s)
        alone = Node(surface, Tuner(plain), 0, noise=0.0).run(rows)
        node = Node(surface, Tuner(surface.space()), 0, noise=0.0, lacking=RUNTIMES[1:])
        assert node.run(rows) <= 1.02 * alone
        assert node.tuner.chosen()[0].runtime == "as-given"
        tried = [step.setting.runtime for *_, advice in node.log for step in advice.steps]
        assert sum(name != "as-given" for name in tried) <= 6, "each is tried once, by few workers"


def test_a_short_run_of_a_large_model_tries_nothing_that_it_cannot_earn_back() -> None:
    surface = resnet()
    plain = surface.space()._replace(runtimes=("as-given",))
    for rows in (20, 60):
        untuned = Node(surface, Tuner(plain), 0, noise=0.0).run(rows)
        assert Node(surface, Tuner(surface.space()), 0, noise=0.0).run(rows) <= untuned * 1.05


def test_a_batch_climbs_fast_where_larger_ones_are_a_lot_better() -> None:
    surface = gpu(8000.0)
    node = Node(surface, Tuner(surface.space(workers=4)), 0)
    node.run(600_000)
    reached = next(now for now, _, _, advice in node.log if advice.steps[-1].setting.batch >= 256)
    assert reached < 3.0 + 5.0  # Loading takes three seconds.
    assert node.tuner.chosen()[0].batch >= 512


def test_workers_that_hinder_each_other_are_seen_in_the_law() -> None:
    surface = resnet(cpu=4, law=contended, memory_bytes=64 * GIB)
    node = Node(surface, Tuner(surface.space()), 1, apart_s=4.0, noise=0.01)
    node.run(6000)
    law = Usl(**node.tuner.document()["usl"])
    assert law.gain(4) < 0.08  # A quarter, if nothing stood in its way.


def test_what_has_changed_is_tuned_again() -> None:
    surface = resnet({"as-given": 10.0}, {"as-given": 0.5})
    node = Node(surface, Tuner(surface.space()), 3)
    states: list[bool] = []
    node.slowdown = lambda now: 1.0 if now < 100 else 0.4
    tell = node.tuner.tell

    def told(worker: int, heard: Heard) -> None:
        tell(worker, heard)
        states.append(node.tuner.settled())

    node.tuner.tell = told  # type: ignore[method-assign]
    node.run(6000)
    first = states.index(True)
    again = states.index(False, first)
    assert True in states[again:]
    rate = node.tuner.rate()
    assert rate is not None
    assert rate == pytest.approx(0.4 * surface.node(*node.tuner.chosen()), rel=0.1)


def test_fewer_workers_than_cores_are_tuned_all_the_same() -> None:
    surface = resnet(cpu=4)
    node = Node(surface, Tuner(surface.space()), 0, workers=2)
    node.run(3000)
    assert node.settled_s is not None
    rate = node.tuner.rate()
    assert rate is not None
    assert rate == pytest.approx(surface.node(node.tuner.chosen()[0], 2), rel=0.15)

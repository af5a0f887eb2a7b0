"""How fast short trials go: against `concurrent.futures`, against the ideal, and many against few."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import trials
from figures import Figure
from workbench import Driven, Spread, Workbench

WORKERS = 2
CHUNK = 64
COLUMNS = ("number", "rate")


class Sizes(NamedTuple):
    trials: int = 5000
    repetitions: int = 9
    waits: int = 200
    wait_repetitions: int = 3
    few: int = 1000
    few_repetitions: int = 7
    many: int = 100_000


QUICK = Sizes(200, 1, 12, 1, 100, 2, 1000)


def against_executor(bench: Workbench, sizes: Sizes) -> Iterator[Figure]:
    """(a) Trials that do nothing, recorded durably, against an executor that records nothing."""
    workload = _nothing(bench, "nothing", sizes.trials)
    rows = list(_dicts(sizes.trials))
    ours, submitted, mapped = [], [], []
    for _ in range(sizes.repetitions):
        submitted.append(sizes.trials / _executor(_submit, rows))
        ours.append(sizes.trials / _whole(bench.drive(workload), sizes.trials))
        mapped.append(sizes.trials / _executor(_map, rows))
    rates = Spread.of(ours)
    for name, others, target in (("submit", submitted, 1.0), (f"map(chunksize={CHUNK})", mapped, None)):
        other = Spread.of(others)
        yield Figure(
            "a",
            f"{sizes.trials} no-op trials, rate against ProcessPoolExecutor.{name}",
            rates.median / other.median,
            at_least=target,
            how=f"{rates.words('.0f', '/s')} against {other.words('.0f', '/s')}",
        )


def against_ideal(bench: Workbench, sizes: Sizes) -> Iterator[Figure]:
    """(b) Trials of 50 ms on two workers."""
    rows = [(50, number) for number in range(1, sizes.waits + 1)]
    workload = bench.workload("waits", ("milliseconds", "number"), rows, "function: trials:wait")
    ideal = sizes.waits * 0.05 / WORKERS
    seconds = [_whole(bench.drive(workload), sizes.waits) for _ in range(sizes.wait_repetitions)]
    took = Spread.of(seconds)
    yield Figure(
        "b",
        f"{sizes.waits} trials of 50 ms on {WORKERS} workers, against the ideal {ideal:.1f} s",
        took.median / ideal,
        at_most=1.05,
        how=took.words(".3f", " s"),
    )


def many_against_few(bench: Workbench, sizes: Sizes) -> Iterator[Figure]:
    """(e) What one trial costs among many, against among few."""
    few, many = _nothing(bench, "few", sizes.few), _nothing(bench, "many", sizes.many)
    before = sizes.few_repetitions // 2
    costs = [_whole(bench.drive(few), sizes.few) / sizes.few for _ in range(before)]
    cost_of_many = _whole(bench.drive(many), sizes.many) / sizes.many
    costs += [_whole(bench.drive(few), sizes.few) / sizes.few for _ in range(sizes.few_repetitions - before)]
    cost = Spread.of([seconds * 1e6 for seconds in costs])
    yield Figure(
        "e",
        f"cost of a trial among {sizes.many}, against among {sizes.few}",
        cost_of_many * 1e6 / cost.median,
        at_most=1.3,
        how=f"{cost_of_many * 1e6:.0f} us against {cost.words('.0f', ' us')}",
    )


def _nothing(bench: Workbench, name: str, count: int) -> Path:
    rows = (tuple(row.values()) for row in _dicts(count))
    return bench.workload(name, COLUMNS, rows, "function: trials:nothing")


def _dicts(count: int) -> Iterator[dict[str, float]]:
    return ({"number": number, "rate": number / 8} for number in range(1, count + 1))


def _whole(driven: Driven, count: int) -> float:
    if driven.done != count:
        raise RuntimeError(f"{driven.done} of {count} trials are done")
    return driven.seconds


def _executor(
    work: Callable[[ProcessPoolExecutor, list[dict[str, float]]], None], rows: list[dict[str, float]]
) -> float:
    """Seconds for all rows on an executor whose workers are up."""
    with ProcessPoolExecutor(WORKERS) as executor:
        for _ in executor.map(time.sleep, [0.05] * WORKERS):
            pass
        began = time.perf_counter()
        work(executor, rows)
        return time.perf_counter() - began


def _submit(executor: ProcessPoolExecutor, rows: list[dict[str, float]]) -> None:
    futures = [executor.submit(trials.nothing, **row) for row in rows]  # type: ignore[arg-type]
    for future in futures:
        future.result()


def _map(executor: ProcessPoolExecutor, rows: list[dict[str, float]]) -> None:
    for _ in executor.map(trials.nothing_of, rows, chunksize=CHUNK):
        pass

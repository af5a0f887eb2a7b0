"""A node that infers, simulated: cost surfaces, workers that load and measure, and the loop that hands out items."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from shoal.model.advice import Advice, Heard, Machine, Measured, Setting, Space, Step
from shoal.planner.tuner.tuner import Tuner

GIB = 1 << 30
MIB = 1 << 20
WARM_UP = 1
"""Batches after each change that a worker does not measure."""
CHUNK_S = 0.25


class Surface(NamedTuple):
    """What a node does with a setting. `each` gives the rate of one of so many workers, and the model's share."""

    machine: Machine
    load_s: Mapping[str, float]
    each: Callable[[Setting, int], tuple[float, float]]
    memory: Callable[[Setting], tuple[int, int]] = lambda setting: (400 * MIB + setting.batch * MIB, 0)
    largest_batch: int = 1024
    fixed_rows: int = 0
    """What the model takes at once: fewer are filled up."""

    def space(self, **given: int) -> Space:
        return Space(tuple(self.load_s), self.machine, largest_batch=self.largest_batch, **given)

    def node(self, setting: Setting, workers: int) -> float:
        return self.each(setting, workers)[0] * workers

    def grid(self) -> Iterator[tuple[Setting, int]]:
        """Every point that fits on the node."""
        cores = self.machine.cpu
        for workers in sorted({count for count in (1, 2, 3, 4, 6, 8, 12, 16) if count <= cores} | {cores}):
            for threads in sorted({1, max(1, cores // workers)}):
                for runtime, power in itertools.product(self.load_s, range(11)):
                    setting = Setting(runtime, 2**power, threads)
                    host, device = self.memory(setting)
                    fits = host * workers <= 0.8 * self.machine.memory_bytes
                    on_gpu = device * workers <= 0.8 * max(1, self.machine.gpu_memory_bytes)
                    if fits and on_gpu and setting.batch <= self.largest_batch:
                        yield setting, workers

    def best(self) -> tuple[Setting, int]:
        return max(self.grid(), key=lambda point: self.node(*point))


class Item:
    """An item in the hands of a worker: its steps are gone through in chunks."""

    def __init__(self, rows: int, advice: Advice) -> None:
        self.left = rows
        self.steps = list(advice.steps)
        self.workers = advice.workers
        self.measured: list[Measured] = []
        self.load_s: dict[str, float] = {}
        self.out_of_memory: list[Setting] = []
        self.unusable: dict[str, str] = {}
        self.step: Step | None = None
        self.step_left = 0
        self.warm = 0
        self.noise = 1.0


class Node:
    """A discrete-event loop over the workers of one node, with a clock of its own."""

    def __init__(
        self,
        surface: Surface,
        tuner: Tuner,
        seed: int,
        *,
        noise: float = 0.05,
        apart_s: float = 0.1,
        item_s: float = 5.0,
        workers: int | None = None,
        lacking: Collection[str] = (),
        is_end_known: bool = True,
    ) -> None:
        self.surface, self.tuner, self.noise, self.item_s = surface, tuner, noise, item_s
        self.lacking, self.is_end_known = lacking, is_end_known
        """Runtimes that no worker has."""
        self.random = random.Random(seed)
        self.count = workers or surface.machine.cpu
        self.now = 0.0
        self.alive: list[int] = []
        self.items: dict[int, Item] = {}
        self.loaded: dict[int, dict[str, set[int]]] = {}
        self.events = [(apart_s * worker, worker) for worker in range(self.count)]
        self.peak: float = 0.0
        self.left = 0
        self.slowdown: Callable[[float], float] = lambda now: 1.0
        self.settled_s: float | None = None
        self.log: list[tuple[float, int, int, Advice]] = []

    def run(self, rows: int) -> float:
        """Seconds until all rows are done."""
        self.left = rows
        heapq.heapify(self.events)
        while self.events:
            self.now, worker = heapq.heappop(self.events)
            if worker not in self.alive:
                self.alive.append(worker)
                self.loaded[worker] = {}
            elif worker in self.items and not self._go_on(worker):
                item = self.items.pop(worker)
                heard = Heard(
                    tuple(item.measured),
                    item.load_s,
                    {},
                    item.unusable,
                    tuple(item.out_of_memory),
                    self.surface.fixed_rows,
                )
                self.tuner.tell(worker, heard)
                if self.tuner.settled() and self.settled_s is None:
                    self.settled_s = self.now
            self._hand_out()
        assert self.left == 0
        return self.now

    def _hand_out(self) -> None:
        for worker in sorted(self.alive):
            active = self.tuner.active(len(self.alive))
            if worker in self.items or worker not in sorted(self.alive)[:active] or not self.left:
                continue
            share = math.ceil(self.left / (2 * active)) if self.left > active else 1
            rows = max(1, min(self.left, self.tuner.rows_for(self.item_s), share))
            advice = self.tuner.ask(worker, rows, self.left if self.is_end_known else None)
            self.log.append((self.now, worker, rows, advice))
            self.left -= rows
            self.items[worker] = Item(rows, advice)
            heapq.heappush(self.events, (self.now, worker))

    def _go_on(self, worker: int) -> bool:
        """Begin the next chunk of the worker's item; False when it is over."""
        item = self.items[worker]
        if item.left == 0:
            return False
        if item.step is None or (item.step_left == 0 and item.steps):
            self._next_step(worker, item)
            return True
        assert item.step is not None
        setting = item.step.setting
        busy = len(self.items)
        rate, share = self.surface.each(setting, busy)
        threads = sum(each.step.setting.threads for each in self.items.values() if each.step)
        rate *= min(1.0, self.surface.machine.cpu / max(1, threads)) * self.slowdown(self.now)
        rows = setting.batch * max(1, int(rate * CHUNK_S / setting.batch))
        rows = min(
            rows, item.left, item.step_left or item.left, WARM_UP * setting.batch if item.warm else item.left
        )
        seconds = rows / rate * item.noise
        item.left -= rows
        item.step_left = max(0, item.step_left - rows)
        if item.warm:
            item.warm = 0
        else:
            host, device = self.surface.memory(setting)
            self._measure(item, Measured(setting, item.workers, rows, seconds, seconds * share, host, device))
        self.peak = max(self.peak, self._held())
        heapq.heappush(self.events, (self.now + seconds, worker))
        return True

    def _held(self) -> float:
        held = [self.surface.memory(each.step.setting)[0] for each in self.items.values() if each.step]
        return sum(held) / self.surface.machine.memory_bytes

    def _next_step(self, worker: int, item: Item) -> None:
        step = item.steps.pop(0)
        if step.setting.runtime in self.lacking:
            item.unusable[step.setting.runtime] = "it is not installed"
            step = step._replace(setting=step.setting._replace(runtime="as-given"))
        host, device = self.surface.memory(step.setting)
        machine = self.surface.machine
        while step.setting.batch > 1 and (
            host * item.workers > machine.memory_bytes
            or device * item.workers > (machine.gpu_memory_bytes or math.inf)
        ):
            item.out_of_memory.append(step.setting)
            step = step._replace(setting=step.setting._replace(batch=step.setting.batch // 2))
            host, device = self.surface.memory(step.setting)
        item.step, item.step_left, item.warm = step, step.rows, 1
        item.noise = math.exp(self.random.gauss(0.0, self.noise))
        runtime, _, threads = step.setting
        # A worker keeps what it has loaded; with other threads, a part of the work is done again.
        before = self.loaded[worker].setdefault(runtime, set())
        load_s = self.surface.load_s[runtime]
        wait_s = 0.0 if threads in before else load_s / 5 if before else load_s
        if wait_s:
            item.load_s[runtime] = wait_s
        before.add(threads)
        heapq.heappush(self.events, (self.now + wait_s, worker))

    @staticmethod
    def _measure(item: Item, measured: Measured) -> None:
        if item.measured and item.measured[-1].setting == measured.setting:
            last = item.measured.pop()
            measured = measured._replace(
                rows=last.rows + measured.rows,
                seconds=last.seconds + measured.seconds,
                predict_s=last.predict_s + measured.predict_s,
            )
        item.measured.append(measured)


def measured(setting: Setting, rate: float, workers: int = 2) -> Measured:
    """What a worker tells of two seconds at this rate."""
    return Measured(setting, workers, round(rate * 2), 2.0, 1.9, 500 * MIB + setting.batch * MIB)


class Result(NamedTuple):
    regret: float
    """Seconds lost against the best fixed point, as a share of what that takes."""
    choice: float
    """What the chosen point does, as a share of what the best one does."""
    tuner: Tuner
    node: Node


def compare(
    surface: Surface, seed: int, best_s: float = 120.0, apart_s: float = 0.1, item_s: float = 5.0
) -> Result:
    """A tuned run against one that is pinned to the best point from the beginning."""
    best, workers = surface.best()
    rows = round(surface.node(best, workers) * best_s)
    space = surface.space(batch=best.batch, threads=best.threads, workers=workers)
    pinned = Node(
        surface, Tuner(space._replace(runtimes=(best.runtime,))), seed, apart_s=apart_s, item_s=item_s
    ).run(rows)
    node = Node(surface, Tuner(surface.space()), seed, apart_s=apart_s, item_s=item_s)
    tuned = node.run(rows)
    choice = surface.node(*node.tuner.chosen()) / surface.node(best, workers)
    return Result(tuned / pinned - 1, choice, node.tuner, node)


def _small_batches(batch: int) -> float:
    """A tenth more up to 8, then less and less."""
    power = math.log2(batch)
    return 1 + 0.1 * min(power, 3) / 3 - 0.03 * max(0.0, power - 3)


CPU_RATES = {"as-given": 5.4, "frozen": 7.0, "onnxruntime": 9.0, "openvino": 11.5}
CPU_LOADS = {"as-given": 0.5, "frozen": 1.5, "onnxruntime": 3.0, "openvino": 6.0}


def resnet(
    rates: Mapping[str, float] = CPU_RATES,
    loads: Mapping[str, float] = CPU_LOADS,
    *,
    threading: float = 0.9,
    cpu: int = 2,
    law: Callable[[int], float] = lambda cores: 1.0,
    memory_bytes: int = 8 * GIB,
) -> Surface:
    """A large model on processors: all of the time is the model's."""

    def each(setting: Setting, workers: int) -> tuple[float, float]:
        threads = setting.threads * threading ** math.log2(setting.threads)
        return rates[setting.runtime] * _small_batches(setting.batch) * threads * law(
            workers * setting.threads
        ), 0.97

    return Surface(
        Machine(cpu, memory_bytes), loads, each, lambda setting: (500 * MIB + 12 * MIB * setting.batch, 0)
    )


def tiny() -> Surface:
    """A small model: nearly all of the time goes to preparing the inputs, whatever runs it."""
    speed = {"as-given": 1.0, "frozen": 1.2, "onnxruntime": 1.5, "openvino": 1.8}

    def each(setting: Setting, workers: int) -> tuple[float, float]:
        predict_s = (0.03 / speed[setting.runtime] + 0.2 / setting.batch) / 1500
        total_s = 0.97 / 1500 + predict_s
        return setting.threads * 0.8 ** math.log2(setting.threads) / total_s, predict_s / total_s

    return Surface(Machine(2, 8 * GIB), CPU_LOADS, each)


def gpu(decoding: float = 1000.0) -> Surface:
    """One GPU and 16 cores: large batches, and workers that cannot decode fast enough alone."""

    def each(setting: Setting, workers: int) -> tuple[float, float]:
        device = 20_000 * setting.batch / (setting.batch + 100)
        decode = decoding * min(setting.threads, 16 / workers) ** 0.7
        rate = min(decode, device / workers)
        waiting = 1 + (workers - 1) / 2 * min(1.0, rate * workers / device)
        return rate, min(1.0, rate * waiting / device)

    return Surface(
        Machine(16, 256 * GIB, 1, 140 * GIB),
        {"as-given": 3.0, "onnxruntime": 4.0},
        each,
        lambda setting: (2 * GIB, 500 * MIB + 20 * MIB * setting.batch),
    )


def filled_up(rows: int) -> Surface:
    """A model on processors that takes so many at once, and computes as many whatever it gets."""

    def each(setting: Setting, workers: int) -> tuple[float, float]:
        computed = -(-setting.batch // rows) * rows / setting.batch
        predict_s = computed * {"as-given": 1.0, "frozen": 0.8}[setting.runtime] / 400
        total_s = 1 / 1500 + predict_s
        return setting.threads * 0.8 ** math.log2(setting.threads) / total_s, predict_s / total_s

    return Surface(Machine(2, 8 * GIB), {"as-given": 0.5, "frozen": 1.5}, each, fixed_rows=rows)


ALONE = {1: 620.0, 8: 4900.0, 32: 15_000.0, 128: 24_000.0, 256: 24_900.0, 512: 25_300.0, 1024: 25_600.0}
"""Images a second of a ResNet-50 in half precision on an H200, by batch, as measured."""


def alone(batch: int) -> float:
    """The same of any batch."""
    below = max(known for known in ALONE if known <= batch)
    above = min(known for known in ALONE if known >= batch)
    share = math.log(batch / below) / math.log(above / below) if above > below else 0.0
    return ALONE[below] * (ALONE[above] / ALONE[below]) ** share


def h200(decoding: float = 950.0, gib: int = 139) -> Surface:
    """That GPU with 16 cores, which decode less than it could take: beyond small batches all do nearly the same."""

    def each(setting: Setting, workers: int) -> tuple[float, float]:
        decoded = decoding * setting.threads**0.95
        device, rate, predict_s = alone(setting.batch), decoded, 0.0
        for _ in range(100):  # The more they do, the longer they wait for each other.
            busy = min(0.97, rate * (workers - 1) / device)
            predict_s = (1 + busy / (1 - busy) / 2) / device
            rate = (rate + min(device / workers, 1 / (1 / decoded + predict_s))) / 2
        return rate, min(1.0, rate * predict_s)

    return Surface(
        Machine(16, 128 * GIB, 1, gib * GIB),
        {"as-given": 5.0, "frozen": 2.0},
        each,
        lambda setting: (2 * GIB, 900 * MIB + setting.batch * 9 * MIB // 2),
    )


def crowded_gpu() -> Surface:
    """A GPU that is the limit, and the slower the more share it; it takes one that decodes with all cores."""

    def each(setting: Setting, workers: int) -> tuple[float, float]:
        device = 8000 * setting.batch / (setting.batch + 16) / (1 + 0.03 * max(0, workers - 4))
        decoded = 3000.0 * setting.threads
        rate = min(device / workers, 1 / (1 / decoded + 1 / device))
        return rate, 1 - rate / decoded

    memory = (2 * GIB, 900 * MIB)
    return Surface(Machine(16, 128 * GIB, 1, 139 * GIB), {"as-given": 5.0}, each, lambda _: memory)


def contended(cores: int) -> float:
    """What each of so many cores does when four do no more than three."""
    return (1.0, 1.0, 0.97, 0.9, 0.675)[cores] if cores <= 4 else 2.7 / cores

"""The tuners of a running inference, one for each kind of node, and what was kept of them. Decides nothing itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shoal.engine import room
from shoal.engine.workers.runner import now
from shoal.model import Decision, Item, Need, Node
from shoal.model.advice import AS_GIVEN, Advice, Heard, Machine, Space
from shoal.planner.scalability import Watch
from shoal.planner.tuner.tuner import Tuner
from shoal.spec import Tune
from shoal.work.infer.item_fields import ADVICE, CAREFULLY_FROM, COMPARE, COUNT, TURN
from shoal.work.job import Learned

ITEM_S = 3.0
"""About how long an item takes one worker: what is lost when it dies, and how long the others may wait at the end."""
SHORTEST_S = 0.3
"""Towards the end items get smaller, down to this."""
MOST_ROWS = 32_768
MOST_KINDS = 16
"""Kinds of node that are kept: more of them than anybody has."""
MOST_POINTS = 300
KEPT = ("chosen", "points", "scaling", "arrangements", "usl", "memory", "differences")


class Tuning:
    """Keeps `Guide`. `nodes` gives those alive; `left` how many inputs are in no item yet, None while nobody knows."""

    def __init__(
        self,
        tune: Tune,
        runtimes: Sequence[str],
        need: Need,
        learned: Learned,
        missing: Sequence[str] = (),
        turn: int = 1,
        *,
        nodes: Callable[[], Sequence[Node]],
        left: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._tune = tune
        self._runtimes = tuple(runtimes)
        self._need = need
        self._learned = learned
        self._missing = missing
        """What else might be tried if it were installed, in words."""
        self._turn = turn
        """That of the driver, for workers to tell."""
        self._tuners: dict[str, Tuner] = {}
        self._machines: dict[str, Machine] = {}
        """By host, as it was when it was last looked at."""
        self._workers: dict[str, int] = {}
        """Active ones, by host."""
        self._out: dict[int, tuple[str, int]] = {}
        """By the seq of an item that is out: the kind of node, and the worker."""
        self._compared: set[tuple[str, str]] = set()
        """Kinds of node, and runtimes that showed there that they agree with the model as given."""
        self._nodes = nodes
        self._left = left
        self._began = now()
        self._first_s: float | None = None
        """What it took until a worker could be given something."""
        self._load_s: dict[str, float] = {}
        self._watch = Watch(learned)
        self._waiting: dict[int, int] = {}
        """Inputs in items that were made or handed out here and have not ended, by seq."""
        for kind, document in learned.items():
            self._compared.add((kind, str(document.get("chosen", {}).get("runtime"))))

    # What the pool asks.

    def active(self, host: str, workers: int) -> int:
        machine = self._machine(host)
        chosen = max(1, min(workers, self._tuner(machine).active(workers, host)))
        self._workers[host] = chosen
        return chosen

    def sent(self, item: Item, worker: int, host: str) -> Item:
        machine = self._machine(host)
        if self._first_s is None:
            self._first_s = now() - self._began
        self._out[item.seq] = (machine.kind, worker)
        self._watch.sent(item.seq, worker, now())
        self._waiting[item.seq] = item.params[COUNT]
        active = self._workers.get(host, 1)
        tuner = self._tuner(machine)
        if item.used + 1 >= CAREFULLY_FROM:
            return self._handed_out(item, tuner.plain(worker), [])
        advice = tuner.ask(worker, item.params[COUNT], self._not_out(item), active)
        used = {step.setting.runtime for step in advice.steps}
        unproven = [name for name in sorted(used) if self._has_to_be_compared(machine.kind, name)]
        return self._handed_out(item, advice, unproven)

    def _handed_out(self, item: Item, advice: Advice, unproven: list[str]) -> Item:
        added = {ADVICE: advice.plain(), COMPARE: unproven, TURN: self._turn}
        return item._replace(params={**item.params, **added})

    def _not_out(self, item: Item) -> int | None:
        """Inputs that no worker has, and those of this item."""
        left = self._left()
        if left is None:
            return None
        return left + sum(
            rows for seq, rows in self._waiting.items() if seq == item.seq or seq not in self._out
        )

    def _has_to_be_compared(self, kind: str, runtime: str) -> bool:
        """What somebody chose is not for us to compare."""
        given = runtime == AS_GIVEN or self._tune.runtime != "auto"
        return not given and (kind, runtime) not in self._compared

    def lost(self, worker: int, cause: str) -> None:
        for tuner in self._tuners.values():
            tuner.lost(worker, suspicious=cause == "crash", crowded=cause == "room")

    def ahead(self) -> int:
        """While there is something to find out, a worker should not have an item for which that comes too late."""
        working = self._working()
        return 2 if working and all(tuner.settled() for tuner in working) else 1

    def remaining_s(self) -> float | None:
        hosts = self._hosts()
        rates = {host: self._tuner(self._machines[host]).rate_of_worker() for host in hosts}
        known = [rate for rate in rates.values() if rate]
        left = self.left_to_do()
        if not known or left is None:
            return None
        mean = sum(known) / len(known)
        return left / sum((rates[host] or mean) * self._workers[host] for host in hosts)

    def left_to_do(self) -> int | None:
        left = self._left()
        return None if left is None else left + sum(self._waiting.values())

    # What the source asks and tells.

    def rows(self) -> int:
        """How many inputs the next item should have: fewer towards the end, so that all workers end together."""
        if self._tune.item is not None:
            return self._tune.item
        tuners = self._working() or [self._made(self._any_machine())]
        rows = min(tuner.rows_for(ITEM_S) for tuner in tuners)
        left = self._left()
        if left is not None:
            workers = sum(self._workers[host] for host in self._hosts()) or 1
            rows = min(rows, max(self._fewest(), -(-left // (2 * workers))))
        return max(1, min(rows, MOST_ROWS))

    def _fewest(self) -> int:
        """What the slowest worker does in the shortest time that an item should take; 1 while nothing is known."""
        rates = [tuner.rate() for tuner in self._working()]
        workers = max(1, min((self._workers[host] for host in self._hosts()), default=1))
        return max(1, int(SHORTEST_S * min((rate or 0.0 for rate in rates), default=0.0) / workers))

    def made(self, item: Item) -> None:
        """The source made this item."""
        self._waiting[item.seq] = item.params[COUNT]

    def told(self, item: Item, heard: Heard) -> None:
        """This item has ended."""
        self._waiting.pop(item.seq, None)
        kind, worker = self._out.pop(item.seq, (None, 0))
        self._load_s.update(heard.load_s)
        at_work = Counter(self._machines[host].kind for host in self._hosts())
        # What failed, or had been done by an earlier session, tells nothing.
        self._watch.tell(now(), at_work, item.params[COUNT] if any(heard) else 0, item.seq)
        if kind is not None:
            self._compared.update((kind, name) for name in heard.differences)
            self._tuners[kind].tell(worker, heard)

    # What the report asks.

    def learned(self) -> dict[str, Mapping[str, Any]]:
        documents = {
            kind: {**tuner.document(), **self._watch.document(kind), "startup_s": self._startup_s(tuner)}
            for kind, tuner in self._tuners.items()
        }
        return {**self._learned, **documents}

    def curves(self) -> dict[str, dict[str, Any]]:
        """What was measured, to be kept with the run. A session that had nothing to do knows it of earlier ones."""
        found = self.learned()
        return curves({kind: found[kind] for kind in self._tuners or found})

    def _startup_s(self, tuner: Tuner) -> float:
        """What a run takes besides its inputs: until a worker is there, and has loaded the model."""
        return (self._first_s or 0.0) + self._load_s.get(tuner.chosen()[0].runtime, 0.0)

    def runtime(self) -> str | None:
        """What runs the model, where it is the same on all nodes."""
        chosen = {tuner.chosen()[0].runtime for tuner in self._working() or self._tuners.values()}
        return chosen.pop() if len(chosen) == 1 else None

    def decisions(self) -> list[Decision]:
        found: list[Decision] = []
        for kind, tuner in self._tuners.items():
            suffix = f" on {kind}" if len(self._tuners) > 1 else ""
            for decision in tuner.decisions():
                why = "; ".join([decision.why, *(self._missing if decision.name == "runtime" else ())])
                found.append(decision._replace(name=decision.name + suffix, why=why))
        return found

    def tuner_of(self, host: str) -> Tuner:
        """The tuner of the kind that this node is of."""
        return self._tuner(self._machine(host))

    def _hosts(self) -> list[str]:
        """Nodes that are there and have workers."""
        alive = {node.host for node in self._nodes()}
        return [host for host in self._workers if host in alive and host in self._machines]

    def _working(self) -> list[Tuner]:
        """The tuners of the nodes that work now: others never hear anything."""
        kinds = {self._machines[host].kind for host in self._hosts()}
        return [tuner for kind, tuner in self._tuners.items() if kind in kinds]

    def _machine(self, host: str) -> Machine:
        found = self._machines.get(host)
        if found is None:
            node = next((node for node in self._nodes() if node.host == host), None)
            if node is None:
                return self._any_machine()
            found = self._machines[host] = machine_of(node, self._need)
        return found

    def _any_machine(self) -> Machine:
        nodes = self._nodes()
        return machine_of(nodes[0], self._need) if nodes else Machine(1, 0)

    def _tuner(self, machine: Machine) -> Tuner:
        found = self._tuners.get(machine.kind)
        if found is None:
            found = self._tuners[machine.kind] = self._made(machine)
        return found

    def _made(self, machine: Machine) -> Tuner:
        tune = self._tune
        space = Space(self._runtimes, machine, tune.batch, tune.threads, tune.workers, largest_item=MOST_ROWS)
        return Tuner(space, self._learned.get(machine.kind))


def machine_of(node: Node, need: Need) -> Machine:
    """A node as a tuner sees it: the cores of all the places that it has for workers."""
    places = max(1, room.capacity(need, [node]))
    gpus, of_gpu = (int(node.gpu), node.gpu_memory_bytes) if need.gpu else (0, 0)
    return Machine(max(1, int(places * need.cpu)), node.memory_bytes, gpus, of_gpu, places)


def curves(learned: Learned) -> dict[str, dict[str, Any]]:
    """By kind of node, from what its tuner tells. Where there are too many points, the best known ones stay."""
    return {kind: _curve(learned[kind]) for kind in list(learned)[:MOST_KINDS]}


def _curve(document: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: document[name] for name in KEPT if name in document}
    points = kept.get("points", [])
    if len(points) > MOST_POINTS:
        most_rows = sorted(range(len(points)), key=lambda index: -points[index]["rows"])
        kept["points"] = [points[index] for index in sorted(most_rows[:MOST_POINTS])]
    return kept

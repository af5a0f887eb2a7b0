"""The Ray engine: a worker is an actor on a chosen node, and behind it a process like any worker's.

Ray gives placement, transport and the knowledge of which nodes are alive; the contract is the embedded engine's.
"""

from __future__ import annotations

import base64
import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import RayError

from shoal.engine import fitting
from shoal.engine.base import Reservation
from shoal.engine.ray import nodes as ray_nodes
from shoal.engine.ray import shipping
from shoal.engine.ray.actor import WorkerActor
from shoal.engine.ray.arbiter import RayLeases
from shoal.engine.ray.checkpoints import Home, home_of, replace, restoring
from shoal.engine.ray.groups import Groups
from shoal.engine.ray.link import Link
from shoal.engine.ray.packages import NodePackages
from shoal.engine.reservations import Reservations
from shoal.engine.workers.talking import Known, Talking
from shoal.engine.workers.worker import encoded
from shoal.errors import ClusterLost
from shoal.files import Storage
from shoal.model import (
    Event,
    Factory,
    Item,
    Need,
    Node,
    NodeJoined,
    NodeLost,
    Place,
    WorkerLost,
)
from shoal.model.packages import Packages

FORGIVEN = 20
"""How many actors may be lost on nodes that live before it counts against what ran."""
LOOK_S = 0.5
"""How often it is looked what became of the nodes, and of the head."""


class _Worker(Known):
    """A worker behind an actor."""

    __slots__ = ("actor", "stream")

    def __init__(self, number: int, place: Place, log_file: str, actor: Any, stream: Any) -> None:
        super().__init__(number, place, log_file)
        self.actor = actor
        self.stream = stream


class RayEngine(Talking):
    """Keeps the `Engine` contract on the cluster that this process is connected to (`ray.init` was called).

    `root` is the run's folder here: what workers write to their logs and leave in items' folders is brought there.
    `folder` is the workload's: it is shipped to each node that gets a worker; without it, all nodes are on this
    machine. `environment` is what items inherit; without it, a little of what their node has.
    A node counts once it has `packages`. Checkpoints are kept in the `storage`, else in the run's folder.
    When the head of the cluster is lost, `ClusterLost` comes out of whatever call needs it, at the latest of `wait`.
    """

    name = "ray"
    latency_s = 0.01
    stagger_s = 0.6

    def __init__(
        self,
        root: str,
        *,
        folder: str | None = None,
        session: str = "0",
        environment: Mapping[str, str] | None = None,
        packages: NodePackages | None = None,
        storage: Storage | None = None,
    ) -> None:
        self._root = root
        self._checkpoints = home_of(root, storage, same_machine=folder is None)
        self._package = ray.put(shipping.pack(folder)) if folder else None
        self._session = session
        self._environment = None if environment is None else dict(environment)
        self._offset = time.time() - time.monotonic()
        self._packages = packages
        self._link = Link(self._alive)
        self._known = self._link.nodes
        self._name = f"{os.path.basename(root)}-{session}-{os.urandom(4).hex()}"
        self._groups = Groups(self._link)
        self._leases = RayLeases(self._link, self._groups, self._name)
        self._reservations = Reservations(self._leases)
        self._workers: dict[int, _Worker] = {}
        self._events: list[Event] = []
        self._numbers = 0
        self._actors_lost = 0
        self._closed = False
        os.makedirs(os.path.join(root, "logs"), exist_ok=True)

    def _alive(self) -> dict[str, tuple[str, Node]]:
        alive = ray_nodes.alive()
        return alive if self._packages is None else self._packages.ready(alive)

    def nodes(self) -> Sequence[Node]:
        return [node for _, node in self._known.values()]

    def capacity(self, need: Need) -> int:
        return fitting.capacity(need, self.nodes())

    def now(self) -> float:
        return self._offset + time.monotonic()

    # Places.

    def reserve(self, needs: Sequence[Need], deadline_s: float | None) -> Reservation:
        return self._reservations.reserve(needs, deadline_s, self.nodes(), self.now())

    def cancel_reservation(self, reservation: int) -> None:
        self._reservations.cancel(reservation)

    def release(self, place: Place) -> None:
        self._reservations.give(place)

    # Workers.

    def spawn(self, factory: Factory, place: Place) -> int:
        self._numbers += 1
        number = self._numbers
        log_file = f"logs/{self._session}-{number}.log"
        request = {
            "worker": number,
            "factory": factory._asdict(),
            "blob": encoded(factory.blob),
            "log": log_file,
            "cpu": place.need.cpu,
            "memory_bytes": place.need.memory_bytes,
        }
        options = self._groups.options(place)
        remote = ray.remote(WorkerActor).options(max_restarts=0, **options)
        actor = remote.remote(
            request, self._name, self._package, self._environment, self._wanted(), self._checkpoints
        )
        stream = actor.events.options(num_returns="streaming").remote()
        self._workers[number] = _Worker(number, place, log_file, actor, stream)
        if self._groups.node_id(place) not in [node_id for node_id, _ in self._known.values()]:
            self._lose(self._workers[number], "node", f"its node {place.host} was lost")
        return number

    def _wanted(self) -> Packages | None:
        return None if self._packages is None else self._packages.wanted

    def submit(self, worker: int, items: Sequence[Item]) -> None:
        if self._checkpoints == Home():
            for item in items:
                kept = restoring(self._root, item.id) if item.attempt > 1 else None
                if kept is not None:
                    self._send(worker, kept)
        super().submit(worker, items)

    def end(self, worker: int) -> None:
        if worker in self._workers:
            self._workers[worker].ended = True
            self._send(worker, ["end"])

    def kill(self, worker: int) -> None:
        if worker in self._workers:
            self._workers[worker].cause = "killed"
            self._send(worker, ["kill"])

    def _send(self, number: int, message: list[Any]) -> None:
        worker = self._workers.get(number)
        if worker is not None:
            worker.actor.send.remote(message)

    # Events.

    def wait(self, timeout_s: float) -> Sequence[Event]:
        if self._closed:
            return ()
        until = self.now() + timeout_s
        while True:
            self._look()
            if self._events:
                break
            now = self.now()
            self._listen(max(0.0, min(until, self._reservations.next_tick(), now + LOOK_S) - now))
            if not self._events and self.now() >= until:
                break
        events, self._events = self._events, []
        return events

    def _look(self) -> None:
        self._link.check()
        now = self.now()
        self._look_at_nodes(now)
        if now >= self._reservations.next_tick():
            held = {number: worker.place for number, worker in self._workers.items()}
            self._events.extend(self._reservations.tick(now, held))

    def _look_at_nodes(self, now: float) -> None:
        before, self._known = self._known, self._link.nodes
        if before is self._known:
            return
        for host, (node_id, _) in before.items():
            if self._known.get(host, ("",))[0] != node_id:
                self._lose_node(host, now)
        for host, (node_id, node) in self._known.items():
            if before.get(host, ("",))[0] != node_id:
                self._events.append(NodeJoined(node, now))

    def _lose_node(self, host: str, now: float) -> None:
        self._events.append(NodeLost(host, now, "Ray no longer hears of it"))
        for worker in [worker for worker in self._workers.values() if worker.place.host == host]:
            self._lose(worker, "node", f"its node {host} was lost")

    def _listen(self, seconds: float) -> None:
        """Until a worker says something."""
        streams = {worker.stream: worker for worker in self._workers.values()}
        if not streams:
            time.sleep(seconds)
            return
        ready, _ = ray.wait(list(streams), num_returns=1, timeout=seconds)
        if ready:
            ready, _ = ray.wait(list(streams), num_returns=len(streams), timeout=0)
        for stream in ready:
            worker = streams[stream]
            if worker.number in self._workers:
                self._hear(worker)

    def _hear(self, worker: _Worker) -> None:
        try:
            batch = ray.get(next(worker.stream))
        except (RayError, StopIteration) as error:
            self._lost_actor(worker, error)
            return
        for message in batch:
            if message[0] == "log":
                with open(os.path.join(self._root, worker.log_file), "ab") as file:
                    file.write(base64.b64decode(message[1]))
            elif message[0] == "files":
                shipping.extract(base64.b64decode(message[2]), os.path.join(self._root, "items", message[1]))
            elif message[0] == "checkpoint":
                replace(self._root, message)
            elif message[0] == "exit":
                self._lose(worker, *worker.end(message[1], message[2]))
            elif (event := worker.hear(message, self.now())) is not None:
                self._events.append(event)

    def _lost_actor(self, worker: _Worker, error: BaseException) -> None:
        """The actor itself is gone, most likely with its node, which Ray may not know yet.

        User code does not run in it, so no item is to blame; until it happens again and again.
        """
        self._link.hurry()
        self._actors_lost += 1
        why = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        if worker.said is not None:
            self._lose(worker, *worker.said)
        elif worker.cause == "killed":
            self._lose(worker, "killed", "killed by its driver")
        elif worker.place.host not in self._link.call(ray_nodes.alive):
            self._lose(worker, "node", f"its node {worker.place.host} was lost")
        else:
            self._lose(worker, "node" if self._actors_lost <= FORGIVEN else "crash", why)

    def _lose(self, worker: _Worker, cause: str, why: str) -> None:
        del self._workers[worker.number]
        ray.kill(worker.actor)
        self._reservations.give(worker.place)
        self._events.append(WorkerLost(worker.number, self.now(), cause, why, worker.running))

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for worker in self._workers.values():
            with contextlib.suppress(RayError):
                ray.kill(worker.actor)
        self._workers.clear()
        self._reservations.clear()
        self._events.clear()
        self._leases.close()
        with contextlib.suppress(ClusterLost):
            self._link.call(int)  # When this is answered, all that was told before is done.
        self._link.close()

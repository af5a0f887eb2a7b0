"""The Ray engine: a worker is an actor on a chosen node, and behind it a process like any worker's.

Ray gives placement, transport and the knowledge of which nodes are alive; the contract is the embedded engine's.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence

import ray
from ray.exceptions import RayError

from shoal.engine.ray import nodes as ray_nodes
from shoal.engine.ray import shipment
from shoal.engine.ray.actor import WorkerActor
from shoal.engine.ray.arbiter import RayLeases
from shoal.engine.ray.checkpoints import home_of, restoring
from shoal.engine.ray.groups import Groups
from shoal.engine.ray.link import Link
from shoal.engine.ray.node_packages import NodePackages
from shoal.engine.ray.remote_worker import Arrivals, RemoteWorker
from shoal.engine.reservations import SharedNodes
from shoal.engine.workers.messages import FREIGHT, End, Exit, Freight, Note, Now, Order, Setup
from shoal.engine.workers.parcels import unpacked
from shoal.engine.workers.worker import encoded
from shoal.engine.workers.worker_links import Talking
from shoal.errors import ClusterLost, StoreError
from shoal.files import Storage
from shoal.model import (
    Event,
    Factory,
    Item,
    LostCause,
    Need,
    Node,
    NodeJoined,
    NodeLost,
    Place,
    WorkerLost,
)
from shoal.model.node import Packages

FORGIVEN = 20
"""How many actors may be lost on nodes that live before it counts against what ran."""
LOOK_S = 0.5
"""How often it is looked what became of the nodes, and of the head."""
BATCHES = 8
"""How many batches an actor may be ahead of its driver; each has about a block, at most."""
FETCH_S = 30.0
"""How long a batch that an actor has told of may take to arrive."""
PATIENCE_S = 20.0
"""How long the run's folder may refuse what workers send (a full disk) before the run ends."""


class RayEngine(SharedNodes, Talking):
    """Keeps the `Engine` contract on the cluster that this process is connected to (`ray.init` was called).

    `root` is the run's folder here: what workers write to their logs and leave in items' folders is brought there.
    `folder` is the workload's: it is shipped to each node that gets a worker; without it, all nodes are on this
    machine. `environment` is what items inherit; without it, a little of what their node has.
    A node counts once it has `packages`. Checkpoints are kept in the `storage`, else in the run's folder.
    When the head of the cluster is lost, `ClusterLost` comes out of whatever call needs it, at the latest of `wait`.
    """

    _leases: RayLeases
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
        self._checkpoints = home_of(root, storage, session, same_machine=folder is None)
        self._package = ray.put(shipment.pack(folder)) if folder else None
        self._session = session
        self._environment = None if environment is None else dict(environment)
        self._packages = packages
        self._link = Link(self._alive)
        self._known = self._link.nodes
        self._name = f"{os.path.basename(root)}-{session}-{os.urandom(4).hex()}"
        self._groups = Groups(self._link)
        leases = RayLeases(self._link, self._groups, self._name)
        super().__init__([node for _, node in self._known.values()], leases)
        self._workers: dict[int, RemoteWorker] = {}
        self._numbers = 0
        self._actors_lost = 0
        self._closed = False
        os.makedirs(os.path.join(root, "logs"), exist_ok=True)

    def _alive(self) -> dict[str, tuple[str, Node]]:
        alive = ray_nodes.alive()
        return alive if self._packages is None else self._packages.ready(alive)

    def wish(self, needs: Sequence[Need]) -> bool:
        """Tell Ray's autoscaler which places would be used beside those that are held; it stands until another wish,
        or until `close`. To be repeated now and then. False where the cluster has no autoscaler."""
        return self._leases.wish(needs)

    # Workers.

    def spawn(self, factory: Factory, place: Place) -> int:
        self._numbers += 1
        number = self._numbers
        log_file = f"logs/{self._session}-{number}.log"
        need, blob = place.need, encoded(factory.blob)
        setup = Setup(number, factory, log_file, need.cpu, need.memory_bytes, blob=blob)
        options = self._groups.options(place)
        remote = ray.remote(WorkerActor).options(max_restarts=0, **options)
        actor = remote.remote(
            setup, self._name, self._package, self._environment, self._wanted(), self._checkpoints
        )
        streaming = {"num_returns": "streaming", "_generator_backpressure_num_objects": BATCHES}
        stream = actor.events.options(**streaming).remote()
        arrivals = Arrivals(self._root, log_file, self._checkpoints)
        self._workers[number] = RemoteWorker(number, place, log_file, actor, stream, arrivals)
        if self._groups.node_id(place) not in [node_id for node_id, _ in self._known.values()]:
            self._lose(self._workers[number], LostCause.NODE, f"its node {place.host} was lost")
        return number

    def _wanted(self) -> Packages | None:
        return None if self._packages is None else self._packages.wanted

    def submit(self, worker: int, items: Sequence[Item]) -> None:
        known = self._workers.get(worker)
        if known is None:
            return
        for item in items:
            if item.attempt > 1:
                known.arrivals.expect_again(item.seq, item.id)
                self._restore(known, item.checkpoint)
        super().submit(worker, items)

    def _restore(self, worker: RemoteWorker, name: str) -> None:
        """Before the item itself: the checkpoint that is here."""
        if self._checkpoints.path is None:
            kept = restoring(os.path.join(self._root, self._checkpoints.at_driver, name), name)
            if kept is not None:
                worker.send_all(kept)

    def end(self, worker: int) -> None:
        if worker in self._workers:
            self._workers[worker].ended = True
            self._send(worker, End())

    def kill(self, worker: int) -> None:
        if worker in self._workers:
            self._workers[worker].kill(self.now())

    def _send(self, number: int, message: Order) -> None:
        worker = self._workers.get(number)
        if worker is not None:
            worker.send(message)

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
        for worker in list(self._workers.values()):
            if worker.is_deaf(now):
                self._lose(worker, LostCause.KILLED, "killed by its driver, as it did not answer")
            elif worker.stuck_since is not None:
                self._go_through(worker)
        if now >= self._reservations.next_tick():
            self._tick({number: worker.place for number, worker in self._workers.items()}, now)

    def _look_at_nodes(self, now: float) -> None:
        before, self._known = self._known, self._link.nodes
        if before is self._known:
            return
        if [node for _, node in self._known.values()] != self._nodes:
            self._nodes = [node for _, node in self._known.values()]
        for host, (node_id, _) in before.items():
            if self._known.get(host, ("",))[0] != node_id:
                self._lose_node(host, now)
        for host, (node_id, node) in self._known.items():
            if before.get(host, ("",))[0] != node_id:
                self._events.append(NodeJoined(node, now))

    def _lose_node(self, host: str, now: float) -> None:
        self._events.append(NodeLost(host, now, "Ray no longer hears of it"))
        for worker in [worker for worker in self._workers.values() if worker.place.host == host]:
            self._lose(worker, LostCause.NODE, f"its node {host} was lost")

    def _listen(self, seconds: float) -> None:
        """Until a worker says something, or could be sent more."""
        streams = {worker.stream: worker for worker in self._workers.values() if worker.stuck_since is None}
        taking = {worker.taking: worker for worker in self._workers.values() if worker.taking is not None}
        if not streams and not taking:
            time.sleep(seconds)
            return
        awaited = [*streams, *taking]
        ready, _ = ray.wait(awaited, num_returns=1, timeout=seconds)
        if ready:
            ready, _ = ray.wait(awaited, num_returns=len(awaited), timeout=0)
        for each in ready:
            worker = streams.get(each) or taking[each]
            if worker.number not in self._workers:
                continue
            if each in streams:
                self._hear(worker)
            else:
                worker.pump()

    def _hear(self, worker: RemoteWorker) -> None:
        try:
            batch = ray.get(next(worker.stream), timeout=FETCH_S)
        except (RayError, StopIteration) as error:
            self._lost_actor(worker, error)
            return
        worker.heard.extend(unpacked(batch))
        worker.heard_at = self.now()
        self._go_through(worker)

    def _go_through(self, worker: RemoteWorker) -> None:
        """What a worker said, up to what cannot be written now: that is tried again, and nothing more is heard of it
        until then."""
        while worker.heard and worker.number in self._workers:
            message = worker.heard[0]
            if isinstance(message, FREIGHT):
                if not self._write(worker, message):
                    return
                worker.heard.popleft()
                continue
            worker.heard.popleft()
            if isinstance(message, Now):
                worker.clock.heard(message.at, self.now())
            elif isinstance(message, Exit):
                self._lose(worker, *worker.end(message.status, message.why))
            elif (event := worker.hear(message, self.now())) is not None:
                self._events.append(worker.arrivals.judged(worker.clock.ours(event)))

    def _write(self, worker: RemoteWorker, message: Freight) -> bool:
        """Whether it is written. Raises `StoreError` when it could not be for too long."""
        try:
            trouble = worker.arrivals.take(message)
        except OSError as error:
            if worker.stuck_since is None:
                worker.stuck_since = self.now()
            elif self.now() - worker.stuck_since > PATIENCE_S:
                why = f"{self._root} cannot be written: {error.strerror or error}."
                raise StoreError(why, hint="Make room there, then resume the run.") from error
            return False
        worker.stuck_since = None
        if trouble is not None:
            worker.send(Note(trouble))
        return True

    def _lost_actor(self, worker: RemoteWorker, error: BaseException) -> None:
        """The actor itself is gone, most likely with its node, which Ray may not know yet.

        User code does not run in it, so no item is to blame; until it happens again and again.
        """
        self._link.hurry()
        self._actors_lost += 1
        why = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        if worker.said is not None:
            self._lose(worker, *worker.said)
        elif worker.cause is LostCause.KILLED:
            self._lose(worker, LostCause.KILLED, "killed by its driver")
        elif worker.place.host not in self._link.call(ray_nodes.alive):
            self._lose(worker, LostCause.NODE, f"its node {worker.place.host} was lost")
        else:
            self._lose(worker, LostCause.NODE if self._actors_lost <= FORGIVEN else LostCause.CRASH, why)

    def _lose(self, worker: RemoteWorker, cause: LostCause, why: str) -> None:
        del self._workers[worker.number]
        worker.arrivals.discard()
        ray.kill(worker.actor)
        self._reservations.give(worker.place)
        self._events.append(WorkerLost(worker.number, self.now(), cause, why, worker.running))

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for worker in self._workers.values():
            worker.arrivals.discard()
            with contextlib.suppress(RayError):
                ray.kill(worker.actor)
        self._workers.clear()
        self._reservations.clear()
        self._events.clear()
        self._leases.close()
        with contextlib.suppress(ClusterLost):
            self._link.call(int)  # When this is answered, all that was told before is done.
        self._link.close()

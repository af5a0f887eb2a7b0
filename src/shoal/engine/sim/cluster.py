"""The simulated cluster: it starts and loses workers, nodes and drivers. Its public face is `world`."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from shoal.engine.sim.arbiter import Arbiter
from shoal.engine.sim.clock import Clock
from shoal.engine.sim.driver import Driver, Known
from shoal.engine.sim.machine import Machine, Worker
from shoal.engine.sim.network import Network
from shoal.engine.sim.records import Gone, Model, Ran, StartModel, Trace
from shoal.errors import EngineError
from shoal.model import Event, Factory, Node, NodeJoined, Place


class Cluster:
    """Everything real about the simulation, in one place for the engine and the faults to act on."""

    def __init__(
        self,
        nodes: Sequence[Node],
        model: Model,
        startup: StartModel,
        *,
        clock: Clock,
        network: Network,
        random: Random,
        detect_s: float,
        linger_s: float,
        record: bool,
    ) -> None:
        self.clock = clock
        self.network = network
        self.random = random
        self.startup = startup
        self.detect_s = detect_s
        self.linger_s = linger_s
        self.trace: Trace | None = [] if record else None
        self.history: list[Ran] | None = [] if record else None
        network.arrived = self._arrived
        self.machines = {
            node.host: Machine(node, clock, model, network.answer, self.history) for node in nodes
        }
        self._alive: tuple[Node, ...] = tuple(nodes)
        self.arbiter = Arbiter(clock, self.nodes)
        self.drivers: list[Driver] = []
        self.waiting: Driver | None = None
        """Whose call to `wait` lets the time pass at this moment."""
        self._last_worker = 0

    def nodes(self) -> Sequence[Node]:
        """The nodes that are not given up for lost."""
        return self._alive

    def workers(self) -> list[Worker]:
        """All that really run, known to a driver or not, by id."""
        found = (worker for machine in self.machines.values() for worker in machine.workers.values())
        return sorted(found, key=lambda worker: worker.id)

    def enter(self, name: str, weight: float) -> Driver:
        driver = Driver(f"{name}#{len(self.drivers) + 1}", name, self.clock, self.trace)
        self.drivers.append(driver)
        self.arbiter.enter(driver, weight)
        return driver

    def spawn(self, driver: Driver, factory: Factory, place: Place) -> Worker:
        number = self._last_worker + 1
        vanished = place.id in self.arbiter.vanished
        if not vanished and not self.arbiter.occupy(driver, place, number):
            raise EngineError(f"Place {place.id} on {place.host} is not free for this driver.")
        self._last_worker = number
        if place.devices:
            env = {**factory.env, "CUDA_VISIBLE_DEVICES": ",".join(place.devices)}
            factory = factory._replace(env=env)
        worker = Worker(number, driver, self.machines[place.host], place, factory)
        driver.workers[number] = Known(place)
        if vanished:
            now, why = self.clock.now, f"{place.host} was lost, and this place with it."
            self.clock.at(now, driver.lose, number, now, "node", why)
        else:
            self.network.command(worker, worker.start, self.startup(factory))
        return worker

    def _arrived(self, worker: Worker, message: Event | Gone) -> None:
        if isinstance(message, Gone):
            worker.driver.lose(worker.id, message.at, message.cause, message.why)
            self.arbiter.free(worker.place)
        else:
            worker.driver.receive(message)

    def crash(self, driver: Driver) -> None:
        """Its workers notice within `linger_s`, and until then go on; each keeps its place so long."""
        driver.crashed = True
        driver.inbox.clear()
        self._orphan(driver)
        driver.workers.clear()
        self.arbiter.drop_driver(driver, occupied=False)

    def close(self, driver: Driver) -> None:
        """Its workers end now, except where a cut keeps the order from them: those notice by themselves."""
        driver.closed = True
        driver.inbox.clear()
        for worker in [worker for worker in self.workers() if worker.driver is driver]:
            if not worker.machine.cut:
                worker.vanish()
        self._orphan(driver)
        driver.workers.clear()
        self.arbiter.drop_driver(driver, occupied=True)

    def _orphan(self, driver: Driver) -> None:
        for worker in self.workers():
            if worker.driver is driver:
                when = self.clock.now + self.random.random() * self.linger_s
                self.clock.at(when, worker.die, "ended", "Its driver is gone.")

    def node_dies(self, machine: Machine, back_after: float | None) -> None:
        if machine.dead or machine.cut:
            return
        machine.incident += 1
        machine.dead = True
        machine.wipe()
        self.clock.at(self.clock.now + self.detect_s, self._give_up, machine, machine.incident)
        if back_after is not None:
            self.clock.at(self.clock.now + back_after, self._come_back, machine, machine.incident)

    def cut_off(self, machine: Machine, for_s: float) -> None:
        if machine.dead or machine.cut:
            return
        machine.incident += 1
        machine.cut = True
        if for_s > self.detect_s:
            self.clock.at(self.clock.now + self.detect_s, self._give_up, machine, machine.incident)
        self.clock.at(self.clock.now + for_s, self._come_back, machine, machine.incident)

    def _give_up(self, machine: Machine, incident: int) -> None:
        """The node was silent for too long: it is lost to every driver, whatever it still does."""
        if machine.incident != incident or not machine.known or not (machine.dead or machine.cut):
            return
        machine.known = False
        machine.held_commands.clear()
        self._alive = tuple(node for node in self._alive if node.host != machine.node.host)
        for driver in self.drivers:
            driver.lose_node(machine.node.host, f"{machine.node.host} does not answer.")
        self.arbiter.drop_node(machine.node.host)

    def _come_back(self, machine: Machine, incident: int) -> None:
        if machine.incident != incident:
            return
        if machine.dead:
            self._give_up(machine, incident)
            machine.dead = False
        if not machine.known:
            machine.wipe()
        self.network.reconnect(machine)
        if not machine.known:
            self._join(machine)

    def _join(self, machine: Machine) -> None:
        machine.known = True
        hosts = {node.host for node in self._alive} | {machine.node.host}
        self._alive = tuple(other.node for host, other in self.machines.items() if host in hosts)
        for driver in self.drivers:
            if driver.present:
                driver.receive(NodeJoined(machine.node, self.clock.now))
        self.arbiter.nodes_changed()

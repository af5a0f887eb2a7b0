"""The network between the hosts: one process that hands each packet to its destination after the delay of the pair.

It knows addresses and TUN descriptors, and nothing of hosts. The keeper tells it over a socket what to change.
"""

from __future__ import annotations

import gc
import heapq
import os
import select
import socket
import time
from contextlib import suppress
from typing import Any

from testbed import wire

LARGEST_PACKET_BYTES = 1 << 16
AT_ONCE = 64
"""Packets read from one host before the others have their turn."""


class Port:
    """Where a host is plugged in: its TUN descriptor, or none while the host is off."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tun: int | None = None
        self.cut = False
        self.links: dict[bytes, Link] = {}


class Link:
    """One direction between two ports. Packets stay in order, also when the delay gets shorter."""

    def __init__(self, source: Port, target: Port) -> None:
        self.source = source
        self.target = target
        self.delay_s = 0.0
        self.cut = False
        self.last_due_s = 0.0

    def carries(self) -> bool:
        return not (self.cut or self.source.cut or self.target.cut)


class Switch:
    """The ports, the links, and the packets under way, soonest first."""

    def __init__(self, addresses: dict[str, str]) -> None:
        self.ports = {name: Port(name) for name in addresses}
        self.links: dict[tuple[str, str], Link] = {}
        for source in self.ports.values():
            for name, address in addresses.items():
                link = Link(source, self.ports[name])
                self.links[source.name, name] = link
                source.links[socket.inet_aton(address)] = link
        self.waiting: list[tuple[float, int, Link, bytes]] = []
        self.sequence = 0

    def serve(self, control: socket.socket) -> None:
        """Until the other end of the control socket is closed."""
        while True:
            timeout_s = self.deliver()
            by_tun = {port.tun: port for port in self.ports.values() if port.tun is not None}
            for ready in select.select([control.fileno(), *by_tun], [], [], timeout_s)[0]:
                if ready in by_tun:
                    self.collect(by_tun[ready], ready)
                    continue
                request, descriptors = wire.receive(control)
                if request is None:
                    return
                self.obey(request, descriptors)
                wire.send(control, "done")

    def deliver(self) -> float | None:
        """Hand over what is due. How long until the next is."""
        while self.waiting:
            left_s = self.waiting[0][0] - time.monotonic()
            if left_s > 0:
                return left_s
            _, _, link, packet = heapq.heappop(self.waiting)
            hand_over(link, packet)
        return None

    def collect(self, port: Port, tun: int) -> None:
        for _ in range(AT_ONCE):
            try:
                packet = os.read(tun, LARGEST_PACKET_BYTES)
            except OSError:  # nothing more to read, or the device went down with its host
                return
            link = port.links.get(packet[16:20]) if packet[0] >> 4 == 4 else None
            if link is None or not link.carries():
                continue
            now_s = time.monotonic()
            due_s = max(now_s + link.delay_s, link.last_due_s)
            if due_s <= now_s:
                hand_over(link, packet)
                continue
            link.last_due_s = due_s
            self.sequence += 1
            heapq.heappush(self.waiting, (due_s, self.sequence, link, packet))

    def obey(self, request: list[Any], descriptors: list[int]) -> None:
        match request:
            case ["plug", name]:
                self.unplug(self.ports[name])
                self.ports[name].tun = descriptors[0]
            case ["unplug", name]:
                self.unplug(self.ports[name])
            case ["cut", name, cut]:
                self.ports[name].cut = cut
            case ["cut link", source, target, cut]:
                self.links[source, target].cut = cut
            case ["delay", source, target, delay_s]:
                self.links[source, target].delay_s = delay_s

    def unplug(self, port: Port) -> None:
        if port.tun is not None:
            os.close(port.tun)
            port.tun = None


def hand_over(link: Link, packet: bytes) -> None:
    """What cannot be written now is lost, as on a network; so is what was under way when the link was cut."""
    if link.target.tun is not None and link.carries():
        with suppress(OSError):
            os.write(link.target.tun, packet)


def main(addresses: dict[str, str], control: socket.socket) -> None:
    """The whole life of the process."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)  # delays stay true while the hosts are busy
    gc.freeze()
    gc.disable()
    Switch(addresses).serve(control)

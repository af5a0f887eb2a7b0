"""Round trips from this host to probes: several to each, side by side, in bounded time."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from shoal.model import RoundTrip
from shoal.spec.cluster import Probe, parse_probe

_REQUEST, _REPLY = 8, 0
_REQUEST_V6, _REPLY_V6 = 128, 129
_HEADER = struct.Struct("!BBHHH")


class EchoNotPermittedError(Exception):
    """This process may not send echo requests at all."""


class Target(NamedTuple):
    """An address that a name stands for. Without a port it is sent an echo request."""

    family: socket.AddressFamily
    address: Any
    """What `connect` takes: with a port, which is 0 for an echo."""
    port: int | None


def resolve(host: str, port: int | None) -> list[Target]:
    """What the name stands for, in the order in which the system would try. Raises OSError; may take long."""
    found = socket.getaddrinfo(host, port or 0, type=socket.SOCK_STREAM)
    return [Target(family, address, port) for family, _, _, _, address in found]


def round_trip_s(target: Target, timeout_s: float) -> float:
    """Seconds until the other side answered. Raises TimeoutError, another OSError, or `EchoNotPermittedError`."""
    if target.port is None:
        return _echo_s(target, timeout_s)
    return _connect_s(target, timeout_s)


def _connect_s(target: Target, timeout_s: float) -> float:
    with socket.socket(target.family, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_s)
        began = time.perf_counter()
        # "Nobody listens here" was said by the other side, and took one round trip like any answer.
        with contextlib.suppress(ConnectionRefusedError):
            connection.connect(target.address)
        return time.perf_counter() - began


def _echo_s(target: Target, timeout_s: float) -> float:
    with _echo_socket(target.family) as connection:
        is_v6 = target.family == socket.AF_INET6
        mark = os.urandom(16)  # Other replies may come in too: on a raw socket, those of everybody.
        began = time.perf_counter()
        connection.sendto(_request(mark, is_v6), target.address)
        until = began + timeout_s
        while (left_s := until - time.perf_counter()) > 0:
            if not select.select([connection], [], [], left_s)[0]:
                break
            packet = connection.recv(2048)
            ended = time.perf_counter()
            if is_reply(packet, mark, is_v6):
                return ended - began
        raise TimeoutError


def _echo_socket(family: socket.AddressFamily) -> socket.socket:
    """The kind that the system lets anybody have, if it does; else the kind that is for root."""
    protocol = socket.IPPROTO_ICMPV6 if family == socket.AF_INET6 else socket.IPPROTO_ICMP
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        try:
            return socket.socket(family, kind, protocol)
        except PermissionError:
            continue
    raise EchoNotPermittedError


def _request(mark: bytes, is_v6: bool) -> bytes:
    kind = _REQUEST_V6 if is_v6 else _REQUEST
    identity = os.getpid() & 0xFFFF
    checksum = 0 if is_v6 else _checksum(_HEADER.pack(kind, 0, 0, identity, 1) + mark)  # IPv6: the kernel's.
    return _HEADER.pack(kind, 0, checksum, identity, 1) + mark


def is_reply(packet: bytes, mark: bytes, is_v6: bool) -> bool:
    """Whether it answers the request with this mark. A raw IPv4 socket gives the IP header as well."""
    if not is_v6 and packet[:1] and packet[0] >> 4 == 4:
        packet = packet[(packet[0] & 0x0F) * 4 :]
    return packet[:1] == bytes([_REPLY_V6 if is_v6 else _REPLY]) and packet[_HEADER.size :] == mark


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


SAMPLES = 5
LIMIT_S = 3.0
"""For all samples of one probe, finding the address of its name included."""
ATTEMPT_S = 0.95
"""For one sample. TCP sends a first packet that was lost again after a second: what that takes is no round trip."""
GRACE_S = 0.5

RoundTripS = Callable[[Target, float], float]
Resolve = Callable[[str, int | None], Sequence[Target]]


def latency(probes: Mapping[str, str], samples: int = SAMPLES, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """By location, a `RoundTrip` as a mapping. Takes little more than `limit_s`, whatever happens."""
    found: dict[str, RoundTrip] = {}

    def one(location: str, probe: str) -> None:
        found[location] = measure(probe, samples, limit_s)

    # Daemons: looking up a name cannot be broken off, and must not hold up the end of this process.
    threads = [threading.Thread(target=one, args=each, daemon=True) for each in probes.items()]
    until = time.monotonic() + limit_s + GRACE_S
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    late = f"nothing came of it within {limit_s:g} s: the name cannot be looked up from there"
    return {
        location: found.get(location, RoundTrip(probe, 0, error=late))._asdict()
        for location, probe in probes.items()
    }


def measure(
    text: str,
    samples: int = SAMPLES,
    limit_s: float = LIMIT_S,
    *,
    round_trip_s: RoundTripS = round_trip_s,
    resolve: Resolve = resolve,
    now: Callable[[], float] = time.monotonic,
) -> RoundTrip:
    """Round trips to one probe. The name is resolved before, and that is not counted."""
    until = now() + limit_s
    try:
        probe = parse_probe(text)
        targets = list(resolve(probe.host, probe.port))
    except ValueError as error:
        return RoundTrip(text, 0, error=str(error))
    except OSError as error:
        return RoundTrip(text, 0, error=f"{text} has a name that nobody knows there: {_words(error)}")
    taken: list[float] = []
    problem = ""
    tried, most = 0, samples + len(targets) - 1
    while len(taken) < samples and tried < most and (left_s := until - now()) > 0:
        tried += 1
        try:
            taken.append(round_trip_s(targets[0], min(ATTEMPT_S, left_s)))
        except EchoNotPermittedError:
            return RoundTrip(text, 0, error=_give_a_port(probe))
        except TimeoutError:
            problem = "no answer"
        except OSError as error:
            problem = _words(error)
        if problem and not taken and len(targets) > 1:
            targets.pop(0)  # A name may stand for several addresses, and not all of them be reached.
            problem = ""
    return _summary(text, taken, tried, problem)


def _summary(text: str, taken: Sequence[float], tried: int, problem: str) -> RoundTrip:
    if not taken:
        return RoundTrip(text, 0, error=f"{text}: {problem or 'no answer'}, tried {tried} times")
    failed = f"{problem} in {tried - len(taken)} of {tried} tries" if problem else ""
    return RoundTrip(
        text, len(taken), min(taken), statistics.median(taken), max(taken) - min(taken), error=failed
    )


def _give_a_port(probe: Probe) -> str:
    return f"an echo request may not be sent from there: give the probe a port that is open, such as {probe.host}:22"


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()

"""One round trip from this host: connecting to a port, or an ICMP echo. No statistics."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import time
from typing import Any, NamedTuple

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

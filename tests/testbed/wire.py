"""What the processes of a bed say to each other: one JSON value per packet of a local socket, with descriptors.

Not the network of the hosts: that is `switch.py`.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from typing import Any

LARGEST_BYTES = 1 << 17


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends. A process that dies closes its end, which the other reads as `None`."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(end: socket.socket, value: Any, descriptors: Sequence[int] = ()) -> None:
    socket.send_fds(end, [json.dumps(value).encode()], list(descriptors))


def receive(end: socket.socket) -> tuple[Any, list[int]]:
    """The next value and its descriptors; `None` when the other end is closed."""
    try:
        data, descriptors, _, _ = socket.recv_fds(end, LARGEST_BYTES, 4)
    except ConnectionError:
        return None, []
    return (json.loads(data) if data else None), list(descriptors)


def ask(end: socket.socket, value: Any, descriptors: Sequence[int] = ()) -> Any:
    """Send and wait for the answer."""
    send(end, value, descriptors)
    return receive(end)[0]

"""A port of this machine's loopback whose connections are led somewhere else. Where to is the caller's business."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress


def listen(lead: Callable[[socket.socket], None]) -> tuple[int, Callable[[], None]]:
    """The port, and what closes it again. Each connection is given to `lead` in a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    _begin(_serve, listener, lead)

    def close() -> None:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()

    return listener.getsockname()[1], close


def _serve(listener: socket.socket, lead: Callable[[socket.socket], None]) -> None:
    """Until the listener is closed."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        _begin(lead, connection)


def _begin(do: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=do, args=arguments, name="shoal-forward", daemon=True).start()

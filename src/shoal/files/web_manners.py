"""What web servers can expect of us: few requests at a time, none sooner than they ask for, and a name to write to."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version

from shoal.errors import AccessDenied
from shoal.files.disk import make_private, own_folder

AT_ONCE = 2
"""Requests of this user on this machine to one server."""
_LOOK_S = 0.02
_LONGEST = 200


def user_agent() -> str:
    """Who asks: Shoal, and where to reach the person who runs it: `SHOAL_CONTACT`, an address of mail or of a page."""
    contact = os.environ.get("SHOAL_CONTACT", "").strip()[:_LONGEST]
    is_fit = contact.isascii() and contact.isprintable() and contact != ""
    return f"{_program()} (+{contact})" if is_fit else _program()


@cache
def _program() -> str:
    try:
        return f"shoal/{version('shoal')}"
    except PackageNotFoundError:
        return "shoal"


@contextmanager
def admitted(server: str) -> Iterator[None]:
    """Hold one of the places for requests to this server, once there is one. Places end with their process.

    Where no file can be made or locked, nobody can be counted, and nobody waits.
    """
    places = _places(server)
    try:
        while places and not any(_taken(place) for place in places):
            time.sleep(_LOOK_S)
        yield
    finally:
        for place in places:
            os.close(place)


def _places(server: str) -> list[int]:
    name = blake2b(server.encode(), digest_size=8).hexdigest()
    try:
        folder = make_private(os.path.join(make_private(own_folder(tempfile.gettempdir())), "web"))
        paths = [os.path.join(folder, f"{name}.{number}") for number in range(AT_ONCE)]
        return [os.open(path, os.O_RDWR | os.O_CREAT, 0o600) for path in paths]
    except (OSError, AccessDenied):
        return []


def asked_wait_s(headers: Message, now_s: float) -> float:
    """How long the server wants to be left alone (`Retry-After`); 0 where it does not say."""
    text = (headers.get("Retry-After") or "").strip()
    if text.isdecimal():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now_s)
    except ValueError:
        return 0.0


def _taken(place: int) -> bool:
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # A disk that knows no locks.
        return True
    return True

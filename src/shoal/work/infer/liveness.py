"""Whether a run that has an output is being driven now, as far as that can be seen from this machine."""

from __future__ import annotations

import os
from hashlib import blake2b

from shoal.files import is_url
from shoal.files.machine import machine_name
from shoal.files.turns import Turns
from shoal.store import is_locked, run_folder
from shoal.store.driver import Driver


def address(home: str, output: str) -> str:
    """Where a run is recorded, for its output to tell: in a storage that others read, only we know it again."""
    told = f"{machine_name()}:{os.path.abspath(home)}"
    return blake2b(told.encode(), digest_size=16).hexdigest() if is_url(output) else told


def is_alive(run: str, address_: str, home: str, turns: Turns) -> bool | None:
    """Whether a driver works on this run now; None where that cannot be seen. `home` is ours, `turns` are the run's.

    What cannot be seen may live: its folder may be hidden from us, or on a machine that is called as ours is. Then its
    last driver says who it is, and a process that we could see and that is gone is dead.
    """
    known = _is_alive_at(run, address_, home)
    if known is None and (driver := Driver.read(turns.driver(turns.highest()))) is not None:
        known = driver.is_alive()
    return known


def _is_alive_at(run: str, address_: str, home: str) -> bool | None:
    """As the lock in the run's folder says."""
    machine, _, folder = address_.partition(":")
    if address_ == address(home, "s3://"):
        machine, folder = machine_name(), home
    if not folder or not os.path.isdir(run_folder(folder, run)):
        return None
    if is_locked(os.path.join(run_folder(folder, run), "lock")):
        return True
    names = (machine_name(), os.uname().nodename)  # Versions before 0.2 wrote the name of the host.
    return False if machine in names else None

"""Whether a run that has an output is being driven now, as far as that can be seen from this machine."""

from __future__ import annotations

import os
from hashlib import blake2b

from shoal.files import is_url
from shoal.store import is_locked, run_folder


def address(home: str, output: str) -> str:
    """Where a run is recorded, for its output to tell: in a storage that others read, only we know it again."""
    machine = _machine(home)
    return blake2b(machine.encode(), digest_size=16).hexdigest() if is_url(output) else machine


def is_alive(run: str, address_: str, home: str) -> bool | None:
    """Whether a driver works on this run now; None where its home is elsewhere. `home` is ours."""
    for folder in (home, address_.partition(":")[2]):
        if folder and os.path.isdir(run_folder(folder, run)):
            return is_locked(os.path.join(run_folder(folder, run), "lock"))
    was_here = address_.startswith(_machine("")) or address_ == address(home, "s3://")
    return False if was_here else None  # It was removed since.


def _machine(home: str) -> str:
    return f"{os.uname().nodename}:{os.path.abspath(home) if home else ''}"

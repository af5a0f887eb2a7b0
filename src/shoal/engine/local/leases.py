"""Who holds what on this machine: a small table in a file that every driver of this user reads and writes.

Each driver's entry is true in that driver's memory; the file is the view that they share, so a damaged or deleted
one heals as drivers write their entries again. Entries of dead drivers are dropped by whoever looks next.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

from shoal.engine import arbitration
from shoal.engine.claims import PROTOCOL, Ask, Claim, Hold, Table, other_protocol
from shoal.engine.reservations import Settled
from shoal.errors import AccessDenied, EngineError
from shoal.files import ensure_ours, own_folder
from shoal.files.machine import process_start
from shoal.model import Need, Node, Place

TABLE_VARIABLE = "SHOAL_LEASES"
LOCKED_S = 5.0
"""How long the table may be locked by somebody else before that driver counts as suspended."""
PAUSE_S = 0.001
PATIENCE_S = 3.0
"""A run that holds nothing waits this long for others to give back; then it starts one worker all the same."""
FIELDS = {"pid", "start", "scope", "weight", "holds", "asks"}


def table_path() -> str:
    """Where the table is, but for the number of its protocol: SHOAL_LEASES, or a folder of this user's own in the
    system's place for such things."""
    if path := os.environ.get(TABLE_VARIABLE):
        return os.path.abspath(path)
    base = os.environ.get("XDG_RUNTIME_DIR") or os.environ.get("TMPDIR") or "/tmp"
    return os.path.join(own_folder(base), "leases.json")


def numbered(path: str, protocol: object = PROTOCOL) -> str:
    root, extension = os.path.splitext(path)
    return f"{root}-{protocol}{extension}"


def ensure_understood(scope: str) -> None:
    """Raise `CannotPlace` where a driver that keeps another protocol is at work on these nodes."""
    path = table_path()
    for other in _tables(path) - {numbered(path)}:
        with suppress(OSError), open(other, "rb") as file:
            for entry in _parse(file.read()).values():
                if _is_alive(entry) and entry["scope"] == scope:
                    raise other_protocol("this machine", f"process {entry['pid']}")


def _tables(path: str) -> set[str]:
    """Where tables of any protocol may be."""
    folder, name = os.path.split(path)
    root, extension = os.path.splitext(name)
    with suppress(OSError):
        found = os.listdir(folder)
        return {path} | {
            os.path.join(folder, each)
            for each in found
            if each.startswith(f"{root}-") and each.endswith(extension)
        }
    return {path}


def holders(scope: str, run: str) -> list[str]:
    """The other runs whose drivers hold places of these nodes now."""
    try:
        with open(numbered(table_path()), "rb") as file:
            drivers = _alive(_parse(file.read()))
    except OSError:
        return []
    entries = [entry for entry in drivers.values() if entry["scope"] == scope and entry["holds"]]
    return sorted({entry["run"] for entry in entries if entry.get("run", run) != run})


class Leases:
    """One driver's part in the table, for one set of nodes (`scope`). Not thread-safe; the engine's loop owns it."""

    def __init__(
        self, nodes: Sequence[Node], scope: str, path: str, run: str = "", weight: float = 1.0
    ) -> None:
        self._nodes = list(nodes)
        self._run = run
        self._scope = scope
        self._path = numbered(path)
        self._claim = Claim(weight)
        self._name = f"{os.getpid()}-{id(self):x}"
        self._start = process_start(os.getpid())
        self._seen: tuple[int, int] | None = None
        self._numbers = count(1)
        _make_folder(os.path.dirname(path))

    def changed(self) -> bool:
        """Whether somebody wrote the table since this driver looked."""
        try:
            status = os.stat(self._path)
        except OSError:
            return True
        return (status.st_mtime_ns, status.st_size) != self._seen

    def settle(self, asks: Sequence[Ask], used: Collection[int], now: float) -> Settled:
        with self._table() as drivers:
            holds = [hold._replace(used=number in used) for number, hold in self._claim.holds.items()]
            self._claim = Claim(self._claim.weight, holds, asks)
            table = Table(
                self._nodes, {**self._others(drivers), self._name: self._claim}, patience_s=PATIENCE_S
            )
            mine = [(self._name, ask) for ask in asks]
            granted = {
                ask.id: places for _, ask, places in arbitration.grants(table, mine, self._numbers, now)
            }
            arbitration.recalls(table)
            return Settled(granted, list(self._claim.leaving))

    def give(self, place: Place) -> None:
        """Give back one place; one that was given back already is ignored."""
        if self._claim.drop(place.id) is not None:
            with self._table():
                pass

    def expect(self, place: Place, seconds: float, now: float) -> None:
        if (hold := self._claim.holds.get(place.id)) is not None:
            self._claim.hold(hold._replace(until=now + seconds))

    def close(self) -> None:
        self._claim = Claim()
        with suppress(EngineError), self._table() as drivers:
            drivers.pop(self._name, None)
            self._name = ""

    def _others(self, drivers: dict[str, dict[str, Any]]) -> dict[str, Claim]:
        return {
            name: Claim(entry["weight"], map(_hold, entry["holds"]), map(_ask, entry["asks"]))
            for name, entry in drivers.items()
            if name != self._name and entry["scope"] == self._scope
        }

    @contextmanager
    def _table(self) -> Iterator[dict[str, dict[str, Any]]]:
        """The table under its lock; this driver's entry is written when the block ends."""
        descriptor = self._locked()
        try:
            before = os.pread(descriptor, 1 << 24, 0)
            drivers = _alive(_parse(before))
            yield drivers
            if self._name:
                drivers[self._name] = self._entry()
            after = json.dumps(drivers).encode()
            if after != before:
                _write(descriptor, after)
            status = os.fstat(descriptor)
            self._seen = (status.st_mtime_ns, status.st_size)
        finally:
            os.close(descriptor)

    def _locked(self) -> int:
        """The table, locked. One that a driver keeps locked who was suspended in the middle of this is made anew: it is
        held for microseconds otherwise, and the others write themselves into the new one when they see it."""
        until = time.monotonic() + LOCKED_S
        while True:
            descriptor = self._open()
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(descriptor), os.stat(self._path)):
                    return descriptor
            except BlockingIOError:
                if time.monotonic() >= until:
                    until = time.monotonic() + LOCKED_S
                    with suppress(OSError):
                        os.unlink(self._path)
                time.sleep(PAUSE_S)
            except FileNotFoundError:
                pass  # Somebody made it anew meanwhile.
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _open(self) -> int:
        folder = os.path.dirname(self._path)
        try:
            if not os.path.isdir(folder):  # Temporary folders are cleaned now and then.
                _make_folder(folder)
            return os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise _cannot_keep(folder, error) from error

    def _entry(self) -> dict[str, Any]:
        asks = [*self._claim.asks.values(), *self._claim.line.values()]
        return {
            "pid": os.getpid(),
            "start": self._start,
            "scope": self._scope,
            "run": self._run,
            "weight": self._claim.weight,
            "holds": list(self._claim.holds.values()),
            "asks": asks,
        }


def _hold(entry: list[Any]) -> Hold:
    (number, host, need, devices, lent), *rest = entry
    return Hold(Place(number, host, Need(*need), tuple(devices), lent), *rest)


def _ask(entry: list[Any]) -> Ask:
    number, needs, *rest = entry
    return Ask(number, tuple(Need(*need) for need in needs), *rest)


def _make_folder(folder: str) -> None:
    """A folder that nobody else can write to: what stands in the table decides who may start workers."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        ensure_ours(folder, or_root=True)
    except OSError as error:
        raise _cannot_keep(folder, error) from error
    except AccessDenied as error:
        raise EngineError(
            str(error), hint=f"Set {TABLE_VARIABLE} to a file in a folder of your own."
        ) from error


def _cannot_keep(folder: str, error: OSError) -> EngineError:
    return EngineError(
        f"The table of leases cannot be kept in {folder}: {error.strerror}.",
        hint=f"Set {TABLE_VARIABLE} to a file in a folder of your own.",
    )


def _write(descriptor: int, text: bytes) -> None:
    """Where the disk is full, others see less of this driver for a while; that is no reason to end a run."""
    try:
        os.pwrite(descriptor, text, 0)
        os.ftruncate(descriptor, len(text))
    except OSError:
        return


def _parse(text: bytes) -> dict[str, dict[str, Any]]:
    try:
        drivers = json.loads(text) if text else {}
    except ValueError:
        return {}
    return drivers if isinstance(drivers, dict) else {}


def _alive(drivers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: entry for name, entry in drivers.items() if _is_alive(entry) and entry.keys() >= FIELDS}


def _is_alive(entry: object) -> bool:
    """Whether this is the entry of a driver that lives, whatever its protocol."""
    return (
        isinstance(entry, dict)
        and entry.keys() >= {"pid", "start", "scope"}
        and process_start(entry["pid"]) == entry["start"]
    )

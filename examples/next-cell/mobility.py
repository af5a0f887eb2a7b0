"""Generates the mobility records of a few people in a city, in the columns of the group's sheets.

Deterministic by seed. It knows how people move and how phones pick a cell; it does not read or split data.
"""

import csv
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Point = tuple[float, float]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FIRST_DAY = date(2024, 3, 4)
HOLIDAYS = frozenset({date(2024, 3, 25), date(2024, 5, 1), date(2024, 5, 3), date(2024, 5, 6)})
CITY_KM = 30.0
CELLS = 4000
USERS = 6
DAYS = 91
VERSION = 1  # part of the file name: a changed generator never reads the records of an older one


class Record(NamedTuple):
    """One line of the data: which cell served a user's phone, and when."""

    id: int
    user_id: int
    time: str
    cell_id: int
    signaldbm: int
    dow: int
    hour: int
    day: int
    month: int
    year: int
    workday: int


COLUMNS = Record._fields


@dataclass(frozen=True)
class City:
    """Where the antennas stand: crowded in the centre, sparse outside."""

    cell_ids: Integers
    positions: Floats

    @classmethod
    def build(cls, rng: np.random.Generator) -> "City":
        centre = rng.normal(CITY_KM / 2, CITY_KM / 8, size=(CELLS * 6 // 10, 2))
        outskirts = rng.uniform(0, CITY_KM, size=(CELLS - len(centre), 2))
        cell_ids = rng.choice(np.arange(10_000, 100_000), size=CELLS, replace=False)
        return cls(cell_ids, np.concatenate([centre, outskirts]))

    def strongest(self, points: Floats, count: int = 4) -> tuple[Integers, Floats]:
        """For each point, the cells heard best there and their mean signal in dBm."""
        squares = ((points[:, None, :] - self.positions[None, :, :]) ** 2).sum(axis=2)
        nearest = np.argpartition(squares, count, axis=1)[:, :count]
        distances_km = np.sqrt(np.take_along_axis(squares, nearest, axis=1))
        return self.cell_ids[nearest], -92.0 - 35.0 * np.log10(distances_km + 0.05)


@dataclass(frozen=True)
class Person:
    """The habits of one user; times are minutes after midnight."""

    number: int
    home: Point
    work: Point
    lunch: Point
    favourites: tuple[Point, ...]
    sport_days: frozenset[int]
    work_starts: float
    work_ends: float
    wanderlust: float

    @classmethod
    def invent(cls, number: int, rng: np.random.Generator) -> "Person":
        work = _near((CITY_KM / 2, CITY_KM / 2), 3.0, rng)
        return cls(
            number=number,
            home=_near((CITY_KM / 2, CITY_KM / 2), 7.0, rng),
            work=work,
            lunch=_near(work, 0.8, rng),
            favourites=tuple(_near((CITY_KM / 2, CITY_KM / 2), 6.0, rng) for _ in range(7)),
            sport_days=frozenset(rng.choice(5, size=2, replace=False).tolist()),
            work_starts=rng.uniform(7.5, 9.75) * 60,
            work_ends=rng.uniform(16, 18.5) * 60,
            wanderlust=rng.uniform(0.04, 0.16),
        )


def _near(centre: Point, spread_km: float, rng: np.random.Generator) -> Point:
    x, y = np.clip(rng.normal(centre, spread_km), 0.5, CITY_KM - 0.5)
    return (float(x), float(y))


def _workday(person: Person, weekday: int, rng: np.random.Generator) -> Iterator[tuple[Point, float]]:
    """Where to go next and when to set off, for a day at work."""
    yield person.work, person.work_starts + rng.normal(-35, 8)
    if rng.random() < 0.4:
        yield person.lunch, 12.5 * 60 + rng.normal(0, 15)
        yield person.work, 13.25 * 60 + rng.normal(0, 10)
    leaves = person.work_ends + rng.normal(0, 20)
    if weekday in person.sport_days and rng.random() < 0.8:
        yield person.favourites[0], leaves
        leaves += rng.normal(100, 10)
    elif rng.random() < 0.2:
        yield _outing(person, rng), leaves
        leaves += rng.normal(110, 30)
    yield person.home, leaves


def _free_day(person: Person, rng: np.random.Generator) -> Iterator[tuple[Point, float]]:
    """The same for a weekend or a holiday: later, and somewhere else."""
    leaves = rng.normal(11 * 60, 60)
    for _ in range(int(rng.choice(4, p=[0.15, 0.45, 0.3, 0.1]))):
        yield _outing(person, rng), leaves
        leaves += max(45.0, rng.normal(130, 40))
    yield person.home, leaves


def _outing(person: Person, rng: np.random.Generator) -> Point:
    """A favourite place, some much more than others, or now and then one never seen before."""
    if rng.random() < person.wanderlust:
        return (float(rng.uniform(1, CITY_KM - 1)), float(rng.uniform(1, CITY_KM - 1)))
    weights = 1.0 / np.arange(1, len(person.favourites) + 1)
    return person.favourites[int(rng.choice(len(person.favourites), p=weights / weights.sum()))]


@dataclass
class Phone:
    """Follows one person, and hands over between cells as the signal asks for it."""

    city: City
    rng: np.random.Generator
    position: Point
    serving: int = -1
    heard: dict[tuple[Point, ...], tuple[Integers, Floats]] = field(default_factory=dict)

    def stay(self, start_minute: float, end_minute: float) -> Iterator[tuple[float, int, float]]:
        """Pings from one place, every quarter of an hour or so."""
        cells, means = self._hear((self.position,), lambda: np.array([self.position]))
        minute = start_minute + self.rng.exponential(8)
        while minute < end_minute:
            yield minute, *self._serve(cells[0], means[0], noise_db=3.0)
            minute += 4 + self.rng.exponential(16)

    def travel(self, target: Point, start_minute: float) -> Iterator[tuple[float, int, float]]:
        """Pings along the way, one at each waypoint; the way between two places is one of two."""
        detour = self.rng.random() < 0.12
        key = (self.position, target, (float(detour), 0.0))
        cells, means = self._hear(key, lambda: _route(key[0], key[1], detour))
        pace = self.rng.uniform(0.6, 1.1)
        for step, (heard, mean) in enumerate(zip(cells, means, strict=True)):
            yield start_minute + step * pace, *self._serve(heard, mean, noise_db=1.5)
        self.position = target

    def _hear(self, key: tuple[Point, ...], points: Callable[[], Floats]) -> tuple[Integers, Floats]:
        if key not in self.heard:
            self.heard[key] = self.city.strongest(points())
        return self.heard[key]

    def _serve(self, cells: Integers, means: Floats, noise_db: float) -> tuple[int, float]:
        """The cell that serves now: it keeps the phone until another is clearly stronger."""
        signals = means + self.rng.normal(0, noise_db, size=len(cells))
        held = signals + 3.0 * (cells == self.serving)
        best = int(np.argmax(held))
        self.serving = int(cells[best])
        return self.serving, float(signals[best])


def _route(start: Point, end: Point, detour: bool) -> Floats:
    """Waypoints some 400 m apart on a curve that is always the same, and the same on the way back."""
    low, high = sorted([start, end])
    bend = 0.45 if detour else 0.15
    control = (
        (low[0] + high[0]) / 2 - bend * (high[1] - low[1]),
        (low[1] + high[1]) / 2 + bend * (high[0] - low[0]),
    )
    waypoints = max(2, int(np.hypot(high[0] - low[0], high[1] - low[1]) / 0.4))
    along = np.linspace(0, 1, waypoints)[:, None]
    curve = (
        (1 - along) ** 2 * np.array(low)
        + 2 * along * (1 - along) * np.array(control)
        + along**2 * np.array(high)
    )
    return curve if start == low else curve[::-1]


def _days(person: Person, city: City, rng: np.random.Generator, days: int) -> Iterator[Record]:
    """All the records of one person, in order of time; a few get lost, as in any real log."""
    phone = Phone(city, rng, person.home)
    for offset in range(days):
        today = FIRST_DAY + timedelta(days=offset)
        working = today.weekday() < 5 and today not in HOLIDAYS
        for minute, cell, signal in _pings(phone, person, today.weekday(), working):
            if minute < 24 * 60 and rng.random() > 0.04:
                yield _record(
                    person, datetime(today.year, today.month, today.day), minute, cell, signal, working
                )


def _pings(phone: Phone, person: Person, weekday: int, working: bool) -> Iterator[tuple[float, int, float]]:
    """One day: stay, set off, arrive, stay, until midnight."""
    now = 0.0
    plan = _workday(person, weekday, phone.rng) if working else _free_day(person, phone.rng)
    for target, leaves in plan:
        yield from phone.stay(now, leaves)
        now = max(now, leaves)
        for minute, cell, signal in phone.travel(target, now):
            now = minute
            yield minute, cell, signal
    yield from phone.stay(now, 24 * 60.0)


def _record(
    person: Person, midnight: datetime, minute: float, cell: int, signal: float, working: bool
) -> Record:
    moment = midnight + timedelta(seconds=int(minute * 60))
    return Record(
        id=0,
        user_id=person.number,
        time=moment.strftime("%Y-%m-%d %H:%M:%S"),
        cell_id=cell,
        signaldbm=round(signal),
        dow=moment.weekday(),
        hour=moment.hour,
        day=moment.day,
        month=moment.month,
        year=moment.year,
        workday=int(working),
    )


def generate(seed: int = 1, users: int = USERS, days: int = DAYS) -> list[Record]:
    """The records of all users, numbered; the same for the same arguments."""
    city = City.build(np.random.default_rng(seed))
    records: list[Record] = []
    for number in range(1, users + 1):
        rng = np.random.default_rng([seed, number])
        records.extend(_days(Person.invent(number, rng), city, rng, days))
    return [record._replace(id=index) for index, record in enumerate(records, start=1)]


def ensure_file(folder: Path, seed: int = 1, users: int = USERS, days: int = DAYS) -> Path:
    """The generated records as a CSV file in `folder`, made on first use.

    Safe when several processes start at once: each writes aside, and a rename puts a whole file in place.
    """
    path = folder / f"mobility-v{VERSION}-{users}users-{days}days-seed{seed}.csv"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _write_aside(path, generate(seed, users, days))
    return path


def _write_aside(path: Path, records: Iterable[Record]) -> None:
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(COLUMNS)
            writer.writerows(records)
        os.chmod(aside, 0o644)
        os.replace(aside, path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise

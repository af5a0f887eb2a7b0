"""Reads mobility data, generated or real, and cuts it into samples: the last cells, and the next other one.

It does not generate data and knows no model.
"""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import mobility
import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

HERE = Path(__file__).resolve().parent
GENERATED = HERE / "data"
REAL_DATA = Path("../../../shared/data/mobility")  # relative to this folder; used when it exists
UNKNOWN = 0  # the index of every cell that the training part never saw
TRAIN_SHARE, VALIDATION_SHARE = (
    0.70,
    0.15,
)  # of each user's moves, in order of time; the rest is the test part
DAY_TYPES = ("all", "workday", "weekend")
SHEET_COLUMNS = frozenset({"user_id", "time", "cell_id", "hour", "workday"})
REAL_COLUMNS = frozenset({"uid", "x", "y"})


class DataError(Exception):
    """The data that was asked for is not there, or is not mobility data."""


@dataclass(frozen=True)
class Visits:
    """Who was served by which cell, in order of user and time."""

    user: Integers
    cell: Integers
    hour: Integers
    workday: Integers

    def __len__(self) -> int:
        return len(self.cell)

    def pick(self, rows: NDArray[np.bool_]) -> "Visits":
        return Visits(self.user[rows], self.cell[rows], self.hour[rows], self.workday[rows])


@dataclass(frozen=True)
class Samples:
    """One row a move: the cells before it (oldest first), who, when, and where to. All are small indices."""

    context: Integers
    user: Integers
    hour: Integers
    workday: Integers
    target: Integers

    def __len__(self) -> int:
        return len(self.target)

    def pick(self, rows: NDArray[np.bool_] | Integers) -> "Samples":
        return Samples(
            self.context[rows], self.user[rows], self.hour[rows], self.workday[rows], self.target[rows]
        )


@dataclass(frozen=True)
class Dataset:
    """The three parts, each later in time than the one before, and how many cells and users there are."""

    train: Samples
    validation: Samples
    test: Samples
    cells: int
    users: int


def find_real_data() -> Path | None:
    """The real mobility data beside the project, where a developer's machine has it."""
    path = HERE / REAL_DATA
    return path if path.exists() else None


def load(name: str, seed: int = 1) -> Visits:
    """`all` or `user-N` of the generated data, `real`, or the path of a CSV file or of a folder with one."""
    if name == "all" or name.startswith("user-"):
        return _of_user(_generated(seed), name)
    path = find_real_data() if name == "real" else Path(name)
    if path is None or not path.exists():
        looked = f" (looked in {REAL_DATA} from the example's folder)" if name == "real" else ""
        raise DataError(f"No data at {name!r}{looked}: give all, user-1 .. user-{mobility.USERS} or a path.")
    return read_file(path)


def _generated(seed: int) -> Visits:
    try:
        return read_file(mobility.ensure_file(GENERATED, seed))
    except OSError:  # a folder that cannot be written to: the same records, from memory
        return _visits_of_sheet([record._asdict() for record in mobility.generate(seed)])


def _of_user(visits: Visits, name: str) -> Visits:
    if name == "all":
        return visits
    number = name.removeprefix("user-")
    chosen = visits.pick(visits.user == (int(number) if number.isdecimal() else -1))
    if len(chosen) == 0:
        raise DataError(f"No user {name!r} in the generated data: there are user-1 .. user-{mobility.USERS}.")
    return chosen


def read_file(path: Path) -> Visits:
    """A CSV file in the sheet's columns or in those of the real data; which of the two, its header tells."""
    if path.is_dir():
        return read_file(_only_csv(path))
    with path.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream)
        columns = frozenset(reader.fieldnames or ())
        if columns >= SHEET_COLUMNS:
            return _visits_of_sheet(reader)
        if columns >= REAL_COLUMNS:
            return _visits_of_real(reader)
    raise DataError(f"{path.name} is not mobility data: it has the columns {', '.join(sorted(columns))}.")


def _only_csv(folder: Path) -> Path:
    files = sorted(folder.glob("*.csv"))
    if len(files) != 1:
        raise DataError(f"{folder} has {len(files)} CSV files; name the one to read.")
    return files[0]


def _visits_of_sheet(rows: Iterable[Mapping[str, object]]) -> Visits:
    ordered = sorted(
        (
            int(str(row["user_id"])),
            str(row["time"]),
            *(int(str(row[name])) for name in ("cell_id", "hour", "workday")),
        )
        for row in rows
    )
    user, _, cell, hour, workday = zip(*ordered, strict=True)
    return Visits(np.array(user), np.array(cell), np.array(hour), np.array(workday))


def _visits_of_real(rows: Iterable[Mapping[str, str]]) -> Visits:
    """Rows of uid, day, half-hour slot, x, y: the grid square is the cell.

    The dates are not published. Day 0 is taken for a Sunday, a guess: of the first nine days, 0, 6 and 7 have
    the smallest share of morning records.
    """
    ordered = sorted(
        (
            int(row["uid"]),
            int(_either(row, "d", "day")),
            int(_either(row, "t", "slot")),
            int(row["x"]),
            int(row["y"]),
        )
        for row in rows
    )
    user, day, slot, x, y = (np.array(column) for column in zip(*ordered, strict=True))
    return Visits(user, (y - 1) * 200 + (x - 1), slot // 2, (~np.isin(day % 7, (0, 6))).astype(np.int64))


def _either(row: Mapping[str, str], short: str, long: str) -> str:
    return row[short] if short in row else row[long]


def build(visits: Visits, steps: int, day_type: str = "all") -> Dataset:
    """Cut visits into samples of `steps` cells and the next *different* cell, and split them by time.

    Staying is not predicted: a phone that does not move would make any model look good.
    """
    if day_type != "all":
        visits = visits.pick(visits.workday == (1 if day_type == "workday" else 0))
    users, user = np.unique(visits.user, return_inverse=True)
    moved = np.ones(len(visits), dtype=bool)
    moved[1:] = (visits.cell[1:] != visits.cell[:-1]) | (user[1:] != user[:-1])
    moves = Visits(user, visits.cell, visits.hour, visits.workday).pick(moved)
    part = _parts(moves.user)
    known, index = _index(moves.cell, moves.cell[part == 0])
    samples, part = _windows(moves, index, steps, part)
    parts = [samples.pick(part == number) for number in range(3)]
    if min(map(len, parts)) == 0:
        raise DataError(f"Too few moves ({len(samples)}) to learn from and to check on.")
    return Dataset(*parts, cells=known + 1, users=len(users))


def _parts(user: Integers) -> Integers:
    """0 train, 1 validation, 2 test for every move, by its place in the moves of its user."""
    starts = np.flatnonzero(np.r_[True, user[1:] != user[:-1]])
    counts = np.diff(np.r_[starts, len(user)])
    place = (np.arange(len(user)) - np.repeat(starts, counts)) / np.repeat(counts, counts)
    return np.digitize(place, [TRAIN_SHARE, TRAIN_SHARE + VALIDATION_SHARE])


def _index(cells: Integers, trained: Integers) -> tuple[int, Integers]:
    """Number the cells of the training part from 1; every other cell is unknown."""
    known = np.unique(trained)
    place = np.minimum(np.searchsorted(known, cells), len(known) - 1)
    return len(known), np.where(known[place] == cells, place + 1, UNKNOWN)


def _windows(moves: Visits, index: Integers, steps: int, part: Integers) -> tuple[Samples, Integers]:
    """A window ends before each move; the hour is that of the last known cell, not of the one to predict."""
    ends = np.arange(steps, len(index))
    ends = ends[moves.user[ends] == moves.user[ends - steps]]
    context = index[ends[:, None] + np.arange(-steps, 0)]
    last = ends - 1
    samples = Samples(context, moves.user[ends], moves.hour[last], moves.workday[last], index[ends])
    return samples, part[ends]

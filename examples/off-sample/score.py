"""Compares what a run wrote with what the images show: how often it was right, and whether every image came out once.

Reads the parts where they are, a folder or a bucket. Knows no model and predicts nothing.
"""

import argparse
import csv
import io
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet

from shoal.errors import ShoalError
from shoal.files import find

HERE = Path(__file__).resolve().parent
Row = dict[str, Any]


class Score(NamedTuple):
    """What came out. `pairs` counts (what it is, what was said)."""

    pairs: Counter[tuple[str, str]]
    unreadable: int
    missing: int
    twice: int

    @property
    def accuracy(self) -> float:
        right = sum(count for (label, said), count in self.pairs.items() if label == said)
        return right / max(sum(self.pairs.values()), 1)

    @property
    def is_complete(self) -> bool:
        return self.missing == self.twice == 0


def read(folder: str, endpoint: str | None = None) -> tuple[list[Row], list[Row]]:
    """The rows of all parts, and those of `errors.parquet`."""
    storage, entries = find(folder, endpoint=endpoint)
    rows: dict[bool, list[Row]] = {True: [], False: []}
    for entry in sorted(entries):
        if entry.key.endswith(".parquet"):
            # Not `read_table`: it leaves threads behind that may end the interpreter with an abort.
            with pyarrow.parquet.ParquetFile(io.BytesIO(storage.read(entry.key))) as file:
                rows[entry.key == "errors.parquet"] += file.read().to_pylist()
    return rows[False], rows[True]


def against_list(rows: Sequence[Row], errors: Sequence[Row], truth: Mapping[str, str]) -> Score:
    """Rows are known by the name of their image, wherever it lies."""
    seen = Counter(_name(row) for row in rows)
    failed = {_name(row) for row in errors}
    pairs = Counter((truth[_name(row)], row["label"]) for row in rows if _name(row) in truth)
    return Score(
        pairs,
        unreadable=len(failed),
        missing=len(truth.keys() - seen.keys() - failed),
        twice=sum(count > 1 for count in seen.values()) + len(failed & seen.keys()),
    )


def against_column(rows: Sequence[Row], errors: Sequence[Row], column: str) -> Score:
    """The truth is a column of the output, as a key of the input."""
    pairs = Counter((str(row[column]), row["label"]) for row in rows)
    return Score(pairs, unreadable=len(errors), missing=0, twice=0)


def _name(row: Row) -> str:
    return str(row["path"]).rpartition("/")[2]


def show(score: Score) -> None:
    labels = sorted({label for pair in score.pairs for label in pair})
    print(" " * 10 + "".join(f"{'said ' + said:>10}" for said in labels))
    for label in labels:
        print(f"is {label:<7}" + "".join(f"{score.pairs[label, said]:>10}" for said in labels))
    print(f"unreadable: {score.unreadable}, missing: {score.missing}, twice: {score.twice}")
    print(f"accuracy: {score.accuracy:.4f}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument(
        "output", nargs="?", default=str(HERE / "out"), help="what a run wrote (default: out)"
    )
    parser.add_argument("--endpoint", help="the address of the S3 server")
    truths = parser.add_mutually_exclusive_group()
    truths.add_argument("--truth", type=Path, default=HERE / "truth.csv", help="what make_images.py wrote")
    truths.add_argument("--column", help="instead: a column of the output that has the truth")
    options = parser.parse_args(arguments)
    try:
        rows, errors = read(options.output, options.endpoint)
        if options.column is not None:
            score = against_column(rows, errors, options.column)
        else:
            with options.truth.open(newline="", encoding="utf-8") as stream:
                truth = {row["name"]: row["label"] for row in csv.DictReader(stream)}
            score = against_list(rows, errors, truth)
    except (ShoalError, OSError) as error:
        parser.error(f"{error} {getattr(error, 'hint', None) or ''}".strip())
    show(score)
    return 0 if score.is_complete else 1


if __name__ == "__main__":
    sys.exit(main())

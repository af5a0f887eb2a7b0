"""Where a process run writes: its result, and beside it, in a folder of this run's own, what is only for a while."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from shoal.errors import Problem, SpecError
from shoal.files import Storage, is_url, open_storage
from shoal.files.base import joined
from shoal.spec.process import ResultFile
from shoal.work.inputs.places import mark_of

ERRORS = "errors.parquet"


class ResultPlace:
    """The keys of one run's files, in the folder that its result is in.

    Partials and errors are named by their item and its content: whoever writes one writes the same.
    """

    def __init__(self, output: ResultFile, folder: str, run: str) -> None:
        above, _, self.name = output.path.rstrip("/").rpartition("/")
        if not is_url(output.path):
            above = above or ("/" if output.path.startswith("/") else ".")
        self.storage: Storage = open_storage(above, folder=folder, endpoint=output.endpoint)
        self._run = run

    @property
    def scratch(self) -> str:
        return f".shoal-{self._run}"

    def partial_key(self, seq: int, content: str) -> str:
        return joined(self.scratch, f"partial-{seq:06d}-{content}.arrow")

    def errors_key(self, seq: int, content: str) -> str:
        return joined(self.scratch, f"errors-{seq:06d}-{content}.parquet")

    def part_key(self, index: int) -> str:
        """Of a result that is too large for one file: `words.parquet` is a folder then."""
        return joined(self.name, f"part-{index:06d}{self.ending}")

    @property
    def ending(self) -> str:
        return ".csv" if self.name.endswith(".csv") else ".parquet"

    def result_keys(self) -> list[str]:
        """The file, or its parts in order; none where there is no result."""
        if self.storage.exists(self.name):
            return [self.name]
        return sorted(entry.key for entry in self.storage.list(self.name, f"part-*{self.ending}"))

    def mark(self) -> str:
        """Another one when the result is another one; empty where there is none."""
        return " ".join(mark_of(self.storage.stat(key)) for key in self.result_keys())

    def is_foreign_folder(self) -> bool:
        """Whether there is a folder of the result's name with something else in it than parts, or with nothing."""
        parts = {*self.result_keys()}
        found = {entry.key for entry in self.storage.list(self.name, hidden=True)}
        return not parts or found != parts

    def make_room(self, parts: int) -> None:
        """Remove what an earlier result left under the name that one of so many parts does not replace."""
        wanted = {self.name} if parts == 1 else {self.part_key(index) for index in range(parts)}
        for key in self.result_keys():
            if key not in wanted:
                self.storage.delete(key)
        if parts == 1 and not is_url(self.storage.url):
            with suppress(OSError):
                os.rmdir(os.path.join(self.storage.url, self.name))

    @property
    def all_errors_key(self) -> str:
        """`words.errors.parquet` beside `words.csv`."""
        stem = self.name.rpartition(".")[0] or self.name
        return f"{stem}.{ERRORS}"

    def clear(self, keep: Iterable[str] = ()) -> None:
        """Remove what is only for a while."""
        kept = set(keep)
        for entry in list(self.storage.list(self.scratch, hidden=True)):
            if entry.key not in kept:
                self.storage.delete(entry.key)
        if not is_url(self.storage.url):
            with suppress(OSError):
                os.rmdir(os.path.join(self.storage.url, self.scratch))


def check_place(output: ResultFile, folder: str) -> list[Problem]:
    """Every problem with where the result goes that can be seen from here."""
    if output.path.lower().startswith(("http://", "https://")):
        hint = "Give a file here, or on s3:// or hdfs://."
        return [Problem(f"output: {output.path} can be read, not written.", hint)]
    try:
        place = ResultPlace(output, folder, "x")
    except SpecError as error:
        return [Problem(f"output: {problem.message}", problem.hint) for problem in error.problems]
    if is_url(output.path):
        return []
    nearest = place.storage.url
    while not os.path.lexists(nearest):
        nearest = os.path.dirname(nearest)
    if not os.path.isdir(nearest):
        return [Problem(f"output: {nearest} is a file, not a folder.", "Give another path.")]
    if not os.access(nearest, os.W_OK | os.X_OK):
        return [
            Problem(f"output: {nearest} may not be written.", "Give another path, or look at its rights.")
        ]
    if os.path.isdir(os.path.join(folder, output.path)) and place.is_foreign_folder():
        return [Problem(f"output: {output.path} is a folder.", "Give the name of a file in it.")]
    return []

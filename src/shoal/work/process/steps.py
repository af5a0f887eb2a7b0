"""The two steps of a process run, for whoever executes an item: ranges to a partial, and partials to the result."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from shoal import spec as specs
from shoal.engine.workers.runner import Failed, Stopwatch, now, workload_folder
from shoal.errors import NotFound, SpecError
from shoal.spec.process import JobChoice, Process, RecordFilter
from shoal.work import functions
from shoal.work.process import brought_partials, partials
from shoal.work.process.bad_records import BadRecords
from shoal.work.process.item_counts import Counting
from shoal.work.process.item_params import (
    FACTS,
    NUMBERS,
    PARTIALS,
    SHARE,
    Facts,
    content_of,
    is_map,
    ranges_of,
)
from shoal.work.process.jobs import built_in
from shoal.work.process.jobs.base import Job, adopted, is_rows, numbers_of
from shoal.work.process.reduction import reduced
from shoal.work.process.result_file import ensure_replaceable, write_result
from shoal.work.process.result_place import ResultPlace
from shoal.work.process.scratch import Scratch
from shoal.work.protocols import Unreadable
from shoal.work.records.filters import Filter
from shoal.work.records.reader import ARCHIVES, Reader
from shoal.work.records.stored_files import StoredFiles

TABLES_NEED = ("pyarrow.acero", "pyarrow.compute", "pyarrow.csv", "pyarrow.ipc", "pyarrow.parquet")
ARCHIVES_NEED = ("fastwarc", "resiliparse.parse.encoding")
BEAT_RECORDS = 5000
"""So often it is asked whether anybody still wants the item."""


def job_of(choice: JobChoice) -> Job:
    """Imports the code of the user's, where it is theirs."""
    if choice.function is not None:
        return adopted(functions.load(choice.function), choice.options)
    return built_in(str(choice.name), choice.options)


def _filter(asked: RecordFilter) -> Filter | None:
    """None where all records are wanted."""
    given = (asked.host, asked.type, asked.status, asked.language)
    return Filter(*given) if any(given) else None


def _give_back() -> None:
    """Let others have the memory that Arrow keeps for the next item: the last one may be the merge, elsewhere."""
    import pyarrow

    pyarrow.default_memory_pool().release_unused()


_Key: TypeAlias = tuple[int, str]
"""Of a partial: sequence number and content of the item that wrote it."""


class Steps:
    """What one process needs to execute items. `text` and `sets` are the workload; `data` is the folder that relative
    inputs and outputs are in."""

    def __init__(
        self, text: str, label: str, sets: list[str], data: str, run: str, brought: bool = False
    ) -> None:
        """With `brought`, partials go with what items leave behind, and are merged by the driver."""
        found = specs.loads(text, folder=workload_folder(), label=label, sets=sets, kind="process")
        assert isinstance(found, Process)
        self._spec = found
        self._job = job_of(found.job)
        self._filter = _filter(found.filter)
        self._place = ResultPlace(found.output, data, run)
        self._files = StoredFiles(data, found.input.endpoint)
        self._is_brought = brought
        for module in (*TABLES_NEED, *(ARCHIVES_NEED if found.input.format in ARCHIVES else ())):
            import_module(module)  # Now, so that it is not counted as work.

    def do(
        self, seq: int, params: Mapping[str, Any], beat: Callable[[], None], own: str = ""
    ) -> dict[str, Any]:
        """Execute an item: its metrics. `beat` is called now and then, and may raise; `own` is the item's folder."""
        with tempfile.TemporaryDirectory(prefix="shoal-") as folder:
            if not is_map(params):
                return {"rows": self._reduce(params, folder), NUMBERS: numbers_of(self._job)}
            facts = self._found(seq, params) or self._map(seq, params, folder, beat, own)
            _give_back()
            return {"records": facts.records, "errors": facts.errors, FACTS: facts.plain()}

    # Map.

    def _found(self, seq: int, params: Mapping[str, Any]) -> Facts | None:
        """What an earlier attempt left, if it finished."""
        if self._is_brought:
            return None
        key = self._place.partial_key(seq, content_of(params))
        try:
            entry = self._place.storage.stat(key)
            with self._place.storage.open(key) as file:
                facts = Facts.read(partials.Partial(file, key).document)
        except NotFound:
            return None
        return facts._replace(partial_bytes=entry.size_bytes)

    def _map(
        self, seq: int, params: Mapping[str, Any], folder: str, beat: Callable[[], None], own: str
    ) -> Facts:
        watch, bad, began = Stopwatch(), BadRecords(), now()
        counting = Counting(self._job, Scratch(folder))
        records, size, extents = 0, 0, []
        for each in ranges_of(params):
            reader = Reader(
                self._files, each, self._spec.input.format, self._job.records, self._filter, bad.note
            )
            for record in reader:
                try:
                    counting.add(record)
                    records += 1
                except Unreadable as error:
                    reader.tell(record, str(error))
                if not records % BEAT_RECORDS:
                    beat()
            extents.append(reader.extent)
            size += each.stop - each.start
        watch.add("reading", now() - began)
        path = Path(folder, "partial")
        facts = Facts(records, bad.count, size, 0, extents, watch.seconds)
        with watch.measuring("writing"):
            with path.open("w+b") as out:
                partials.write(out, self._job, counting.tables(), facts.plain())
            self._keep(seq, params, path, bad, own)
        return facts._replace(partial_bytes=os.path.getsize(path), seconds=dict(watch.seconds))

    def _keep(self, seq: int, params: Mapping[str, Any], partial: Path, bad: BadRecords, own: str) -> None:
        errors = bad.file() if bad.kept else None
        if self._is_brought:
            brought_partials.leave(own, partial, errors)
            return
        content = content_of(params)
        if errors is not None:
            self._place.storage.write(self._place.errors_key(seq, content), errors)
        self._place.storage.write_new(self._place.partial_key(seq, content), partial.read_bytes())

    # Reduce.

    def _reduce(self, params: Mapping[str, Any], folder: str) -> int:
        index, shares = params[SHARE]
        place, path = self._place, Path(folder, "result")
        tables = reduced(self._job, self._sources(params[PARTIALS], index, shares), Scratch(folder))
        with path.open("wb") as out:
            written = write_result(out, place.ending[1:], self._job, tables)
        try:
            ensure_replaceable(place, self._job)
        except SpecError as error:
            raise Failed(f"{error} {error.hint} Then resume the run with --failed.") from error
        place.make_room(shares)
        place.storage.write(place.name if shares == 1 else place.part_key(index), path)
        return written.rows

    def _sources(self, found: Sequence[_Key], index: int, shares: int) -> list[Iterator[Any]]:
        """What one reduce item merges of the partials: a span of the keys, or of the rows those of some partials.

        A partial is open only while it is read: there may be more of them than files that a process may open.
        """
        span = partials.EVERYTHING
        if is_rows(self._job):
            found = found[len(found) * index // shares : len(found) * (index + 1) // shares]
        elif shares > 1:
            spans = partials.spans(self._opened(found), shares)
            if index >= len(spans):
                return []
            span = spans[index]
        return [self._tables(each, span) for each in found]

    def _tables(self, key: _Key, span: partials.Span) -> Iterator[Any]:
        for partial in self._opened([key]):
            yield from partial.tables(span)

    def _opened(self, found: Iterable[_Key]) -> Iterator[partials.Partial]:
        """Each of them, closed when the next is asked for."""
        for seq, content in found:
            key = self._place.partial_key(seq, content)
            try:
                file = self._place.storage.open(key)
            except NotFound as error:
                raise Failed(
                    f"{self._place.storage.url}/{key} is gone: run the workload again to make it anew."
                ) from error
            with file:
                yield partials.Partial(file, f"partial {seq}")

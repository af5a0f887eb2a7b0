"""The two steps of a process run, for whoever executes an item: ranges to a partial, and partials to the result."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from shoal import spec as specs
from shoal.engine.workers.runner import Failed, Stopwatch, now, workload_folder
from shoal.errors import NotFound
from shoal.spec.process import JobChoice, Process, RecordFilter
from shoal.work import functions
from shoal.work.process import brought_partials, partials
from shoal.work.process.counting import Counting
from shoal.work.process.filters import Filter
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
from shoal.work.process.merging import reduced
from shoal.work.process.reader import ARCHIVES, Reader
from shoal.work.process.record import BadRecord
from shoal.work.process.result_file import write_result
from shoal.work.process.result_place import ResultPlace
from shoal.work.process.scratch import Scratch
from shoal.work.process.stored_files import StoredFiles
from shoal.work.protocols import Unreadable

TABLES_NEED = ("pyarrow.acero", "pyarrow.compute", "pyarrow.csv", "pyarrow.ipc", "pyarrow.parquet")
ARCHIVES_NEED = ("fastwarc", "resiliparse.parse.encoding")
ERRORS_KEPT = 10_000
"""Bad records of one item that are kept with their reasons; the others are counted."""
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
        watch, bad, began = Stopwatch(), _Bad(), now()
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

    def _keep(self, seq: int, params: Mapping[str, Any], partial: Path, bad: _Bad, own: str) -> None:
        errors = bad.table() if bad.kept else None
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
        with ExitStack() as files:
            found = [
                partials.Partial(files.enter_context(self._partial(seq, content)), f"partial {seq}")
                for seq, content in params[PARTIALS]
            ]
            sources = _share(self._job, found, index, shares)
            tables = reduced(self._job, sources, Scratch(folder))
            with path.open("wb") as out:
                written = write_result(out, place.ending[1:], self._job, tables)
        place.storage.write(place.name if shares == 1 else place.part_key(index), path)
        return written.rows

    @contextmanager
    def _partial(self, seq: int, content: str) -> Iterator[Any]:
        key = self._place.partial_key(seq, content)
        try:
            file = self._place.storage.open(key)
        except NotFound as error:
            raise Failed(
                f"{self._place.storage.url}/{key} is gone: run the workload again to make it anew."
            ) from error
        with file:
            yield file


def _share(job: Job, found: list[partials.Partial], index: int, shares: int) -> list[Iterator[Any]]:
    """What one reduce item merges of the partials: a span of the keys, or of the rows some partials."""
    if shares == 1:
        return [partial.tables() for partial in found]
    if is_rows(job):
        return [partial.tables() for partial in found[index::shares]]
    spans = partials.spans(found, shares)
    return [partial.tables(spans[index]) for partial in found] if index < len(spans) else []


class _Bad:
    """Bad records of one item: all are counted, some are kept."""

    def __init__(self) -> None:
        self.count = 0
        self.kept: list[BadRecord] = []

    def note(self, record: BadRecord) -> None:
        self.count += 1
        if len(self.kept) < ERRORS_KEPT:
            self.kept.append(record)

    def table(self) -> bytes:
        """Those that are kept, as a Parquet file."""
        import pyarrow
        from pyarrow import parquet

        columns_ = {name: [getattr(each, name) for each in self.kept] for name in BadRecord._fields}
        sink = pyarrow.BufferOutputStream()
        parquet.write_table(pyarrow.table(columns_), sink)
        data: bytes = sink.getvalue().to_pybytes()
        return data

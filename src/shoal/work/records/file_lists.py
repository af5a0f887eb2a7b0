"""From what an input names to ranges: files, folders, patterns, lists of files, and indexes of records."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, BinaryIO, NamedTuple, cast

from shoal.errors import FileError, NotFound, SpecError
from shoal.files import is_url
from shoal.work.inputs.places import Place, files_at, mark_of, one_line
from shoal.work.records.ranges import cut
from shoal.work.records.record import BadRecord, Range

_LIST = re.compile(r".*\.paths(?:\.gz)?", re.DOTALL)
_LEFT_OUT = frozenset(("_SUCCESS", "_metadata", "_common_metadata"))
"""What Spark and others put beside their files."""
_HOST = re.compile(r"[a-z][a-z0-9+.-]*://[^/]*", re.IGNORECASE)
_NAMES = (("filename", "offset", "length"), ("warc_filename", "warc_record_offset", "warc_record_length"))
"""Columns of an index: of CDXJ and of tables, and of Common Crawl's tables."""
_CDX = {"g": "filename", "V": "offset", "S": "length"}
"""The same, as the first line of a CDX file names them."""


class Inputs(NamedTuple):
    """What an input says of where its files are."""

    targets: Sequence[str]
    """Paths, patterns and URLs. One that ends with `.paths` or `.paths.gz` is a list of files, as of Common Crawl."""
    folder: str
    """Relative paths are below it."""
    endpoint: str | None = None
    base: str | None = None
    """What names in lists and indexes are relative to; without it, to the server, the bucket, or the list's folder."""
    most_listed: int | None = None
    """Of each list, only so many files: each of them costs a request."""


def file_ranges(inputs: Inputs, split: int) -> Iterator[Range]:
    """Ranges of all files that are meant, file after file, as they are found. A list costs a request for each file.

    Raises `NotFound` for a target without files, and other `FileError` and `SpecError` that say what is wrong.
    """
    for target in inputs.targets:
        is_list = _LIST.fullmatch(target.partition("?")[0])
        for each in islice(_listed(inputs, target), inputs.most_listed) if is_list else (target,):
            place, entries = files_at(each, inputs.folder, inputs.endpoint)
            for entry in entries:
                if entry.key.rpartition("/")[2] not in _LEFT_OUT:
                    yield from cut(entry.key, entry.size_bytes, split, mark_of(entry), place.root)


def record_ranges(inputs: Inputs, bad: Callable[[BadRecord], None]) -> Iterator[Range]:
    """One range for each record that the indexes in `targets` name: CDX, CDXJ, JSON lines, CSV or Parquet, gzipped too.

    What an index has that is no record's place is reported as bad.
    """
    for target in inputs.targets:
        place, entries = files_at(target, inputs.folder, inputs.endpoint)
        for entry in entries:
            path = place.path(entry.key)
            base = _base(inputs, target, place)
            with place.storage.open(entry.key) as file:
                for number, row in _index_rows(file):
                    try:
                        yield _record_range(row, base, is_remote=is_url(place.storage.url))
                    except (SpecError, ValueError, TypeError) as error:
                        bad(BadRecord(path, number, f"no record's place: {one_line(error)}"))


def _listed(inputs: Inputs, target: str) -> Iterator[str]:
    """The files that a list names, as targets of their own."""
    place, entries = files_at(target, inputs.folder, inputs.endpoint)
    base = _base(inputs, target, place)
    for entry in entries:
        with place.storage.open(entry.key) as file:
            for line in _lines(file):
                name = line.strip()
                if name and not name.startswith("#"):
                    root, key = _place_of(name, base, is_remote=is_url(place.storage.url))
                    yield f"{root}/{key}"


def _base(inputs: Inputs, target: str, place: Place) -> str:
    if inputs.base is not None:
        return inputs.base.rstrip("/")
    server = _HOST.match(target)
    return server[0] if server is not None else place.root


def _place_of(name: str, base: str, *, is_remote: bool) -> tuple[str, str]:
    """The root and the key of a file that a list names."""
    is_address = is_url(name)
    if is_remote and (os.path.isabs(name) or (is_address and name.lower().startswith("file:"))):
        raise SpecError(
            f"A list from elsewhere names {name!r}, a file of this machine.",
            hint="Copy the list to this machine, if that is meant.",
        )
    if is_address or os.path.isabs(name):
        root, _, key = name.rpartition("/")
        return root, key
    if ".." in name.split("/"):
        raise SpecError(f"{name!r} leads out of {base}.", hint="Name files below it, or whole URLs.")
    return base, name.removeprefix("./")


def _record_range(row: Mapping[str, Any], base: str, *, is_remote: bool) -> Range:
    for names in _NAMES:
        if all(name in row for name in names):
            filename, offset, length = (row[name] for name in names)
            root, key = _place_of(str(filename), base, is_remote=is_remote)
            start, size = int(offset), int(length)
            if start < 0 or size <= 0 or not key:
                raise ValueError(f"{filename!r} from byte {start}, {size} bytes")
            return Range(key, start, start + size, root=root, is_exact=True)
    raise ValueError(f"it has no {', '.join(_NAMES[0])}, but {', '.join([*row][:5]) or 'nothing'}")


def _index_rows(file: BinaryIO) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Rows of an index, and their numbers from 1."""
    if file.read(4) == b"PAR1":
        yield from enumerate(_table_rows(file), 1)
        return
    lines = _lines(file)
    header: Sequence[str] | None = None
    delimiter: str | None = None
    for number, line in enumerate(lines, 1):
        if (at := line.find("{")) >= 0 and header is None:
            yield number, _json(line[at:])
        elif line.startswith(" CDX "):
            header = [_CDX.get(each, each) for each in line.split()[1:]]
        elif header is not None:
            yield number, dict(zip(header, line.rstrip("\r\n").split(delimiter), strict=False))
        elif line.strip():
            delimiter = next((each for each in "\t;," if each in line), ",")
            header = [each.strip().strip('"') for each in line.split(delimiter)]


def _table_rows(file: BinaryIO) -> Iterator[Mapping[str, Any]]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(file) as table:
        names = next((each for each in _NAMES if {*each} <= {*table.schema_arrow.names}), None)
        for batch in table.iter_batches(columns=None if names is None else [*names], use_threads=False):
            yield from batch.to_pylist()


def _json(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _lines(file: BinaryIO) -> Iterator[str]:
    """Lines of a text, gzipped or not."""
    file.seek(0)
    is_packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    source = cast(Iterable[bytes], gzip.GzipFile(fileobj=file) if is_packed else file)
    try:
        for line in source:
            yield line.decode("utf-8", "replace")
    except (EOFError, OSError) as error:
        if isinstance(error, NotFound):
            raise
        raise FileError(f"The list cannot be read: {one_line(error)}.") from error

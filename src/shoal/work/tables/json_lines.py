"""Reads .jsonl tables: an object a line, the columns are the keys in order of first appearance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from json import JSONDecodeError, JSONDecoder
from typing import Any

from shoal.spec.command import Cell
from shoal.work.tables.table import BLANK, LARGEST_WIDTH, CellError, Problems, compact_json, value_cell
from shoal.work.tables.text import open_text

ONE_A_LINE = 'Write one JSON object a line, such as {"lr": 0.1, "model": "lstm"}.'


class JsonlSource:
    """A table of JSON lines. A key that an object lacks is a blank; keys that came later are not read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._keys: dict[str, int] = {}

    def place(self, index: int) -> str:
        key, line = list(self._keys.items())[index]
        return f"key {key!r} in line {line}"

    def scan(self, problems: Problems) -> tuple[list[str], int]:
        keys: dict[str, int] = {}
        count = 0
        for line, record in self._records(problems):
            count += 1
            if not record.keys() <= keys.keys():
                for key in record:
                    keys.setdefault(key, line)
                if len(keys) > LARGEST_WIDTH:
                    raise problems.fail(f"has more than {LARGEST_WIDTH:,} different keys", at=f"line {line}")
        self._keys = keys
        return list(keys), count

    def rows(self, start: int, problems: Problems) -> Iterator[tuple[Cell, ...]]:
        keys = tuple(self._keys)
        for _, record in islice(self._records(problems), start, None):
            problems.raise_any()
            yield tuple([value_cell(record[key]) if key in record else BLANK for key in keys])
        problems.raise_any()

    def _records(self, problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
        decode = JSONDecoder(object_pairs_hook=object_of).decode
        with open_text(self._path, problems) as file:
            for line, text in enumerate(file, 1):
                if text.isspace():
                    continue
                try:
                    yield line, record_of(text, decode)
                except CellError as bad:
                    problems.add(bad.sentence, at=f"line {line}{bad.hint or ''}", hint=ONE_A_LINE)


def record_of(text: str, decode: Callable[[str], Any]) -> dict[str, Any]:
    """The object in a line; the hint of a `CellError` is where in the line it broke."""
    try:
        record = decode(text)
    except JSONDecodeError as error:
        raise CellError("not valid JSON", hint=f" ({error.msg} at character {error.pos + 1})") from None
    except (ValueError, RecursionError) as error:
        raise CellError("not usable JSON", hint=f" ({error})") from None
    if not isinstance(record, dict):
        raise CellError("not a JSON object", hint=f" ({type(record).__name__})")
    if "\\u" in text:
        check_escapes(record)
    return record


def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return record


def check_escapes(record: dict[str, Any]) -> None:
    """Refuse text that was escaped into the line and that no command line can hold."""
    try:
        compact_json(record).encode()
    except UnicodeEncodeError:
        raise CellError("half of a surrogate pair, which is not text") from None
    for value in record.values():
        value_cell(value)

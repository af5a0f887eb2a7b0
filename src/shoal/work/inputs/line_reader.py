"""Lines as a worker reads them: one range of bytes for an item, then line by line."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from shoal.errors import nearest
from shoal.spec.shared_sections import Input
from shoal.work.inputs.gzip_lines import Unpacked
from shoal.work.inputs.line_files import BOM, LARGEST_BYTES, SPACES
from shoal.work.inputs.places import CHANGED, Place, blamed, one_line, place_of_row, text_of
from shoal.work.protocols import Unreadable


class TextLines:
    """See `Opened`. The lines are read with the first one that is asked for, and kept."""

    def __init__(self, place: Place, params: Mapping[str, Any], unpacked: Unpacked) -> None:
        self._place, self._params, self._unpacked = place, params, unpacked
        self._lock = threading.Lock()
        self._lines: Sequence[bytes] | Unreadable | None = None

    def __len__(self) -> int:
        return int(self._params["rows"])

    def keys(self, positions: Sequence[int]) -> dict[str, Sequence[Any]]:
        path, start = self._place.path(self._params["file"]), self._params["start"]
        is_broken = "broken" in self._params
        rows = [None if is_broken else start + position for position in positions]
        return {"path": [path] * len(positions), "row": rows}

    def where(self, position: int) -> str:
        return place_of_row(self._place, self._params, position)

    def read(self, position: int) -> Any:
        return self._text(position)

    def _text(self, position: int) -> str:
        with self._lock:
            if self._lines is None:
                self._lines = self._read()
        if isinstance(self._lines, Unreadable):
            raise Unreadable(*self._lines.args)
        try:
            return self._lines[position].removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            raise Unreadable(f"not UTF-8: byte {byte:#04x} at {error.start + 1} of the line") from None

    def _read(self) -> Sequence[bytes] | Unreadable:
        """All lines of the item. What is wrong with the file is wrong with each of them."""
        if "broken" in self._params:
            return Unreadable(self._params["broken"])
        length = self._params["end"] - self._params["begin"]
        if length > LARGEST_BYTES:
            return Unreadable(f"a line of {length:,} bytes; at most {LARGEST_BYTES:,} are read")
        try:
            with blamed():
                return self._split(length)
        except Unreadable as error:
            return error

    def _split(self, length: int) -> Sequence[bytes]:
        """The range, cut into lines, if it still is made of as many whole ones as when it was listed."""
        begin = self._params["begin"]
        before = min(begin, len(BOM))
        read: Callable[..., bytes] = partial(self._unpacked.read, self._place, self._params["mark"])
        if "packed" not in self._params:
            read = self._place.storage.read
        data = read(self._params["file"], start=begin - before, length=before + length + 1)
        head, body, follows = data[:before], data[before : before + length], data[before + length :]
        begins_well = begin == 0 or head.endswith(b"\n") or (begin == len(BOM) and head == BOM)
        ends_well = len(body) == length and (body.endswith(b"\n") or not follows)
        lines = [line for line in body.removesuffix(b"\n").split(b"\n") if self._is_input(line)]
        if not begins_well or not ends_well or len(lines) != len(self):
            raise Unreadable(CHANGED)
        return lines

    def _is_input(self, line: bytes) -> bool:
        return True


class JsonLines(TextLines):
    """See `Opened`. A row is what `input.column` asks for, or everything that is no key."""

    def __init__(self, place: Place, params: Mapping[str, Any], unpacked: Unpacked, input_: Input) -> None:
        super().__init__(place, params, unpacked)
        self._columns, self._key_names = input_.column, input_.key
        self._key_values: dict[int, list[Any]] = {}
        """Of lines that were read: no line is parsed twice."""

    def keys(self, positions: Sequence[int]) -> dict[str, Sequence[Any]]:
        if not self._key_names:
            return super().keys(positions)
        rows = [self._keys_at(position) for position in positions]
        return {name: [row[index] for row in rows] for index, name in enumerate(self._key_names)}

    def read(self, position: int) -> dict[str, Any]:
        record = self._record(position)
        if not self._columns:
            return {name: value for name, value in record.items() if name not in self._key_names}
        for name in self._columns:
            if name not in record:
                raise Unreadable(f"it has no {name!r}. {nearest(name, record)}")
        return {name: record[name] for name in self._columns}

    def _keys_at(self, position: int) -> list[Any]:
        if position not in self._key_values:
            try:
                self._record(position)
            except Unreadable:
                return [None] * len(self._key_names)
        return self._key_values[position]

    def _record(self, position: int) -> dict[str, Any]:
        try:
            record = json.loads(self._text(position))
        except json.JSONDecodeError as error:
            raise Unreadable(f"not valid JSON: {error.msg} at character {error.pos + 1}") from None
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"not usable JSON: {one_line(error)}") from None
        if not isinstance(record, dict):
            raise Unreadable(f"not a JSON object, but {_KINDS.get(type(record), 'a number')}")
        if self._key_names:
            self._key_values[position] = [_plain(record.get(name)) for name in self._key_names]
        return record

    def _is_input(self, line: bytes) -> bool:
        return bool(line.strip(SPACES))


_KINDS: Mapping[type, str] = {list: "a list", str: "text", bool: "true or false", type(None): "null"}


def _plain(value: Any) -> Any:
    return text_of(value) if isinstance(value, str) else value

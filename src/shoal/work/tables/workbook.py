"""A workbook around its cells: archive, XML, strings, styles, sheets, and numbers as people see them."""

from __future__ import annotations

import posixpath
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from re import IGNORECASE, Match
from re import compile as compile_pattern
from typing import NamedTuple
from xml.parsers.expat import ExpatError, ParserCreate
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from shoal.spec.command import Cell
from shoal.work.tables.table import CellError, Problems

LARGEST_BYTES = 1 << 30
SUSPICIOUS_BYTES = 16 << 20  # from here on, what unpacks to a great multiple of its size is a trap
SUSPICIOUS_RATIO = 300
PIECE_BYTES = 1 << 16
OLE_MAGIC = b"\xd0\xcf\x11\xe0"
SAVE_AGAIN = "Open it in a spreadsheet program and save it again as .xlsx."
_ESCAPE = compile_pattern("_x([0-9a-fA-F]{4})_")
DATE, MOMENT, TIME, ELAPSED = "date", "moment", "time", "elapsed"
LARGEST_EXACT = 1 << 53
DAY_MS = 86_400_000
_QUOTED = compile_pattern(r'"[^"]*"|[\\_*].|\[(?!h+\]|m+\]|s+\])[^\]]*\]', IGNORECASE)
_ELAPSED = compile_pattern(r"\[[hms]+\]", IGNORECASE)
_BUILT_IN = {
    **dict.fromkeys((14, 15, 16, 17, *range(27, 32), 34, 35, 36, *range(50, 59)), DATE),
    **dict.fromkeys((18, 19, 20, 21, 32, 33, 45, 47), TIME),
    22: MOMENT,
    46: ELAPSED,
}


class BrokenError(Exception):
    """The workbook breaks the rules of its format; the message says where."""


class Workbook(NamedTuple):
    """Where things are in the archive."""

    sheet: str
    strings: str | None
    styles: str | None
    from_1904: bool


@contextmanager
def open_archive(path: str, problems: Problems) -> Iterator[ZipFile]:
    """The workbook's archive, once its sizes are known to be sane; what breaks in it becomes one sentence."""
    try:
        with ZipFile(path) as archive:
            check_sizes(archive, problems)
            yield archive
    except BadZipFile as error:
        raise problems.fail(not_a_workbook(path, error), hint=SAVE_AGAIN) from None
    except (BrokenError, ExpatError, zlib.error, struct.error) as error:
        raise problems.fail(f"is damaged ({error})", hint=SAVE_AGAIN) from None
    except (ValueError, LookupError, RuntimeError, EOFError, OverflowError) as error:
        raise problems.fail(f"is damaged ({type(error).__name__}: {error})", hint=SAVE_AGAIN) from None


def not_a_workbook(path: str, error: BadZipFile) -> str:
    with open(path, "rb") as file:
        if file.read(4) == OLE_MAGIC:
            return "is an old .xls workbook, or one with a password"
    return f"is not an .xlsx workbook, or is damaged ({str(error).rstrip('.')})"


def check_sizes(archive: ZipFile, problems: Problems) -> None:
    members = archive.infolist()
    total = sum(member.file_size for member in members)
    packed = sum(member.compress_size for member in members)
    if total > LARGEST_BYTES or (total > SUSPICIOUS_BYTES and total > SUSPICIOUS_RATIO * packed):
        raise problems.fail(
            f"would unpack to {total:,} bytes, which is not what a table of experiments is",
            hint="Save only the table itself, or save it as CSV.",
        )
    if any(
        member.compress_type not in (ZIP_STORED, ZIP_DEFLATED) or member.flag_bits & 1 for member in members
    ):
        raise BrokenError("it is packed or encrypted in a way that workbooks are not")


def parse_part(
    archive: ZipFile,
    name: str,
    start: Callable[[str, dict[str, str]], None],
    end: Callable[[str], None],
    text: Callable[[str], None],
) -> Iterator[None]:
    """Feed a part of the archive to the handlers, a piece at each step. Names are `NAMESPACE TAG`."""
    parser = ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = refuse_doctype
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    try:
        with archive.open(name) as part:
            while piece := part.read(PIECE_BYTES):
                parser.Parse(piece, False)
                yield
        parser.Parse(b"", True)
    except KeyError:
        raise BrokenError(f"it has no part {name}") from None
    yield


def refuse_doctype(name: str, system: str | None, public: str | None, internal: int) -> None:
    raise BrokenError("its XML has a document type, which workbooks do not")


def elements(archive: ZipFile, name: str) -> list[tuple[str, str, dict[str, str]]]:
    """All elements of a small part, in order: parent, tag and attributes, without their namespaces."""
    found: list[tuple[str, str, dict[str, str]]] = []
    parents = [""]

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(parents) > 64:
            raise BrokenError("elements are nested too deeply")
        found.append((parents[-1], local(tag), {local(key): value for key, value in attributes.items()}))
        parents.append(local(tag))

    for _ in parse_part(archive, name, start, lambda tag: parents.__delitem__(-1), lambda text: None):
        pass
    return found


def local(name: str) -> str:
    return name.rpartition(" ")[2]


def read_workbook(archive: ZipFile) -> Workbook:
    """Find the first sheet that is visible and holds cells, and the parts that it needs."""
    root = next((part for kind, part in relations(archive, "").values() if kind == "officeDocument"), None)
    if root is None:
        raise BrokenError("it has no workbook part")
    parts = relations(archive, root)
    shared = dict(parts.values())
    sheets: list[str] = []
    from_1904 = False
    for _, tag, attributes in elements(archive, root):
        if tag == "workbookPr":
            from_1904 = attributes.get("date1904") in ("1", "true")
        elif tag == "sheet" and attributes.get("state", "visible") == "visible":
            kind, part = parts.get(attributes.get("id", ""), ("", ""))
            if kind == "worksheet":
                sheets.append(part)
    if not sheets:
        raise BrokenError("it has no visible sheet")
    return Workbook(sheets[0], shared.get("sharedStrings"), shared.get("styles"), from_1904)


def relations(archive: ZipFile, part: str) -> dict[str, tuple[str, str]]:
    """What a part refers to inside the archive: by identifier, the kind and the name of the other part."""
    folder, name = posixpath.split(part)
    found = {}
    for _, tag, attributes in elements(archive, posixpath.join(folder, "_rels", f"{name}.rels")):
        if tag == "Relationship" and attributes.get("TargetMode") != "External":
            target = posixpath.normpath(posixpath.join("/", folder, attributes.get("Target", "")))
            kind = attributes.get("Type", "").rpartition("/")[2]
            found[attributes.get("Id", "")] = (kind, target.lstrip("/"))
    return found


def read_number_formats(archive: ZipFile, part: str | None) -> list[str | int]:
    """The number format of each cell style: its code, or the number of one that is built in."""
    codes: dict[str, str] = {}
    styles: list[str | int] = []
    for parent, tag, attributes in elements(archive, part) if part else ():
        number = attributes.get("numFmtId", "0")
        if tag == "numFmt":
            codes[number] = attributes.get("formatCode", "")
        elif tag == "xf" and parent == "cellXfs":
            styles.append(codes.get(number) or int(number))
    return styles


def read_strings(archive: ZipFile, part: str | None) -> list[str]:
    """The strings that cells refer to by number; phonetic guides are left out."""
    strings: list[str] = []
    pieces: list[str] = []
    path: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(path) > 64:
            raise BrokenError("elements are nested too deeply")
        path.append(local(tag))

    def end(tag: str) -> None:
        if path.pop() == "si":
            strings.append(unescape("".join(pieces)))
            pieces.clear()

    def text(found: str) -> None:
        if path[-1] == "t" and "rPh" not in path:
            pieces.append(found)

    for _ in parse_part(archive, part, start, end, text) if part else ():
        pass
    return strings


def unescape(text: str) -> str:
    """Characters that XML cannot hold stand as `_x000D_` in workbooks."""
    return _ESCAPE.sub(_character, text) if "_x" in text else text


def _character(match: Match[str]) -> str:
    code = int(match[1], 16)
    return match[0] if 0xD800 <= code <= 0xDFFF else chr(code)


def number_style(code: str | int) -> str:
    """How a number format shows numbers: a kind of date, the zeros of `000`, or nothing for the rest."""
    if isinstance(code, int):
        return _BUILT_IN.get(code, "")
    if len(code) > 1 and not code.strip("0"):
        return code
    shown = _QUOTED.sub("", code).partition(";")[0].lower()
    if _ELAPSED.search(shown):
        return ELAPSED
    if "general" in shown or not set(shown) & set("dmyhs"):
        return ""
    days, hours = bool(set(shown) & set("dy")), bool(set(shown) & set("hs"))
    if hours:
        return MOMENT if days else TIME
    return DATE


def number_cell(text: str, style: str, from_1904: bool) -> Cell:
    """The cell for a number; whole numbers are integers, since a sheet does not tell 3 from 3.0."""
    try:
        number: int | float = int(text) if text.isdecimal() else float(text)
    except ValueError:
        raise CellError(f"{text[:40]!r} is not a number", hint="Correct it.") from None
    if style.isalpha():
        shown = moment_text(number, style, from_1904)
        return Cell(shown, shown)
    if isinstance(number, float) and abs(number) < LARGEST_EXACT and number == int(number):
        number = int(number)
    if style and isinstance(number, int):
        return Cell(number, f"{'-' if number < 0 else ''}{abs(number):0{len(style)}d}")
    return Cell(number, repr(number))


def moment_text(number: float, style: str, from_1904: bool) -> str:
    """ISO text for a count of days, to the millisecond as spreadsheets have it."""
    from datetime import datetime, timedelta

    try:
        total_ms = round(number * DAY_MS)
        if style == ELAPSED:
            return elapsed_text(total_ms)
        days, rest_ms = divmod(total_ms, DAY_MS)
        if 0 < days < 60 and not from_1904:
            days += 1  # the calendar of spreadsheets has a 29 February 1900
        epoch = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30)
        moment = epoch + timedelta(days=days, milliseconds=rest_ms)
    except (OverflowError, ValueError):
        raise CellError(f"{number} is shown as a date but is none", hint="Correct it.") from None
    if days == 0 and style == TIME:
        return iso(moment.time().isoformat())
    return moment.date().isoformat() if style == DATE and not rest_ms else iso(moment.isoformat())


def iso(text: str) -> str:
    """Without the zeros at the end of a fraction."""
    return text.rstrip("0") if "." in text else text


def elapsed_text(total_ms: int) -> str:
    """Hours may exceed a day: 36:30:00."""
    seconds, rest_ms = divmod(abs(total_ms), 1000)
    sign = "-" if total_ms < 0 else ""
    text = f"{sign}{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return iso(f"{text}.{rest_ms:03d}") if rest_ms else text

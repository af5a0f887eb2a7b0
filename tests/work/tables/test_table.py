"""Tables of experiments: the same in every format, every problem told at once, nothing hostile believed."""

from __future__ import annotations

import csv
import datetime
import decimal
import json
import math
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import NotFound, SpecError
from shoal.spec.command import Cell
from shoal.work.tables.table import FORMATS, Table, open_table

Rows = Sequence[Sequence[Any]]
ALL_FORMATS = pytest.mark.parametrize("extension", FORMATS, ids=[name[1:] for name in FORMATS])


def write_text(path: Path, rows: Rows) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writerows([[csv_text(value) for value in row] for row in rows])


def csv_text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def write_jsonl(path: Path, rows: Rows) -> None:
    names, *data = rows
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in data]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def write_xlsx(path: Path, rows: Rows) -> None:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(list(row))
    book.save(path)


def write_parquet(path: Path, rows: Rows) -> None:
    names, *data = rows
    arrays = [pyarrow.array([row[index] for row in data]) for index in range(len(names))]
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays(arrays, names=list(names)), path)


WRITERS: dict[str, Callable[[Path, Rows], None]] = {
    ".xlsx": write_xlsx,
    ".csv": write_text,
    ".tsv": write_text,
    ".jsonl": write_jsonl,
    ".parquet": write_parquet,
}


def written(folder: Path, extension: str, rows: Rows) -> str:
    path = folder / f"table{extension}"
    WRITERS[extension](path, rows)
    return str(path)


def saved(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def values(rows: Iterable[tuple[Cell, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(cell.value for cell in row) for row in rows]


def texts(table: Table) -> list[tuple[str, ...]]:
    return [tuple(cell.text for cell in row) for row in table.rows()]


def told(path: str) -> str:
    """Everything the error says: each problem with its hint."""
    with pytest.raises(SpecError) as caught:
        open_table(path)
    assert str(caught.value)
    return "\n".join(f"{problem.message} [{problem.hint}]" for problem in caught.value.problems)


LOGICAL: Rows = [
    ("dataset", "epochs", "lr", "shuffle", "note"),
    ("user a", 12, 0.001, True, "plain"),
    ("ünï→日本", -3, 1e-05, False, 'say "hi", $(rm -rf /)'),
    ("two\nlines", 0, 2.5, True, None),
    ("=cmd|' /C calc'!A0"[1:], 9007199254740991, -0.5, False, " kept "),
]


@ALL_FORMATS
def test_the_same_table_gives_the_same_values_in_every_format(tmp_path: Path, extension: str) -> None:
    table = open_table(written(tmp_path, extension, LOGICAL))
    assert table.columns == LOGICAL[0]
    assert table.count == 4
    found = values(table.rows())
    assert found == [tuple(row) for row in LOGICAL[1:]]
    assert [[type(value) for value in row] for row in found] == [
        [type(v) for v in row] for row in LOGICAL[1:]
    ]
    assert texts(table)[0][:3] == ("user a", "12", "0.001")
    assert texts(table)[1][2] == "1e-05"
    assert texts(table)[2][4] == ""


@ALL_FORMATS
@pytest.mark.parametrize("start", [0, 1, 3, 4, 9])
def test_rows_start_anywhere_and_every_call_is_a_new_pass(tmp_path: Path, extension: str, start: int) -> None:
    table = open_table(written(tmp_path, extension, LOGICAL))
    everything = list(table.rows())
    assert list(table.rows(start)) == everything[start:]
    first, second = table.rows(), table.rows()
    assert next(first) == next(second) == everything[0]


@ALL_FORMATS
def test_the_extension_is_known_in_any_case(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"TABLE{extension.upper()}"
    WRITERS[extension](tmp_path / f"table{extension}", LOGICAL)
    (tmp_path / f"table{extension}").rename(path)
    assert open_table(str(path)).count == 4


@ALL_FORMATS
def test_blank_reserved_and_repeated_names_are_told_at_once(tmp_path: Path, extension: str) -> None:
    if extension == ".jsonl":
        path = saved(tmp_path, "t.jsonl", '{"lr": 1, "": 2, " lr ": 3, "state": 4}\n')
    else:
        path = written(tmp_path, extension, [("lr", "", " lr ", "state"), (1, 2, 3, 4)])
    message = told(path)
    assert "'lr' stands 2 times" in message
    assert "'state' is reserved" in message
    assert "no name" in message
    place = {".xlsx": "column D", ".jsonl": "key 'state' in line 1"}.get(extension, "column 4")
    assert place in message


def test_names_are_stripped_of_white_space(tmp_path: Path) -> None:
    assert open_table(saved(tmp_path, "t.csv", " lr ,\tmodel\n1,2\n")).columns == ("lr", "model")


@ALL_FORMATS
def test_a_table_with_a_header_and_no_rows_is_an_error(tmp_path: Path, extension: str) -> None:
    assert "no rows" in told(written(tmp_path, extension, [("lr", "model")]) if extension != ".jsonl" else
                             saved(tmp_path, "t.jsonl", "\n\n"))  # fmt: skip


@pytest.mark.parametrize(
    "content", ["\n", "\ufeff", " \n,,,\n\n", "\r\n"], ids=["line", "bom", "blank", "crlf"]
)
@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_text_without_a_header_is_an_error(tmp_path: Path, name: str, content: str) -> None:
    assert "is empty" in told(
        saved(tmp_path, name, content.replace(",", "\t") if name == "t.tsv" else content)
    )


# --- the file itself


@ALL_FORMATS
def test_a_file_without_bytes_is_an_error(tmp_path: Path, extension: str) -> None:
    assert "no bytes" in told(saved(tmp_path, f"t{extension}", b""))


@ALL_FORMATS
def test_a_missing_table_names_the_nearest_one(tmp_path: Path, extension: str) -> None:
    saved(tmp_path, f"experiments{extension}", b"x")
    with pytest.raises(NotFound) as caught:
        open_table(str(tmp_path / f"experimets{extension}"))
    assert caught.value.hint == f"Did you mean 'experiments{extension}'?"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no folder"):
        open_table(str(tmp_path / "gone" / "t.csv"))
    with pytest.raises(NotFound, match="no folder"):
        open_table(saved(tmp_path, "t.csv", "a\n1\n") + "/deeper.csv")


def test_a_folder_a_pipe_and_an_unknown_extension_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "t.csv"
    folder.mkdir()
    assert "is a folder" in told(str(folder))
    os.mkfifo(tmp_path / "pipe.csv")
    assert "not a regular file" in told(str(tmp_path / "pipe.csv"))
    message = told(saved(tmp_path, "t.xls", "a"))
    assert ".xls" in message
    assert all(extension in message for extension in FORMATS)
    assert "cannot be read" in told("nul\0byte.csv")
    assert "cannot be read" in told("x" * 5000 + ".csv")


@pytest.mark.user
def test_a_file_that_may_not_be_read_is_an_error(tmp_path: Path) -> None:
    path = saved(tmp_path, "t.csv", "a\n1\n")
    os.chmod(path, 0)
    assert "may not be read" in told(path)


@ALL_FORMATS
def test_a_table_cut_in_half_is_an_error_or_shorter_never_a_traceback(tmp_path: Path, extension: str) -> None:
    whole = Path(written(tmp_path, extension, LOGICAL)).read_bytes()
    for cut in range(1, len(whole), max(1, len(whole) // 40)):
        path = saved(tmp_path, f"cut{extension}", whole[:cut])
        try:
            list(open_table(path).rows())
        except SpecError:
            continue
        assert extension in (".csv", ".tsv", ".jsonl")


@ALL_FORMATS
@settings(max_examples=60, deadline=None)
@given(content=st.binary(min_size=1, max_size=300))
def test_random_bytes_give_rows_or_a_spec_error(extension: str, content: bytes) -> None:
    magic = {".xlsx": b"PK\x03\x04", ".parquet": b"PAR1"}.get(extension, b"")
    with tempfile.TemporaryDirectory() as folder:
        for start in (b"", magic):
            path = saved(Path(folder), f"t{extension}", start + content + start)
            try:
                assert len(list((table := open_table(path)).rows())) == table.count
            except SpecError:
                continue


# --- CSV and TSV


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("+5", 5),
        (" 7 ", 7),
        ("0", 0),
        ("007", "007"),
        ("-01", "-01"),
        ("00.5", "00.5"),
        ("0.5", 0.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e-5", 1e-5),
        ("1E5", 1e5),
        ("1e400", math.inf),
        ("-inf", -math.inf),
        ("true", True),
        ("False", False),
        ("TRUE", True),
        ("truest", "truest"),
        ("yes", "yes"),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        ("٣", "٣"),
        ("1,5", "1,5"),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("18446744073709551617", 18446744073709551617),
        ("9" * 5000, "9" * 5000),
        ("=1+1", "=1+1"),
        ("None", "None"),
        ("-", "-"),
        (".", "."),
        ("e5", "e5"),
        (" ", " "),
        ("a\r\nb", "a\r\nb"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_text_is_typed_and_kept_as_it_stands(tmp_path: Path, text: str, value: Any) -> None:
    path = written(tmp_path, ".csv", [("before", "cell"), ("x", text)])
    [(_, cell)] = open_table(path).rows()
    assert cell == Cell(value, text)
    assert type(cell.value) is type(value)


@pytest.mark.parametrize("text", ["nan", "NaN"])
def test_nan_is_a_float_and_a_blank_is_none(tmp_path: Path, text: str) -> None:
    [(number, blank)] = open_table(saved(tmp_path, "t.csv", f"a,b\n{text},\n")).rows()
    assert math.isnan(number.value)
    assert number.text == text
    assert blank == Cell(None, "")


def test_a_byte_order_mark_crlf_and_blank_rows_and_columns_are_no_matter(tmp_path: Path) -> None:
    content = "\ufeff\r\na,b,,\r\n1,2,,\r\n,,,\r\n\r\n3\r\n , ,\r\n4,5, ,,,,\r\n\r\n"
    table = open_table(saved(tmp_path, "t.csv", content))
    assert table.columns == ("a", "b")
    assert values(table.rows()) == [(1, 2), (3, None), (4, 5)]
    assert table.count == 3


def test_semicolons_separate_where_the_header_has_no_comma(tmp_path: Path) -> None:
    table = open_table(saved(tmp_path, "t.csv", "lr;note\n0.1;a,b\n"))
    assert values(table.rows()) == [(0.1, "a,b")]
    assert open_table(saved(tmp_path, "u.csv", "a;b,c\n1,2\n")).columns == ("a;b", "c")


def test_rows_with_more_cells_than_columns_are_told_by_line(tmp_path: Path) -> None:
    lines = ["a,b", '"x\ny",2', *["1,2,3"] * 8, "1,2"]
    message = told(saved(tmp_path, "t.csv", "\n".join(lines)))
    assert "header has columns (2): line 4, line 5, line 6, line 7, line 8 and 3 more." in message


def test_every_problem_of_a_csv_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        open_table(saved(tmp_path, "t.csv", 'a,,a,node\n1,2,3,4,5\n1,2,3,4\n"open'))
    assert len(caught.value.problems) == 5
    assert str(caught.value).count("\n") == 4


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'a,b\n1,2\n"open,3\n4,5\n', "never closed, so reading stopped at: the row at line 3"),
        (b'a,b\n"x"y,2\n', "follows the closing quote of a cell in: the row at line 2"),
        (b"a\n" + b"x" * 200_000, "longer than 131,072"),
        (b"a,b\n1,\xe9t\xe9\n", "not UTF-8 (0xe9): line 2, byte 6."),
        (b"a,b\n1,2\n3,\xc3", "line 3, byte 10."),
        (b"a,b\n1,\0\n", "NUL byte, so it is not text: line 2, byte 6."),
        ("a,b\n1,2\n".encode("utf-16"), "is UTF-16"),
        (b"a\n1\n" * 600_000 + b"\xff", "line 1200001, byte 2,400,000."),
    ],
    ids=["open quote", "after quote", "long", "latin-1", "cut character", "nul", "utf-16", "far away"],
)
def test_text_that_cannot_be_read_is_told_with_its_place(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    assert expected in told(saved(tmp_path, "t.csv", content))


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
TEXT_ROWS = st.lists(st.lists(TEXT, min_size=3, max_size=3).map(tuple), min_size=1, max_size=8)


@pytest.mark.parametrize("extension", [".csv", ".tsv", ".jsonl", ".parquet"])
@settings(max_examples=60, deadline=None)
@given(rows=TEXT_ROWS)
def test_any_text_arrives_exactly(extension: str, rows: list[tuple[str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        named = [("a", "b", "c", "z"), *((*row, "end") for row in rows)]
        assert texts(open_table(written(Path(folder), extension, named))) == named[1:]


# --- JSON lines


def test_json_lines_have_the_union_of_their_keys(tmp_path: Path) -> None:
    lines = '{"a": 1}\n\n{"b": [1, {"x": "é"}], "a": null}\r\n{}\n{"c": NaN, "a": true, "b": 1.50}'
    table = open_table(saved(tmp_path, "t.jsonl", "\ufeff" + lines))
    assert table.columns == ("a", "b", "c")
    assert table.count == 4
    assert texts(table) == [("1", "", ""), ("", '[1,{"x":"é"}]', ""), ("", "", ""), ("true", "1.5", "nan")]
    assert values(table.rows())[1] == (None, [1, {"x": "é"}], None)


def test_broken_json_lines_are_told_by_line(tmp_path: Path) -> None:
    lines = ['{"a": 1}', "{", "[1]", '{"a": 1, "a": 2}', '"text"', "[" * 100_000, '{"a": ' + "9" * 5000 + "}"]
    lines += ['{"a": "\\ud800"}', '{"a": "\\u0000"}', *["nonsense"] * 9]
    message = told(saved(tmp_path, "t.jsonl", "\n".join(lines)))
    assert "not valid JSON: line 2 (Expecting property name" in message
    assert "line 13 (Expecting value at character 1) and 5 more" in message
    assert "not a JSON object: line 3 (list), line 5 (str)." in message
    assert "line 4 (a key stands twice in one object), line 6 (maximum recursion" in message
    assert "surrogate pair, which is not text: line 8." in message
    assert "no command line can hold: line 9." in message


def test_json_lines_with_endless_new_keys_are_refused(tmp_path: Path) -> None:
    lines = [json.dumps({f"key{number}": 1}) for number in range(17_000)]
    assert "more than 16,384" in told(saved(tmp_path, "t.jsonl", "\n".join(lines)))


# --- Parquet


def test_parquet_types_become_json_values(tmp_path: Path) -> None:
    moment = datetime.datetime(2024, 5, 1, 12, 30, 0, 250_000)
    utc = moment.replace(tzinfo=datetime.UTC)
    columns = {
        "float32": (pyarrow.array([0.1], pyarrow.float32()), 0.1, "0.1"),
        "float16": (pyarrow.array([0.5], pyarrow.float16()), 0.5, "0.5"),
        "nan": (pyarrow.array([1.0, None]).slice(0, 1), 1.0, "1.0"),
        "big": (pyarrow.array([2**64 - 1], pyarrow.uint64()), 2**64 - 1, str(2**64 - 1)),
        "decimal": (pyarrow.array([decimal.Decimal("0.10")]), 0.1, "0.10"),
        "whole": (pyarrow.array([decimal.Decimal("7")]), 7, "7"),
        "date": (pyarrow.array([moment.date()]), "2024-05-01", "2024-05-01"),
        "moment": (pyarrow.array([moment]), "2024-05-01T12:30:00.25", "2024-05-01T12:30:00.25"),
        "utc": (pyarrow.array([utc]), "2024-05-01T12:30:00.25Z", "2024-05-01T12:30:00.25Z"),
        "midnight": (
            pyarrow.array([1714521600], pyarrow.timestamp("s")),
            "2024-05-01T00:00:00",
            "2024-05-01T00:00:00",
        ),
        "nano": (
            pyarrow.array([1], pyarrow.timestamp("ns")),
            "1970-01-01T00:00:00.000000001",
            "1970-01-01T00:00:00.000000001",
        ),
        "far": (pyarrow.array([2**52], pyarrow.timestamp("s")), None, None),
        "time": (pyarrow.array([moment.time()]), "12:30:00.25", "12:30:00.25"),
        "word": (pyarrow.array(["x"]).dictionary_encode(), "x", "x"),
        "list": (pyarrow.array([[1, None]]), [1, None], "[1,null]"),
        "struct": (pyarrow.array([{"a": ["é"]}]), {"a": ["é"]}, '{"a":["é"]}'),
        "null": (pyarrow.array([None]), None, ""),
        "flag": (pyarrow.array([True]), True, "true"),
    }  # fmt: skip
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pyarrow.table({name: column[0] for name, column in columns.items()}), path)
    table = open_table(str(path))
    [row] = table.rows()
    found = dict(zip(table.columns, row, strict=True))
    for name, (_, value, text) in columns.items():
        if text is not None:
            assert found[name] == Cell(value, text), name


def test_parquet_null_and_nan_differ(tmp_path: Path) -> None:
    path = written(tmp_path, ".parquet", [("a",), (math.nan,), (None,), (math.inf,)])
    [(nan,), (null,), (inf,)] = open_table(path).rows()
    assert math.isnan(nan.value)
    assert (nan.text, null, inf) == ("nan", Cell(None, ""), Cell(math.inf, "inf"))


def test_parquet_types_that_are_no_parameters_are_told_together(tmp_path: Path) -> None:
    columns = {
        "bytes": pyarrow.array([b"x"]),
        "length": pyarrow.array([datetime.timedelta(seconds=1)]),
        "nested": pyarrow.array([[b"x"]]),
        "map": pyarrow.array([[("a", 1)]], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
        "fine": pyarrow.array([1]),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    message = told(str(tmp_path / "t.parquet"))
    for name in ("bytes", "length", "nested", "map"):
        assert f"column '{name}'" in message
    assert "'fine'" not in message


def test_parquet_text_with_nul_is_refused_and_row_groups_are_skipped(tmp_path: Path) -> None:
    assert "NUL" in told(written(tmp_path, ".parquet", [("a",), ("x\0y",)]))
    path = tmp_path / "groups.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": list(range(10_000))}), path, row_group_size=300)
    table = open_table(str(path))
    for start in (0, 299, 300, 4_096, 5_000, 9_999):
        assert [row[0].value for row in table.rows(start)] == list(range(start, 10_000))


# --- workbooks


def same(text: str) -> Cell:
    return Cell(text, text)


def sheet_cell(folder: Path, value: Any, number_format: str = "General") -> Cell:
    book = openpyxl.Workbook()
    book.active.append(["before", "cell"])
    book.active.append(["x", value])
    book.active["B2"].number_format = number_format
    book.save(folder / "cell.xlsx")
    [(_, cell)] = open_table(str(folder / "cell.xlsx")).rows()
    return cell


@pytest.mark.parametrize(
    ("value", "number_format", "cell"),
    [
        (1, "General", Cell(1, "1")),
        (3.0, "General", Cell(3, "3")),
        (-3.0, "General", Cell(-3, "-3")),
        (0.001, "General", Cell(0.001, "0.001")),
        (1e-05, "General", Cell(1e-05, "1e-05")),
        (1e300, "General", Cell(1e300, "1e+300")),
        (7, "000", Cell(7, "007")),
        (-7, "000", Cell(-7, "-007")),
        (1234, "000", Cell(1234, "1234")),
        (0.5, "0%", Cell(0.5, "0.5")),
        (2.5, '#,##0.00\\ "days";[Red]-0', Cell(2.5, "2.5")),
        (5, "[Yellow]0", Cell(5, "5")),
        ("007", "General", same("007")),
        ("12", "General", same("12")),
        (" spaced ", "General", same(" spaced ")),
        (True, "General", Cell(True, "TRUE")),
        (False, "General", Cell(False, "FALSE")),
        (None, "General", Cell(None, "")),
        ("_x000D_", "General", same("\r")),
        ("_x005F_x000D_", "General", same("_x000D_")),
        ("_xD800_ _xyz_", "General", same("_xD800_ _xyz_")),
        (datetime.date(2024, 5, 1), "yyyy-mm-dd", same("2024-05-01")),
        (datetime.date(1900, 1, 15), "d/m/yy", same("1900-01-15")),
        (datetime.datetime(2024, 5, 1, 12, 30), "yyyy-mm-dd h:mm", same("2024-05-01T12:30:00")),
        (datetime.datetime(2024, 5, 1), "yyyy-mm-dd h:mm", same("2024-05-01T00:00:00")),
        (datetime.time(12, 30, 0, 250_000), "h:mm:ss", same("12:30:00.25")),
        (datetime.timedelta(hours=36, minutes=30), "[h]:mm:ss", same("36:30:00")),
    ],
    ids=lambda value: repr(value)[:24],
)  # fmt: skip
def test_a_sheet_cell_is_what_people_see(tmp_path: Path, value: Any, number_format: str, cell: Cell) -> None:
    found = sheet_cell(tmp_path, value, number_format)
    assert found == cell
    assert type(found.value) is type(cell.value)


@pytest.mark.parametrize("columns", ["AB", "BC"])
def test_leftover_formatting_and_blank_rows_are_ignored(tmp_path: Path, columns: str) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    left, right = columns
    sheet[f"{left}3"], sheet[f"{right}3"], sheet[f"{left}5"], sheet[f"{right}9"] = "lr", "model", 0.1, "lstm"
    for address in ("A4", "Z3", "Z500", "XFD1048576"):
        sheet[address].font = openpyxl.styles.Font(bold=True)
    sheet["B7"] = "  "
    book.save(tmp_path / "t.xlsx")
    if columns == "BC":
        assert "no name: column A" in told(str(tmp_path / "t.xlsx"))
        return
    table = open_table(str(tmp_path / "t.xlsx"))
    assert table.columns == ("lr", "model")
    assert values(table.rows()) == [(0.1, None), (None, "lstm")]


def test_bad_cells_of_a_sheet_are_told_by_their_address(tmp_path: Path) -> None:
    rows = [("a", "b"), (1, "=A2*2"), ("#REF!", "=A3"), ("#DIV/0!", 1), (1, 2, "stray")]
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.active["B6"], book.active["B6"].number_format = 1e12, "yyyy"
    book.active["A7"] = "_x0000_"
    book.save(tmp_path / "t.xlsx")
    message = told(str(tmp_path / "t.xlsx"))
    assert "a formula has no saved result: cell B2, cell B3. [Open the workbook in a spreadsheet" in message
    assert "the error #REF!: cell A3." in message
    assert "the error #DIV/0!: cell A4." in message
    assert "no column name stands above: cell C5." in message
    assert "is shown as a date but is none: cell B6." in message
    assert "no command line can hold: cell A7." in message


SHEET = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">{}</worksheet>'


RELATION = (
    '<Relationship Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings" '
    'Target="sharedStrings.xml" Id="strings"/></Relationships>'
)


def with_part(folder: Path, part: str, content: str | bytes) -> str:
    """A sound workbook with one part replaced; it has shared strings, as those of Excel have."""
    parts: dict[str, str | bytes] = {"xl/sharedStrings.xml": "<sst/>"}
    with zipfile.ZipFile(written(folder, ".xlsx", LOGICAL)) as archive:
        parts |= {name: archive.read(name).decode() for name in archive.namelist()}
    relations = parts["xl/_rels/workbook.xml.rels"]
    assert isinstance(relations, str)
    parts["xl/_rels/workbook.xml.rels"] = relations.replace("</Relationships>", RELATION)
    assert part in parts
    with zipfile.ZipFile(folder / "changed.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in (parts | {part: content}).items():
            archive.writestr(name, text)
    return str(folder / "changed.xlsx")


def test_shared_strings_are_read_without_their_phonetic_guides(tmp_path: Path) -> None:
    cells = '<row>{}</row><row><c t="s"><v>2</v></c><c t="s"><v>3</v></c></row>'
    sheet = SHEET.format(f"<sheetData>{cells}</sheetData>").format(
        '<c t="s"><v>0</v></c><c t="s"><v>1</v></c>'
    )
    strings = (
        "<sst><si><t>lr</t></si><si><r><t>mo</t></r><r><rPr><b/></rPr><t>del</t></r><rPh><t>no</t></rPh></si>"
        '<si><t xml:space="preserve"> 007_x000D_\n</t></si><si><t/></si></sst>'
    )
    path = with_part(tmp_path, "xl/sharedStrings.xml", strings)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (parts | {"xl/worksheets/sheet1.xml": sheet}).items():
            archive.writestr(name, content)
    table = open_table(path)
    assert table.columns == ("lr", "model")
    assert list(table.rows()) == [(same(" 007\r\n"), Cell(None, ""))]


def with_sheet(folder: Path, content: str) -> str:
    return with_part(folder, "xl/worksheets/sheet1.xml", SHEET.format(content))


def test_saved_results_of_formulas_and_unusual_cells_are_read(tmp_path: Path) -> None:
    path = with_sheet(
        tmp_path,
        '<sheetData><row><c t="inlineStr"><is><r><t>a</t></r><r><t>b</t></r><rPh><t>no</t></rPh></is></c>'
        '<c t="str"><v>c</v></c><c t="str"><v>d</v></c><c t="str"><v>e</v></c></row>'
        '<row r="2"><c r="A2"><f>1+1</f><v>2</v></c><c r="C2" t="str"><f>""</f><v></v></c>'
        '<c r="D2" t="d"><v>2024-05-01</v></c></row></sheetData>',
    )
    table = open_table(path)
    assert table.columns == ("ab", "c", "d", "e")
    assert values(table.rows()) == [(2, None, None, "2024-05-01")]


def test_the_first_visible_sheet_is_read(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.sheet_state = "hidden"
    for name in ("trials", "notes"):
        book.create_sheet(name).append([name])
        book[name].append([1])
    book.active = 2
    book.save(tmp_path / "t.xlsx")
    assert open_table(str(tmp_path / "t.xlsx")).columns == ("trials",)


def test_a_strict_workbook_with_prefixes_is_read(tmp_path: Path) -> None:
    content = (
        '<x:worksheet xmlns:x="http://purl.oclc.org/ooxml/spreadsheetml/main"><x:sheetData><x:row>'
        '<x:c t="str"><x:v>a</x:v></x:c></x:row><x:row><x:c><x:v>1</x:v></x:c></x:row>'
        "</x:sheetData></x:worksheet>"
    )
    assert values(open_table(with_part(tmp_path, "xl/worksheets/sheet1.xml", content)).rows()) == [(1,)]


BOMB = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">{}]>'.format(
    "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefghi", "bcdefghij", strict=True))
)
PARTS = (
    "xl/worksheets/sheet1.xml",
    "xl/sharedStrings.xml",
    "xl/styles.xml",
    "xl/workbook.xml",
    "_rels/.rels",
)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (BOMB + SHEET.format("<sheetData><row><c><v>&j;</v></c></row></sheetData>"), "document type"),
        ('<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>', "document type"),
        ("<a>" * 6_000_000, "would unpack to"),
        ("<a>" * 500, "nested too deeply"),
        ("not xml", "damaged"),
        ('<?xml version="1.0" encoding="shift-jis"?><x/>', "damaged"),
        (b"\xff\xfe<\0", "damaged"),
        (b"\0" * (32 << 20), "would unpack to"),
    ],
    ids=["entities", "external", "deep bomb", "deep", "text", "encoding", "utf-16", "zeros"],
)
def test_hostile_parts_of_a_workbook_end_quickly(
    tmp_path: Path, part: str, content: str | bytes, expected: str
) -> None:
    message = told(with_part(tmp_path, part, content))
    assert expected in message


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "content",
    [
        '<dimension ref="A1:XFD1048576"/><sheetData>{}</sheetData>',
        '<dimension ref="nonsense"/><sheetData>{}</sheetData>',
        '<sheetData>{}<row r="99999999999999"><c r="A99999999999999"><v>2</v></c></row></sheetData>',
    ],
    ids=["huge", "nonsense", "far row"],
)
def test_a_sheet_that_lies_about_its_size_costs_nothing(tmp_path: Path, content: str) -> None:
    rows = '<row r="1"><c r="A1" t="str"><v>a</v></c></row><row r="7"><c r="A7"><v>1</v></c></row>'
    assert values(open_table(with_sheet(tmp_path, content.format(rows))).rows())[0] == (1,)


@pytest.mark.parametrize(
    "content",
    ['<c r="ZZZZ1"><v>1</v></c>', '<c r="1"><v>1</v></c>', '<c r="A1" t="s"><v>99</v></c>',
     '<c r="A1" t="s"><v>x</v></c>', '<c r="A1"><v>1e</v></c>', '<c r="A1" t="q"><v>1</v></c>'],
)  # fmt: skip
def test_cells_that_break_the_format_are_told(tmp_path: Path, content: str) -> None:
    assert told(with_sheet(tmp_path, f'<sheetData><row r="1">{content}</row></sheetData>'))


def test_an_old_workbook_and_one_that_unpacks_to_gigabytes_are_refused(tmp_path: Path) -> None:
    assert "old .xls workbook, or one with a password" in told(
        saved(tmp_path, "t.xlsx", b"\xd0\xcf\x11\xe0" + b"\0" * 600)
    )
    path = tmp_path / "bomb.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("big", "w") as part:
        for _ in range(65):
            part.write(bytes(16 << 20))
    assert "would unpack to 1,090,519,040 bytes" in told(str(path))


XML_TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=20
).filter(lambda text: "_x" not in text and not text.startswith(("=", "#")))
SHEET_VALUES = st.one_of(
    st.none(),
    XML_TEXT,
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
)


@settings(max_examples=80, deadline=None)
@given(rows=st.lists(st.tuples(SHEET_VALUES, SHEET_VALUES, XML_TEXT), min_size=1, max_size=8))
def test_a_sheet_reads_as_openpyxl_reads_it(rows: list[tuple[Any, Any, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), ".xlsx", [("a", "b", "c", "z"), *((*row, "end") for row in rows)])
        book = openpyxl.load_workbook(path, data_only=True)
        expected = [
            tuple(cell or None if cell == "" else cell for cell in row) for row in book.active.values
        ][1:]
        table = open_table(path)
        assert values(table.rows()) == expected
        assert [row[2] for row in texts(table)] == [row[2] for row in rows]


# --- tables that change, and large ones


@ALL_FORMATS
def test_a_table_that_changes_after_opening_is_a_clear_error(tmp_path: Path, extension: str) -> None:
    path = written(tmp_path, extension, LOGICAL)
    table = open_table(path)
    WRITERS[extension](Path(path), LOGICAL[:3])
    with pytest.raises(SpecError, match="has 2 rows now, had 4 when opened"):
        list(table.rows())
    WRITERS[extension](Path(path), [*LOGICAL, LOGICAL[1]])
    assert len(list(table.rows())) == 4
    if extension != ".jsonl":
        WRITERS[extension](Path(path), [LOGICAL[0][::-1], *LOGICAL[1:]])
        with pytest.raises(SpecError, match="other columns"):
            list(table.rows())
    Path(path).write_bytes(b"\xff\xfe\0" * 40)
    with pytest.raises(SpecError):
        list(table.rows())
    os.unlink(path)
    with pytest.raises(SpecError, match=r"can no longer be read|cannot be read"):
        list(table.rows())


def test_rows_that_broke_after_opening_are_a_spec_error(tmp_path: Path) -> None:
    path = saved(tmp_path, "t.csv", "a,b\n" + "1,2\n" * 5)
    table = open_table(path)
    saved(tmp_path, "t.csv", "a,b\n1,2\n1,2,3\n" + "1,2\n" * 5)
    rows = table.rows()
    next(rows)
    with pytest.raises(SpecError, match="more cells"):
        next(rows)


MEASURE = """
import resource, sys
from shoal.work.tables.table import open_table
table = open_table(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = sum(1 for _ in table.rows())
assert count == table.count == 200_000, count
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
print(*[name for name in ("openpyxl", "pyarrow", "numpy", "json", "logging") if name in sys.modules])
"""


def test_a_large_csv_is_streamed_and_loads_nothing_heavy(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n" + "".join(f"{n},{n / 7},name {n}\n" for n in range(200_000)))
    run = subprocess.run([sys.executable, "-c", MEASURE, path], capture_output=True, text=True, check=True)
    grown_kib, heavy = run.stdout.split("\n")[:2]
    assert int(grown_kib) < 20_000
    assert heavy == ""

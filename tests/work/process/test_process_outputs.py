"""A result in its place: one file or parts, read again as it was written, and what an earlier one leaves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import shoal
from shoal.errors import SpecError
from shoal.spec.process import ResultFile
from shoal.work.process import source
from shoal.work.process.jobs import built_in
from shoal.work.process.jobs.base import columns
from shoal.work.process.partials import table_of
from shoal.work.process.result_file import ensure_replaceable, rows, table, write_result
from shoal.work.process.result_place import ResultPlace, check_place

WORDS = built_in("words", {})


def place_in(folder: Path, name: str = "words.parquet") -> ResultPlace:
    return ResultPlace(ResultFile(path=name), str(folder), "r")


def write(place: ResultPlace, key: str, *counts: tuple[str, int]) -> None:
    path = Path(place.storage.url, "aside")
    with path.open("wb") as file:
        write_result(file, place.ending[1:], WORDS, [table_of(columns(WORDS), [*zip(*counts, strict=True)])])
    place.storage.write(key, path)
    path.unlink()


@pytest.mark.parametrize("name", ["words.parquet", "words.csv"])
def test_parts_make_room_for_a_file_and_a_file_for_parts(tmp_path: Path, name: str) -> None:
    place = place_in(tmp_path, name)
    for index, counts in enumerate([[("a", 5), ("b", 1)], [("c", 7), ("d", 5)], [("e", 1)]]):
        write(place, place.part_key(index), *counts)
    assert [row["word"] for row in rows(place, None, ["count"], WORDS)] == ["c", "a", "d", "b", "e"]
    assert [row["word"] for row in rows(place, 1, ["count"], WORDS)] == ["c"]
    assert check_place(ResultFile(path=name), str(tmp_path)) == []
    ensure_replaceable(place, WORDS)
    place.make_room(2)
    assert place.result_keys() == [place.part_key(0), place.part_key(1)]
    place.make_room(1)
    write(place, place.name, ("f", 1))
    assert [row["word"] for row in rows(place, None, ())] == ["f"]
    place.make_room(1)
    assert place.result_keys() == [place.name]
    place.make_room(2)
    assert place.result_keys() == []


def test_a_folder_with_something_else_than_parts_is_refused(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    write(place, place.part_key(0), ("a", 1))
    (tmp_path / "words.parquet" / "mine.txt").touch()
    [problem] = check_place(ResultFile(path="words.parquet"), str(tmp_path))
    assert problem.message == "output: words.parquet is a folder."


def test_only_what_has_the_columns_of_a_job_is_replaced(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    write(place, place.name, ("a", 1))
    ensure_replaceable(place, WORDS)
    with pytest.raises(SpecError, match="it has the columns word, count, not tag, count"):
        ensure_replaceable(place, built_in("tags", {}))


@pytest.mark.parametrize("name", ["words.parquet", "words.csv"])
def test_a_result_without_rows_has_columns(tmp_path: Path, name: str) -> None:
    place = place_in(tmp_path, name)
    with open(tmp_path / name, "wb") as file:
        write_result(file, place.ending[1:], WORDS, iter(()))
    assert [*rows(place, None, ["count"], WORDS)] == []
    assert table(place, ["count"], WORDS).column_names == ["word", "count"]


def test_a_csv_file_with_lines_in_its_values_is_read_as_it_was_written(tmp_path: Path) -> None:
    job, place = built_in("text", {}), place_in(tmp_path, "text.csv")
    texts = [f'{number},"\n' * 5000 for number in range(300)]
    given = [texts, texts, texts, [len(text) for text in texts]]
    with open(tmp_path / "text.csv", "wb") as file:
        write_result(file, "csv", job, [table_of(columns(job), given)])
    assert [row["text"] for row in rows(place, None, ())] == texts


def test_a_large_result_is_parts_that_are_shown_as_one_and_replaced_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = [" ".join(f"w{number % step}" for number in range(2000)) for step in (700, 30, 1100)]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_text(text)
    (tmp_path / "w.yaml").write_text(
        "kind: process\nname: w\ninput: {text: '*.txt', split: 4KiB}\njob: words\noutput: words.parquet\n"
    )
    counts = Counter(" ".join(texts).split())
    expected = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    for share_bytes, parts in ((1000, range(3, 99)), (3000, range(2, 9)), (1 << 30, [1])):
        monkeypatch.setattr(source, "SHARE_BYTES", share_bytes)
        run = shoal.run("w.yaml", display=False)
        assert run.state == "succeeded"
        assert len(place_in(tmp_path).result_keys()) in parts
        assert [(row["word"], row["count"]) for row in run.rows()] == expected
    assert (tmp_path / "words.parquet").is_file()

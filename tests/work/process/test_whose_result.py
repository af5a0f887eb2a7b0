"""Whose result a file is that several runs wrote, what of it is shown, and what stays beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

import shoal
from shoal.api.views import lookup
from shoal.errors import NotFound
from shoal.work.kind import kind_of

WORKLOAD = """\
kind: process
input: {text: lines.txt}
job: {function: "counted:Lines"}
output: lines.csv
limits: {retries: 0}
"""
JOB = """\
class Lines:
    def map(self, record):
        if record.text() == "bad":
            raise ValueError("no good line")
        return [(record.text(), 1)]

    def gather(self, found):
        assert found[0][0][0] != "awful"
        return [pair for pairs in found for pair in pairs]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".shoal").mkdir()
    (tmp_path / "counted.py").write_text(JOB)
    (tmp_path / "lines.yaml").write_text(WORKLOAD)
    return tmp_path


def ran(folder: Path, lines: str) -> shoal.Run:
    (folder / "lines.txt").write_text(lines)
    return shoal.run(str(folder / "lines.yaml"))


def said(run: shoal.Run) -> list[str]:
    with lookup.open_run(run.id) as store:
        return list(kind_of("process").excerpt(store).before)


def test_a_run_whose_result_was_written_again_says_so(folder: Path) -> None:
    first = ran(folder, "one\n")
    assert said(first) == []
    second = ran(folder, "two\ntwo\n")
    assert "was written again since" in said(first)[0]
    assert said(second) == []
    (folder / "lines.csv").unlink()
    assert "lines.csv is not there" in said(second)[0]


def test_the_result_of_an_earlier_run_is_not_shown_as_that_of_one_without(folder: Path) -> None:
    ran(folder, "one\n")
    failed = ran(folder, "awful\n")
    assert failed.state == "failed"
    assert "has no result" in said(failed)[0]
    with pytest.raises(NotFound, match="has no result"):
        failed.table()


def test_bad_records_are_told_with_the_file_that_has_them(folder: Path) -> None:
    run = ran(folder, "one\nbad\n")
    told = kind_of("process").in_words(run.wait().process)
    assert "1 record could not be used; lines.errors.parquet says which and why:" in told
    assert (folder / "lines.errors.parquet").exists()


def test_removing_a_run_removes_its_partials_and_not_its_result(folder: Path) -> None:
    run = ran(folder, "one\nbad\n")
    assert (folder / f".shoal-{run.id}").is_dir()
    lookup.remove(run.id)
    assert not (folder / f".shoal-{run.id}").exists()
    assert (folder / "lines.csv").read_text() == "key,count\none,1\n"

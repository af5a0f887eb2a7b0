"""An output that nobody is to read: beside another one, and gone without a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.files import open_storage
from shoal.files.hdfs import HdfsStorage
from shoal.spec.shared_sections import Output
from shoal.work.outputs import PartWriter, beside, claim, discard, finish, turns
from shoal.work.outputs.layout import opened
from shoal.work.protocols import Facts


def fill(output: Output) -> None:
    claim(output, ".", "a-1", "home", is_alive=lambda *_: False)
    writer = PartWriter(output, ".", "a-1")
    writer.write(1, 1, "c", {"path": ["x"]}, {"by": [1]}, [({"path": "bad"}, "truncated")], Facts(0, 0))
    writer.crumbs.at(2, 3, 1)
    assert turns(output, ".", "a-1").take(1, {"driver": "the only one"})
    finish(output, ".", "a-1", [], strangers=())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("out/", "out-p1/"),
        ("/data/out", "/data/out-p1/"),
        ("s3://bucket/some/out/", "s3://bucket/some/out-p1/"),
        ("s3://bucket/", "s3://bucket/p1/"),
        ("hdfs://host:9000", "hdfs://host:9000/p1/"),
        ("file:///data/out", "file:///data/out-p1/"),
    ],
)
def test_it_is_next_to_the_other_one_on_the_same_storage(path: str, expected: str) -> None:
    assert beside(path, "p1") == expected


def test_all_of_it_goes_and_nothing_else(output: Output) -> None:
    other = Output(path=beside(output.path, "p1"), endpoint=output.endpoint)
    for each in (output, other):
        fill(each)
    kept = {entry.key for entry in opened(output, ".").list(hidden=True)}
    discard(other, ".")
    discard(other, ".")
    above = open_storage(output.path.rpartition("/")[0], endpoint=output.endpoint)
    assert {entry.key for entry in above.list(hidden=True)} == {f"out/{key}" for key in kept}
    if isinstance(above, HdfsStorage):
        assert [child.name for child in above._children("")] == ["out"], "an empty folder was left"


def test_a_folder_of_this_machine_is_not_left_empty(local_output: Output) -> None:
    fill(local_output)
    discard(local_output, ".")
    assert not Path(local_output.path).exists()


def test_what_others_put_there_stays(local_output: Output) -> None:
    fill(local_output)
    notes = Path(local_output.path, "notes.txt")
    notes.write_text("mine")
    discard(local_output, ".")
    assert [path for path in Path(local_output.path).rglob("*") if path.is_file()] == [notes]

"""What is wrong with where the output goes is said before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.spec.shared_sections import Input, Output
from shoal.work.outputs import check_output


def messages(output: Output, given: Input, folder: Path) -> list[str]:
    return [problem.message for problem in check_output(output, given, str(folder))]


@pytest.mark.parametrize(
    ("output", "given"),
    [
        (Output(path="data/out"), Input(images="data")),
        (Output(path="data"), Input(images="data/")),
        (Output(path="data/../data/out"), Input(images="data")),
        (Output(path="link/out"), Input(images="data")),
        (Output(path="data/out"), Input(parquet="data/**/*.parquet")),
        (Output(path="."), Input(parquet="*.parquet")),
        pytest.param(
            Output(path="s3://ions/2024/out"), Input(images="s3://ions/2024/"), marks=pytest.mark.s3
        ),
        pytest.param(
            Output(path="s3://ions/out"), Input(parquet="s3://ions/*/part-*.parquet"), marks=pytest.mark.s3
        ),
        pytest.param(
            Output(path="s3://ions/a", endpoint="http://127.0.0.1:1"),
            Input(images="s3://ions", endpoint="http://127.0.0.1:1"),
            marks=pytest.mark.s3,
        ),
        pytest.param(
            Output(path="hdfs://h:1/data/out"), Input(images="hdfs://h:1/data"), marks=pytest.mark.hdfs
        ),
    ],
    ids=str,
)
def test_an_output_that_would_be_read_as_input_is_refused(
    tmp_path: Path, output: Output, given: Input
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    (message,) = messages(output, given, tmp_path)
    assert f"output: {output.path} is in the input {given.target}" in message


@pytest.mark.parametrize(
    ("output", "given"),
    [
        (Output(path="out"), Input(images="data")),
        (Output(path="new/deep/er"), Input(images="data")),
        (Output(path="data-out"), Input(images="data")),
        (Output(path="data/out"), Input(images="data/*.jpg")),
        (Output(path="data/out"), Input(parquet="data/*.parquet")),
        pytest.param(Output(path="s3://ions/2024-out"), Input(images="s3://ions/2024"), marks=pytest.mark.s3),
        pytest.param(
            Output(path="s3://other/2024/out"), Input(images="s3://ions/2024"), marks=pytest.mark.s3
        ),
        pytest.param(
            Output(path="s3://ions/2024/out", endpoint="http://127.0.0.1:1"),
            Input(images="s3://ions/2024"),
            marks=pytest.mark.s3,
        ),
        (Output(path="out"), Input(images="http://127.0.0.1:1/x.jpg")),
    ],
    ids=str,
)
def test_an_output_beside_the_input_is_right(tmp_path: Path, output: Output, given: Input) -> None:
    (tmp_path / "data").mkdir()
    assert messages(output, given, tmp_path) == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("http://127.0.0.1:1/out", "can be read, not written"),
        ("HTTPS://127.0.0.1:1/out", "can be read, not written"),
        ("ftp://127.0.0.1:1/out", "Unknown kind of URL"),
        ("s3:///x", "names no bucket"),
        ("s3://key:hunter2@bucket/x", "A user or password stands in the URL"),
        ("file/out", "file is a file, not a folder"),
        ("file", "file is a file, not a folder"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path, path: str, why: str) -> None:
    (tmp_path / "file").touch()
    (message,) = messages(Output(path=path), Input(images="data"), tmp_path)
    assert message.startswith("output: ")
    assert why in message
    assert "hunter2" not in message


@pytest.mark.user
def test_a_folder_without_rights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    (message,) = messages(Output(path="locked/out"), Input(images="data"), tmp_path)
    assert f"{tmp_path / 'locked'} may not be written, so " in message

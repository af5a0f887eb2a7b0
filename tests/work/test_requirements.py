"""What pip is given for `requirements:`, and what is refused before pip is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.work.requirements import read_requirements


def test_a_list_is_taken_as_it_is() -> None:
    packages, problems = read_requirements(("a>=1", "b"), "/nowhere")
    assert (packages.lines, packages.constraints, problems) == (("a>=1", "b"), (), [])


def test_a_file_is_read_as_pip_reads_it(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "r.txt").write_text("-r ../other.txt\n--constraint=c.txt\n-f wheels\n")
    (tmp_path / "more" / "c.txt").write_text("a<2\n")
    (tmp_path / "other.txt").write_text(
        "\ufeff# a comment\n\n  a>=1   # why\nb==1 \\\n    --hash=sha256:ab\n"
        "--index-url https://${USER}@x.org\nc @ https://x.org/c#sha256=ab\nhttps://x.org/d.whl\n"
        "e; python_version < '3.12'\n-f https://x.org/wheels"
    )
    packages, problems = read_requirements(("-r more/r.txt",), str(tmp_path))
    assert problems == []
    assert packages.lines == (
        "a>=1",
        "b==1 --hash=sha256:ab",
        "--index-url https://${USER}@x.org",
        "c @ https://x.org/c#sha256=ab",
        "https://x.org/d.whl",
        "e; python_version < '3.12'",
        "--find-links https://x.org/wheels",
        f"--find-links {tmp_path / 'more' / 'wheels'}",
    )
    assert packages.constraints == ("a<2",)
    assert not any("index" in line for line in packages.requirements), "options may hold secrets"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a\nb >> 1\n", "r.txt:2: expected a package such as numpy>=1.26, found 'b >> 1'"),
        ("-e .\n", "r.txt:1: editable installs are not possible."),
        ("./a.whl\n", "r.txt:1: './a.whl' is a file of this machine."),
        ("a-1.0-py3-none-any.whl\n", "is a file of this machine."),
        ("-r https://x.org/r.txt\n", "r.txt:1: a file on the web cannot be included."),
        ("-r missing.txt\n", "r.txt:1: there is no file "),
        ("-r r.txt\n", "Does it include itself?"),
    ],
    ids=["package", "editable", "path", "wheel", "web", "missing", "itself"],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "r.txt").write_text(text)
    _, problems = read_requirements(("-r r.txt",), str(tmp_path))
    assert len(problems) == 1
    assert words in problems[0].message


def test_a_file_that_is_not_there_is_a_problem_of_the_workload(tmp_path: Path) -> None:
    _, [problem] = read_requirements(("-r r.txt",), str(tmp_path))
    assert problem.message == f"requirements: there is no file {tmp_path / 'r.txt'}."

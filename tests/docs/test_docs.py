"""The pages of the documentation, executed: every file they show is written, every command and program is run.

In a page, in order, in a folder of the page's own:
- a block with a title (```yaml title=sweep.yaml) becomes that file;
- ```console runs each `$ command` with bash, and compares what it prints with the lines below it;
- ```python without a title is run as a program, and what it prints is compared with a ```text block right after it.

Other blocks are only shown. In expected output, `...` stands for anything, on a line of its own for any lines. Run
ids, durations and times need not be the same, nor the number of spaces; but where a page shows that so many nodes help
and more do not, they have to. A command that fails fails the page.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LONG = ("process",)
"""Pages that take more than ten seconds, and are of no kind that others stand on."""
FOLLOWED = [pytest.param(page, marks=pytest.mark.long) if page.stem in LONG else page for page in PAGES]
SHOWN_FOLDER = "/home/you/mine"
SHOWN_HOST = "laptop"
FENCE = re.compile(r"^```(\w*)(?: title=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LOOSE = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+Z)?"), "<time>"),
    (re.compile(r"\b(\d+d )?(\d+h ?)?(\d+m )?\d+(\.\d+)?(ms|s|m|h)\b"), "<duration>"),
    (re.compile(r"\b([a-z][a-z0-9-]*)-[0-9a-f]{4}\b"), r"\1-<id>"),
    (re.compile(r"\b\d+\.\d{3}\b"), "<seconds>"),
    (re.compile(r"[ \t]+"), " "),
)


class PageIsWrong(Exception):  # noqa: N818 - what went wrong is the name
    """The page and the program do not agree."""


class Block(NamedTuple):
    language: str
    title: str | None
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        yield Block(match[1], match[2], match[3], text.count("\n", 0, match.start()) + 1)


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block, with the lines that it should print."""
    command: str | None = None
    expected: list[str] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            if command is not None:
                yield command, expected
            command, expected = line[2:], []
        else:
            expected.append(line)
    if command is not None:
        yield command, expected


def loose(text: str) -> list[str]:
    """The lines, with everything that differs from one run to the next replaced."""
    for pattern, word in LOOSE:
        text = pattern.sub(word, text)
    return [line.strip() for line in text.strip().splitlines()]


def fits(expected: list[str], found: list[str]) -> bool:
    """Whether the found lines are the expected ones, `...` being any lines, or any part of a line."""
    if not expected:
        return not found
    if expected[0] == "...":
        return any(fits(expected[1:], found[skip:]) for skip in range(len(found) + 1))
    if not found:
        return False
    pattern = ".*".join(re.escape(part) for part in expected[0].split("..."))
    return re.fullmatch(pattern, found[0]) is not None and fits(expected[1:], found[1:])


def execute(arguments: list[str], folder: Path) -> str:
    """What it printed to both streams, in the words of the docs; fails the test when it fails."""
    environment = dict(os.environ, COLUMNS="100")
    environment["PATH"] = os.path.dirname(sys.executable) + os.pathsep + environment["PATH"]
    done = subprocess.run(
        arguments,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    printed = done.stdout.replace(str(folder), SHOWN_FOLDER)
    printed = re.sub(rf"\b{re.escape(os.uname().nodename)}\b", SHOWN_HOST, printed)
    if done.returncode != 0:
        raise PageIsWrong(f"exit code {done.returncode}:\n{printed}")
    return printed


WITH_NODES = re.compile(r"^with \d+ nodes?: ([\d.]+)(ms|s|m|h)\b", re.MULTILINE)
UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
HELPS = 0.9


def gains(text: str) -> list[bool]:
    """Whether each further number of nodes makes a difference."""
    seconds = [float(number) * UNITS_S[unit] for number, unit in WITH_NODES.findall(text)]
    return [more < HELPS * fewer for fewer, more in pairwise(seconds)]


def compare(expected: list[str], printed: str) -> None:
    if gains("\n".join(expected)) != gains(printed):
        raise PageIsWrong("\n".join(["other numbers of nodes help than the page says:", printed]))
    wanted, found = loose("\n".join(expected)), loose(printed)
    if not fits(wanted, found):
        raise PageIsWrong("\n".join(["the page says:", *wanted, "", "but it printed:", *found]))


def follow(page: Path, folder: Path) -> None:
    """Do everything that the page shows."""
    program: Block | None = None
    for block in blocks(page):
        try:
            if block.title is not None:
                (folder / block.title).write_text(block.text, encoding="utf-8")
            elif block.language == "console":
                for command, expected in commands(block.text):
                    compare(expected, execute(["bash", "-c", command], folder))
            elif block.language == "python":
                printed = execute([sys.executable, "-c", block.text], folder)
            elif block.language == "text" and program is not None:
                compare(block.text.splitlines(), printed)
        except PageIsWrong as error:
            raise PageIsWrong(f"{page.name}:{block.line}: {error}") from None
        program = block if block.language == "python" and block.title is None else None


@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    folder = tmp_path.resolve() / "work"
    folder.mkdir()
    (folder / ".shoal").mkdir()  # So that none further up is found.
    follow(page, folder)


@pytest.mark.parametrize("page", [*PAGES, *ROOT.glob("[A-Z]*.md")], ids=lambda page: page.stem)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def test_a_wrong_page_is_found_out(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo one; echo two\none\n...\nthree\n```\n", encoding="utf-8")
    with pytest.raises(PageIsWrong, match=r"page\.md:1"):
        follow(page, tmp_path)


def test_a_page_on_which_a_node_more_helps_that_does_not_is_found_out() -> None:
    page = "with 1 node: 1.2s\nwith 2 nodes: 610ms\nwith 3 nodes: 600ms"
    compare(page.splitlines(), page.replace("1.2s", "3s").replace("600ms", "610ms"))
    with pytest.raises(PageIsWrong, match="other numbers of nodes help"):
        compare(page.splitlines(), page.replace("600ms", "400ms"))


@pytest.mark.parametrize(
    ("expected", "found", "fit"),
    [
        ("a\n...\nd", "a\nb\nc\nd", True),
        ("a\n...", "a", True),
        ("a", "a\nb", False),
        ("t0001  done  ...", "t0001 done 0.1 x", True),
        ("sweep-1c6a: 6 done in 1.2s", "sweep-ffff:  6 done in 1m 20s", True),
        ("6 done", "5 done", False),
    ],
)
def test_output_is_compared_loosely(expected: str, found: str, fit: bool) -> None:
    assert fits(loose(expected), loose(found)) is fit

"""A kind of work that is nowhere but in its own folder, its section and the table of kinds, from the first file to
the report."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

import shoal
from shoal.cli import main
from shoal.kinds import KINDS, Entry
from shoal.work.kind import Kind, kind_of


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(scope="module", autouse=True)
def _toys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder to work in, and the kind `toy` in the table."""
    folder = tmp_path_factory.mktemp("toys")
    (folder / ".shoal").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SHOAL_LEASES", str(folder / "leases"))
        patch.setitem(KINDS, "toy", Entry("toy_kind.spec:Toy", "toy_kind.kind"))
        yield


def command(*arguments: str) -> Said:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    return Said(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def told() -> dict[str, Said]:
    """What each command says, from the sample to a run that was resumed. Nobody called bob is there at first."""
    said = {
        "init": command("init", "toy"),
        "schema": command("schema", "toy"),
        "check": command("check", "toy.yaml"),
        "refused": command("check", "toy.yaml", "--set", "greet=nobody"),
        "plan": command("plan", "toy.yaml"),
        "run": command("run", "toy.yaml"),
        "show": command("show", "hello"),
        "show --json": command("show", "hello", "--json"),
        "results": command("results", "hello", "--format", "json"),
        "report": command("report", "hello"),
    }
    Path("here").write_text("ann bob eve\n")
    return said | {"resume": command("resume", "hello", "--failed", "--json")}


def test_a_toy_has_a_sample_and_a_schema(told: dict[str, Said]) -> None:
    assert told["init"] == (0, "toy.yaml\nhere\n", "Run it with: shoal run toy.yaml\n")
    assert "greet" in json.loads(told["schema"].out)["properties"]


def test_a_toy_is_checked_and_planned_in_its_own_words(told: dict[str, Said]) -> None:
    assert told["check"].out == "toy.yaml: toy hello of 3 greetings: nothing wrong was found.\n"
    assert (told["refused"].code, "expected a list of names" in told["refused"].err) == (2, True)
    assert re.match(r"toy hello: 3 greetings on \d+ worker", told["plan"].out)


def test_a_toy_is_run_and_summed_up_in_its_own_words(told: dict[str, Said]) -> None:
    code, _, err = told["run"]
    assert code == 1, "one of its items failed"
    assert re.match(r"hello-\w{4}: 3 greetings\n", err)
    assert re.search(r"^hello-\w{4} failed: 2 greetings in ", err, re.MULTILINE)
    assert "Failed: t0002: " in err


def test_a_toy_is_shown_with_what_its_kind_kept(told: dict[str, Said]) -> None:
    assert "\nGreeted: ann, eve.\n" in told["show"].out
    assert json.loads(told["show --json"].out)["toy"] == {"greeted": ["ann", "eve"], "letters": 6}
    assert len(json.loads(told["results"].out)) == 3


def test_a_report_of_a_toy_has_its_tiles_and_sections(told: dict[str, Said]) -> None:
    page = Path(told["report"].out.strip()).read_text(encoding="utf-8")
    assert "<b>2 of 3</b><span>greetings done</span>" in page
    assert "<b>ann, eve</b><span>names</span>" in page
    assert "<h2>Who was greeted</h2><svg" in page
    assert "<h2>Why greetings failed</h2>" in page


def test_a_toy_is_resumed_and_its_numbers_can_be_compared(told: dict[str, Said]) -> None:
    assert told["resume"].code == 0, told["resume"].err
    document = json.loads(told["resume"].out)
    assert (document["kind"], document["toy"]["greeted"]) == ("toy", ["ann", "bob", "eve"])
    assert kind_of("toy").measures(document["toy"], 1.5) == {"run_s": 1.5, "letters": 9}


def test_a_toy_is_known_to_python(told: dict[str, Said]) -> None:
    summary = shoal.resume("hello", display=False).wait()
    assert (summary.state, summary.toy, summary.infer) == ("succeeded", summary.details, None)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = summary.nonsense


def test_a_kind_that_is_not_known_is_shown_by_its_items() -> None:
    assert type(kind_of("from a newer version")) is Kind

"""What the command line says of an inference: rows on stdout, the rest on stderr, and the same failure once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.loud import write_loud


@pytest.fixture(autouse=True)
def _workload(tmp_path: Path) -> None:
    write_loud(tmp_path)


def test_an_inference_ends_with_its_first_rows_and_what_was_chosen(shoal: Callable[..., Any]) -> None:
    done = shoal("run", "loud.yaml")
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()[:2]] == [
        ["path", "row", "said"],
        ["lines.txt", "0", "WORD0"],
    ]
    run = re.search(r"Shown are the first 10 rows; all: shoal results (\S+)", done.stderr)
    assert run is not None
    assert re.search(
        rf"^Chosen: as-given, batch \d+, \d+ workers? with 1 thread, [\d.]+ MiB each; why: shoal show {run[1]} --why$",
        done.stderr,
        re.MULTILINE,
    )
    assert f"{run[1]} succeeded: 12 rows in " in done.stderr
    assert "as in the last run" not in done.stderr, "the reasons are for show --why"


def test_what_fails_for_every_item_is_said_once_at_the_end(shoal: Callable[..., Any]) -> None:
    done = shoal("run", "loud.yaml", "--set", "model.function=loud:Broken", "--set", "tune.batch=1")
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if line.startswith("Failed: ")]
    assert len(said) == 1
    assert re.match(r"Failed: i\d+, i\d+, i\d+: .*no voice", said[0])
    assert re.search(r"0 rows, items [34] failed", done.stderr)  # One may end with the one that is too many.
    assert "Chosen" not in done.stderr


def test_rows_of_another_run_are_not_shown_as_those_of_this_one(shoal: Callable[..., Any]) -> None:
    first, second = (json.loads(shoal("run", "loud.yaml", "--json").stdout)["run"] for _ in range(2))
    done = shoal("results", first)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"What {first} wrote to out/ is gone: run {second} has that folder now." in done.stderr
    assert shoal("results", second, "--format", "csv").stdout.count("\n") == 13
    again = shoal("resume", first)
    assert again.returncode == 0
    assert "is gone" in again.stderr


def test_rows_that_somebody_removed_are_missed(shoal: Callable[..., Any], tmp_path: Path) -> None:
    run = json.loads(shoal("run", "loud.yaml", "--json").stdout)["run"]
    forms = ("table", "csv", "json")
    assert not [form for form in forms if "gone" in shoal("results", run, "--format", form).stderr]
    (tmp_path / "out" / "part-000002.parquet").unlink()
    for form in forms:
        done = shoal("results", run, "--format", form)
        assert done.returncode == 0
        assert f"Note: 1 of 4 parts that {run} wrote to out/ are gone. Run the workload again" in done.stderr
        assert done.stdout.count("WORD") == 9, form
    assert "1 of 4 parts" in shoal("resume", run).stderr


def test_a_path_that_only_a_shell_understands_is_refused(shoal: Callable[..., Any], tmp_path: Path) -> None:
    done = shoal("run", "loud.yaml", "--set", "output=~/out")
    assert done.returncode == 2
    assert "output: ~/out starts with ~, which only a shell replaces." in done.stderr
    assert not (tmp_path / "~").exists()


def test_what_an_inference_found_out_is_told_in_units(shoal: Callable[..., Any]) -> None:
    shoal("run", "loud.yaml")
    why = shoal("show", "last", "--why").stdout
    assert re.search(r"^found out: memory: [\d.]+ MiB$", why, re.MULTILINE)
    assert "12 rows in 4 parts" in why
    plan = shoal("plan", "loud.yaml", "--nodes", "1..2").stdout
    assert re.search(r"^memory: [\d.]+ MiB$", plan, re.MULTILINE)
    assert len(re.findall(r"^workers: ", plan, re.MULTILINE)) == 1
    assert re.search(r"^with 2 nodes: [\d.]+m?s ", plan, re.MULTILINE)


def test_a_run_that_measured_nothing_does_not_make_the_next_plan_wiser(shoal: Callable[..., Any]) -> None:
    shoal("run", "loud.yaml", "--set", "model.function=loud:Broken")
    plan = shoal("plan", "loud.yaml", "--set", "model.function=loud:Broken").stdout
    assert (
        "this model has not been run here before, with inputs like these; run it once, or add --probe" in plan
    )
    assert "nothing is measured yet" not in plan


def test_a_folder_that_cannot_be_the_output_is_found_before_anything_starts(
    shoal: Callable[..., Any], tmp_path: Path
) -> None:
    done = shoal("check", "loud.yaml", "--set", "output=.")
    assert done.returncode == 2
    assert "holds files that are of no run: lines.txt, loud.py, loud.yaml" in done.stderr
    (tmp_path / "nothing").mkdir()
    done = shoal("check", "loud.yaml", "--set", "input.text=nothing")
    assert (done.returncode, "There is no file in nothing" in done.stderr) == (2, True)


def test_no_result_of_an_inference_is_best(shoal: Callable[..., Any]) -> None:
    shoal("run", "loud.yaml")
    done = shoal("results", "last", "--best", "2")
    assert done.returncode == 2
    assert done.stderr.endswith("Hint: Leave out --best.\n")


def test_the_document_of_an_inference_has_what_the_page_says(shoal: Callable[..., Any]) -> None:
    document = json.loads(shoal("run", "loud.yaml", "--json").stdout)
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    table = page.partition("| of `infer` |")[2].partition("\n\n")[0]
    names = [
        name
        for row in table.splitlines()
        for name in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")
    ]
    assert set(names) == set(document["infer"])
    assert (document["best"], Path(document["results"]).name) == (None, "out")


def test_an_inference_says_where_its_output_is_while_it_runs_and_after(
    shoal: Callable[..., Any], start: Callable[..., Any], tmp_path: Path
) -> None:
    process = start("run", "loud.yaml", "--set", "model.function=loud:Patient", "--set", "output.path=said/")
    shown: dict[str, Any] = {}
    while not shown.get("counts", {}).get("running"):
        assert process.poll() is None
        done = shoal("show", "last", "--json")
        shown = json.loads(done.stdout) if done.returncode == 0 else {}
    assert (shown["state"], shown["results"]) == ("running", str(tmp_path / "said"))
    (tmp_path / "go").touch()
    assert process.wait() == 0
    assert json.loads(shoal("show", "last", "--json").stdout)["results"] == str(tmp_path / "said")
    for asked in (("last",), ("last", "i00001")):
        done = shoal("get", *asked)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"Hint: The output of an inference is in {tmp_path / 'said'}\n" in done.stderr

"""The contract of kinds of work, as tests through the command line. Inherit once per kind, in a class that pytest
collects:

class TestMine(KindContract):
    kind, rows, wrong = "mine", 4, {"a script that is not there": "run.command=python nope.py"}

    @classmethod
    def write(cls, folder): (folder / "mine.yaml").write_text(...); return "mine.yaml"
"""

from __future__ import annotations

import csv
import io
import json
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

import shoal
from shoal.testing.told_item import FAIL, LEFT
from shoal.testing.workload_folder import HANG_S, WorkloadFolder

SUMMARY = {"run", "kind", "state", "items", "seconds", "predicted_seconds", "results", "best"}
COUNTS = {"done", "failed", "cached", "pruned"}
SHOWN = {"run", "kind", "state", "created", "started", "seconds", "folder", "counts", "items"}
ITEM = {"item", "state", "attempt", "node", "started", "seconds", "error", "params", "metrics"}
SPAN = {"low", "mid", "high"}
TOO_MUCH = "resources.cpu=100000"
"""What no machine has, whatever the kind."""
SMALL = "kind: cluster\nname: small\nprovider: local\nengine: embedded\nnodes: [{host: one, cpu: 4, memory: 3GiB}]\n"
LARGE_WORKER = "resources.memory=2GiB"
"""Of such workers, `SMALL` has room for one."""


Finished = tuple[WorkloadFolder, dict[str, Any]]
"""The folder of a run that went well, and the document that `run` printed."""


class KindContract:
    """What every kind owes its user. Its items call `shoal.testing.told_item.perform`, which does as it is told."""

    kind: ClassVar[str]
    rows: ClassVar[int]
    """How many rows the results of the workload have when all went well."""
    wrong: ClassVar[Mapping[str, str]] = {}
    """By what is wrong with them: values of `--set` with which the workload cannot be run."""

    @classmethod
    def write(cls, folder: Path) -> str:
        """Write a workload of at least three items into the folder; the name of its file. Fill this in.

        Items are done in order, two at a time or more. Each calls `perform` with its number before anything else
        that takes time, and as often as it likes.
        """
        raise NotImplementedError

    @pytest.fixture
    def work(self, tmp_path: Path) -> Iterator[WorkloadFolder]:
        made = WorkloadFolder(tmp_path / "first", self.write)
        yield made
        made.close()

    @pytest.fixture(scope="class")
    @classmethod
    def finished(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
        """A run that went well, for all who only look."""
        work = WorkloadFolder(tmp_path_factory.mktemp("finished") / "work", cls.write)
        yield work, work.json("run", work.file, "--json")
        work.close()

    def opened(self, work: WorkloadFolder, monkeypatch: pytest.MonkeyPatch) -> shoal.Run:
        """The last run in the folder, as a program finds it that is started there."""
        monkeypatch.chdir(work.folder)
        monkeypatch.delenv("SHOAL_HOME", raising=False)
        return shoal.open("last")

    # Before a run.

    def test_check_says_what_the_workload_is_and_starts_nothing(self, work: WorkloadFolder) -> None:
        assert self.kind in work.shoal("check", work.file).stdout
        work.nothing_is_left()

    def test_a_plan_has_the_fields_of_the_contract_and_starts_nothing(self, finished: Finished) -> None:
        work, _ = finished
        before = work.begun()
        plan = work.json("plan", work.file, "--json")
        assert set(plan) >= {"predicted_seconds", "decisions", "placements"}
        assert set(plan["predicted_seconds"]) == SPAN
        assert all(set(decision) >= {"name", "choice", "why"} for decision in plan["decisions"])
        assert all(set(placement) >= {"item", "node", "why"} for placement in plan["placements"])
        assert work.begun() == before
        assert len(os.listdir(work.folder / ".shoal" / "runs")) == 1

    def test_the_schema_has_every_key_of_the_workload(self, work: WorkloadFolder) -> None:
        schema = work.json("schema", self.kind)
        document = yaml.safe_load((work.folder / work.file).read_text())
        assert document["kind"] == self.kind
        assert set(document) <= set(schema["properties"])
        assert schema["additionalProperties"] is False

    def test_check_finds_what_run_refuses_and_a_refused_request_leaves_no_run(
        self, work: WorkloadFolder
    ) -> None:
        for what, setting in {"too much": TOO_MUCH, **self.wrong}.items():
            checked = work.shoal("check", work.file, "--set", setting, code=2)
            refused = work.shoal("run", work.file, "--set", setting, code=2)
            assert refused.stderr.startswith("Error: "), what
            assert (checked.stderr, checked.stdout, refused.stdout) == (refused.stderr, "", ""), what
        several = ("--set", "nonsense=1", "--set", "limits.retries=many", "--json")
        document = work.json("run", work.file, *several, code=2)
        assert document.keys() >= {"error", "hint"}
        assert all(each in document["error"] for each in ("nonsense", "limits.retries"))
        work.shoal("check", work.file, *several[:-1], code=2)
        work.nothing_is_left()

    # A run that went well.

    def test_a_run_that_went_well_ends_with_0_and_its_document(self, finished: Finished) -> None:
        work, document = finished
        assert set(document) >= SUMMARY
        assert (document["kind"], document["state"]) == (self.kind, "succeeded")
        assert set(document["items"]) >= COUNTS
        assert document["items"]["done"] == len(set(work.begun())) >= 3
        assert document["items"]["failed"] == 0
        assert document["predicted_seconds"] is None or set(document["predicted_seconds"]) == SPAN
        assert os.path.exists(document["results"])

    def test_a_run_is_listed_and_shown_with_its_items(self, finished: Finished) -> None:
        work, document = finished
        [listed] = work.json("ls", "--json")
        assert [listed[key] for key in ("run", "kind", "state")] == [document["run"], self.kind, "succeeded"]
        shown = work.json("show", document["run"], "--why", "--json")
        assert set(shown) >= SHOWN
        assert all(set(item) >= ITEM for item in shown["items"])
        assert {item["state"] for item in shown["items"]} == {"done"}
        assert sorted(item["item"] for item in shown["items"]) == sorted(set(work.begun()))
        said = work.shoal("show", "last", "--why").stdout
        assert document["run"] in said
        assert shown["plan"]["decisions"][0]["why"] in said

    def test_the_results_are_the_same_rows_in_every_form(self, finished: Finished) -> None:
        work, document = finished
        rows = work.json("results", document["run"], "--format", "json")
        assert len(rows) == self.rows
        table = list(csv.DictReader(io.StringIO(work.shoal("results", "last", "--format", "csv").stdout)))
        assert [list(row) for row in table] == [list(row) for row in rows]
        lines = work.shoal("results", "last").stdout.splitlines()
        assert len(lines) == 1 + self.rows
        assert lines[0].split() == list(rows[0])

    def test_logs_are_what_items_wrote_each_its_own(self, finished: Finished) -> None:
        work, document = finished
        items = sorted(set(work.begun()))
        written = work.shoal("logs", document["run"]).stdout.splitlines()
        assert sorted(set(written)) == [f"hello from {item}" for item in items]
        assert set(work.shoal("logs", "last", items[1]).stdout.splitlines()) == {f"hello from {items[1]}"}

    def test_get_copies_what_items_left(self, finished: Finished) -> None:
        work, document = finished
        items = sorted(set(work.begun()))
        assert work.shoal("get", document["run"], "--to", "all").stdout == f"{work.folder / 'all'}\n"
        copied = {path.parent.name: path.read_text() for path in (work.folder / "all").glob(f"*/{LEFT}")}
        assert copied == {item: item for item in items}
        work.shoal("get", "last", items[1], "--to", "one")
        assert (work.folder / "one" / LEFT).read_text() == items[1]
        assert "--to" in work.shoal("get", "last", "--to", "all", code=2).stderr

    def test_a_report_is_a_page_in_the_folder_of_the_run(self, finished: Finished) -> None:
        work, document = finished
        path = work.folder / ".shoal" / "runs" / document["run"] / "report.html"
        assert work.shoal("report", "last").stdout == f"{path}\n"
        page = path.read_text(encoding="utf-8")
        assert page.startswith("<!DOCTYPE html>")
        assert document["run"] in page

    def test_a_resume_of_a_run_that_succeeded_does_nothing(self, finished: Finished) -> None:
        work, document = finished
        before = work.begun()
        again = work.json("resume", document["run"], "--json")
        assert [again[key] for key in ("run", "state", "items", "results")] == [
            document[key] for key in ("run", "state", "items", "results")
        ]
        assert work.begun() == before

    def test_open_gives_rows_logs_and_files(
        self, finished: Finished, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        work, document = finished
        run = self.opened(work, monkeypatch)
        assert (run.id, run.state) == (document["run"], "succeeded")
        assert len(run.rows()) == run.table().num_rows == len(list(run.results())) == self.rows
        items = sorted(set(work.begun()))
        assert f"hello from {items[0]}\n" in run.logs()
        assert set(run.logs(items[1]).splitlines()) == {f"hello from {items[1]}"}
        assert [Path(path).read_text() for path in run.files()] == items
        assert [Path(path).name for path in run.files(items[1])] == [LEFT]
        assert run.wait().items["done"] == document["items"]["done"]

    # Runs that do not go well.

    def test_an_item_that_fails_fails_alone_and_can_be_taken_again(self, work: WorkloadFolder) -> None:
        (work.folder / FAIL).touch()
        done = work.shoal("run", work.file, code=1)
        shown = work.json("show", "last", "--json")
        [failed] = [item for item in shown["items"] if item["state"] == "failed"]
        assert (shown["state"], shown["counts"]["done"]) == ("failed", len(shown["items"]) - 1)
        assert "told to fail" in failed["error"]
        hints = (f"shoal logs {shown['run']} {failed['item']}", f"shoal resume {shown['run']} --failed")
        for sentence in ("told to fail", *hints):
            assert sentence in done.stderr
        before = work.begun()
        left_alone = work.json("resume", "last", "--json", code=1)
        assert (left_alone["items"]["failed"], work.begun()) == (1, before)
        (work.folder / FAIL).unlink()
        again = work.json("resume", "last", "--failed", "--json")
        assert (again["state"], again["items"]["failed"]) == ("succeeded", 0)
        taken = set(work.begun()[len(before) :])
        assert failed["item"] in taken
        assert not taken & {item["item"] for item in shown["items"] if item["state"] == "done"}
        assert len(work.json("results", "last", "--format", "json")) == self.rows

    def test_failures_that_are_allowed_do_not_fail_the_run(self, work: WorkloadFolder) -> None:
        (work.folder / FAIL).touch()
        document = work.json("run", work.file, "--set", "limits.failures=1", "--json")
        assert (document["state"], document["items"]["failed"]) == ("succeeded", 1)

    def test_after_kill_9_of_the_driver_a_resume_loses_nothing_and_repeats_nothing(
        self, work: WorkloadFolder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        process, shown = work.held()
        run = self.opened(work, monkeypatch)
        assert run.state == "running"
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=HANG_S)
        assert run.state == "interrupted"
        self.check_resumed(work, shown)

    def test_a_second_driver_is_refused_and_a_run_that_is_stopped_goes_on_later(
        self, work: WorkloadFolder
    ) -> None:
        process, shown = work.held()
        for command in ("resume", "rm"):
            said = work.shoal(command, shown["run"], code=2).stderr
            assert f"process {process.pid} on" in said
            assert "shoal stop" in said
        stopped = work.shoal("stop", shown["run"])
        assert (stopped.stdout, f"shoal resume {shown['run']}" in stopped.stderr) == ("", True)
        ended = work.end(process, 3)
        assert f"shoal resume {shown['run']}" in ended.stderr
        document = json.loads(ended.stdout)
        assert (document["run"], document["state"]) == (shown["run"], "stopped")
        assert document["items"]["done"] >= shown["counts"]["done"]
        self.check_resumed(work, shown)
        work.shoal("rm", shown["run"])
        assert list((work.folder / ".shoal" / "runs").iterdir()) == []

    def check_resumed(self, work: WorkloadFolder, shown: dict[str, Any]) -> None:
        """That a resume does all that was not done, and nothing that was."""
        before = {item["item"]: item for item in shown["items"] if item["state"] == "done"}
        begun = len(work.begun())
        work.let_go()
        document = work.json("resume", shown["run"], "--json")
        assert (document["run"], document["state"]) == (shown["run"], "succeeded")
        after = {item["item"]: item for item in work.json("show", "last", "--json")["items"]}
        assert {item["state"] for item in after.values()} == {"done"}
        assert document["items"]["done"] == len(after) >= 3
        assert all(after[item] == before[item] for item in before)
        assert not before.keys() & set(work.begun()[begun:])
        assert len(work.json("results", "last", "--format", "json")) == self.rows

    def test_a_run_that_waits_says_for_what_and_behind_whom(
        self, work: WorkloadFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        second = WorkloadFolder(tmp_path / "second", self.write)
        large = ("--cluster", "small.yaml", "--set", LARGE_WORKER)
        for each in (work, second):
            (each.folder / "small.yaml").write_text(SMALL)
        try:
            holding, first = work.held(*large)
            waiting = second.start("run", second.file, *large)
            second.until(lambda: list(second.folder.glob(".shoal/runs/*/run.db")), waiting)
            waits = second.shown(lambda run: run["waits"], waiting)["waits"]
            assert waits == f"1 CPU, 2.0 GiB of memory, held by {first['run']}"
            assert f"waits for: {waits}\n" in second.shoal("show", "last").stdout
            work.let_go()
            assert self.opened(work, monkeypatch).wait().state == "succeeded"
            work.end(holding, 0)
            assert f" waits for {waits}\n" in second.end(waiting, 0).stderr
            assert second.json("show", "last", "--json")["waits"] is None
        finally:
            second.close()

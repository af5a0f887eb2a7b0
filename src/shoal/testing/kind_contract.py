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
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

import shoal
from shoal.testing.told_item import BEGUN, FAIL, HOLD, LEFT

HANG_S = 60.0
"""Far more than anything here takes: who waits longer hangs."""
SUMMARY = {"run", "kind", "state", "items", "seconds", "predicted_seconds", "results", "best"}
COUNTS = {"done", "failed", "cached", "pruned"}
SHOWN = {
    "run",
    "kind",
    "name",
    "state",
    "created",
    "started",
    "ended",
    "seconds",
    "folder",
    "counts",
    "items",
}
ITEM = {"item", "state", "attempt", "node", "started", "seconds", "error", "params", "metrics"}
SPAN = {"low", "mid", "high"}
TOO_MUCH = "resources.cpu=100000"
"""What no machine has, whatever the kind."""
SMALL = "kind: cluster\nname: small\nprovider: local\nengine: embedded\nnodes: [{host: one, cpu: 4, memory: 3GiB}]\n"
LARGE_WORKER = "resources.memory=2GiB"
"""Of such workers, `SMALL` has room for one."""


class Desk:
    """A folder with a workload in it, and the real command as processes of its own."""

    def __init__(self, folder: Path, write: Callable[[Path], str]) -> None:
        self.folder = folder
        (folder / ".shoal").mkdir(parents=True)  # So that no home further up is found.
        self.file = write(folder)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
        state = {
            "SHOAL_LEASES": str(folder.parent / "leases"),
            "XDG_STATE_HOME": str(folder.parent / "state"),
        }
        self._environment = kept | state | {"COLUMNS": "100"}
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        command = [os.path.join(os.path.dirname(sys.executable), "shoal"), *arguments]
        settings: dict[str, Any] = {"stdout": pipe, "stderr": pipe, "stdin": subprocess.DEVNULL, "text": True}
        process = subprocess.Popen(command, cwd=self.folder, env=self._environment, **settings)
        self._started.append(process)
        return process

    def end(self, process: subprocess.Popen[str], code: int) -> subprocess.CompletedProcess[str]:
        """What it said, once it has ended with this exit code; never a traceback."""
        out, err = process.communicate(timeout=HANG_S)
        assert process.returncode == code, f"exit code {process.returncode}\n{out}\n{err}"
        assert "Traceback (most" not in err
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def shoal(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.end(self.start(*arguments), code)

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self.shoal(*arguments, code=code).stdout)

    def begun(self) -> list[str]:
        """The items that were begun, each as often as it was."""
        path = self.folder / BEGUN
        return path.read_text().split() if path.exists() else []

    def nothing_is_left(self) -> None:
        """That no run was made and no item was begun."""
        assert list((self.folder / ".shoal").iterdir()) == []
        assert self.begun() == []

    def held(self, *arguments: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
        """A run of which something is done, and something runs and waits; and what is shown of it then."""
        (self.folder / HOLD).touch()
        process = self.start("run", self.file, "--json", *arguments)
        deadline = time.monotonic() + HANG_S
        while time.monotonic() < deadline:
            if len(set(self.begun())) > 1:
                shown: dict[str, Any] = self.json("show", "last", "--json")
                if shown["counts"]["done"] and shown["counts"]["running"]:
                    return process, shown
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        raise AssertionError("no item is done and no other runs")

    def let_go(self) -> None:
        (self.folder / HOLD).unlink()

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()


Finished = tuple[Desk, dict[str, Any]]
"""The desk of a run that went well, and the document that `run` printed."""


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
    def desk(self, tmp_path: Path) -> Iterator[Desk]:
        made = Desk(tmp_path / "desk", self.write)
        yield made
        made.close()

    @pytest.fixture(scope="class")
    @classmethod
    def finished(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
        """A run that went well, for all who only look."""
        desk = Desk(tmp_path_factory.mktemp("finished") / "desk", cls.write)
        yield desk, desk.json("run", desk.file, "--json")
        desk.close()

    # Before a run.

    def test_check_says_what_the_workload_is_and_starts_nothing(self, desk: Desk) -> None:
        assert self.kind in desk.shoal("check", desk.file).stdout
        desk.nothing_is_left()

    def test_a_plan_has_the_fields_of_the_contract_and_starts_nothing(self, finished: Finished) -> None:
        desk, _ = finished
        before = desk.begun()
        plan = desk.json("plan", desk.file, "--json")
        assert set(plan) >= {"predicted_seconds", "decisions", "placements"}
        assert set(plan["predicted_seconds"]) == SPAN
        assert all(set(decision) >= {"name", "choice", "why"} for decision in plan["decisions"])
        assert all(set(placement) >= {"item", "node", "why"} for placement in plan["placements"])
        assert desk.begun() == before
        assert len(os.listdir(desk.folder / ".shoal" / "runs")) == 1

    def test_the_schema_has_every_key_of_the_workload(self, desk: Desk) -> None:
        schema = desk.json("schema", self.kind)
        document = yaml.safe_load((desk.folder / desk.file).read_text())
        assert document["kind"] == self.kind
        assert set(document) <= set(schema["properties"])
        assert schema["additionalProperties"] is False

    def test_check_finds_what_run_refuses_and_a_refused_request_leaves_no_run(self, desk: Desk) -> None:
        for what, setting in {"too much": TOO_MUCH, **self.wrong}.items():
            checked = desk.shoal("check", desk.file, "--set", setting, code=2)
            refused = desk.shoal("run", desk.file, "--set", setting, code=2)
            assert refused.stderr.startswith("Error: "), what
            assert (checked.stderr, checked.stdout, refused.stdout) == (refused.stderr, "", ""), what
        several = ("--set", "nonsense=1", "--set", "limits.retries=many", "--json")
        document = desk.json("run", desk.file, *several, code=2)
        assert document.keys() >= {"error", "hint"}
        assert all(each in document["error"] for each in ("nonsense", "limits.retries"))
        desk.shoal("check", desk.file, *several[:-1], code=2)
        desk.nothing_is_left()

    # A run that went well.

    def test_a_run_that_went_well_ends_with_0_and_its_document(self, finished: Finished) -> None:
        desk, document = finished
        assert set(document) >= SUMMARY
        assert (document["kind"], document["state"]) == (self.kind, "succeeded")
        assert set(document["items"]) >= COUNTS
        assert document["items"]["done"] == len(set(desk.begun())) >= 3
        assert document["items"]["failed"] == 0
        assert document["predicted_seconds"] is None or set(document["predicted_seconds"]) == SPAN
        assert os.path.exists(document["results"])

    def test_a_run_is_listed_and_shown_with_its_items(self, finished: Finished) -> None:
        desk, document = finished
        [listed] = desk.json("ls", "--json")
        assert [listed[key] for key in ("run", "kind", "state")] == [document["run"], self.kind, "succeeded"]
        shown = desk.json("show", document["run"], "--why", "--json")
        assert set(shown) >= SHOWN
        assert all(set(item) >= ITEM for item in shown["items"])
        assert {item["state"] for item in shown["items"]} == {"done"}
        assert sorted(item["item"] for item in shown["items"]) == sorted(set(desk.begun()))
        said = desk.shoal("show", "last", "--why").stdout
        assert document["run"] in said
        assert shown["plan"]["decisions"][0]["why"] in said

    def test_the_results_are_the_same_rows_in_every_form(self, finished: Finished) -> None:
        desk, document = finished
        rows = desk.json("results", document["run"], "--format", "json")
        assert len(rows) == self.rows
        table = list(csv.DictReader(io.StringIO(desk.shoal("results", "last", "--format", "csv").stdout)))
        assert [list(row) for row in table] == [list(row) for row in rows]
        lines = desk.shoal("results", "last").stdout.splitlines()
        assert len(lines) == 1 + self.rows
        assert lines[0].split() == list(rows[0])

    def test_logs_are_what_items_wrote_each_its_own(self, finished: Finished) -> None:
        desk, document = finished
        items = sorted(set(desk.begun()))
        written = desk.shoal("logs", document["run"]).stdout.splitlines()
        assert sorted(set(written)) == [f"hello from {item}" for item in items]
        assert set(desk.shoal("logs", "last", items[1]).stdout.splitlines()) == {f"hello from {items[1]}"}

    def test_get_copies_what_items_left(self, finished: Finished) -> None:
        desk, document = finished
        items = sorted(set(desk.begun()))
        assert desk.shoal("get", document["run"], "--to", "all").stdout == f"{desk.folder / 'all'}\n"
        copied = {path.parent.name: path.read_text() for path in (desk.folder / "all").glob(f"*/{LEFT}")}
        assert copied == {item: item for item in items}
        desk.shoal("get", "last", items[1], "--to", "one")
        assert (desk.folder / "one" / LEFT).read_text() == items[1]
        assert "--to" in desk.shoal("get", "last", "--to", "all", code=2).stderr

    def test_a_report_is_a_page_in_the_folder_of_the_run(self, finished: Finished) -> None:
        desk, document = finished
        path = desk.folder / ".shoal" / "runs" / document["run"] / "report.html"
        assert desk.shoal("report", "last").stdout == f"{path}\n"
        page = path.read_text(encoding="utf-8")
        assert page.startswith("<!DOCTYPE html>")
        assert document["run"] in page

    def test_a_resume_of_a_run_that_succeeded_does_nothing(self, finished: Finished) -> None:
        desk, document = finished
        before = desk.begun()
        again = desk.json("resume", document["run"], "--json")
        assert [again[key] for key in ("run", "state", "items", "results")] == [
            document[key] for key in ("run", "state", "items", "results")
        ]
        assert desk.begun() == before

    def test_open_gives_rows_logs_and_files(
        self, finished: Finished, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        desk, document = finished
        monkeypatch.chdir(desk.folder)
        monkeypatch.delenv("SHOAL_HOME", raising=False)
        run = shoal.open("last")
        assert (run.id, run.state) == (document["run"], "succeeded")
        assert len(run.rows()) == run.table().num_rows == len(list(run.results())) == self.rows
        items = sorted(set(desk.begun()))
        assert f"hello from {items[0]}\n" in run.logs()
        assert set(run.logs(items[1]).splitlines()) == {f"hello from {items[1]}"}
        assert [Path(path).read_text() for path in run.files()] == items
        assert [Path(path).name for path in run.files(items[1])] == [LEFT]
        assert run.wait().items["done"] == document["items"]["done"]

    # Runs that do not go well.

    def test_an_item_that_fails_fails_alone_and_can_be_taken_again(self, desk: Desk) -> None:
        (desk.folder / FAIL).touch()
        done = desk.shoal("run", desk.file, code=1)
        shown = desk.json("show", "last", "--json")
        [failed] = [item for item in shown["items"] if item["state"] == "failed"]
        assert (shown["state"], shown["counts"]["done"]) == ("failed", len(shown["items"]) - 1)
        assert "told to fail" in failed["error"]
        hints = (f"shoal logs {shown['run']} {failed['item']}", f"shoal resume {shown['run']} --failed")
        for sentence in ("told to fail", *hints):
            assert sentence in done.stderr
        before = desk.begun()
        left_alone = desk.json("resume", "last", "--json", code=1)
        assert (left_alone["items"]["failed"], desk.begun()) == (1, before)
        (desk.folder / FAIL).unlink()
        again = desk.json("resume", "last", "--failed", "--json")
        assert (again["state"], again["items"]["failed"]) == ("succeeded", 0)
        assert set(desk.begun()[len(before) :]) == {failed["item"]}
        assert len(desk.json("results", "last", "--format", "json")) == self.rows

    def test_failures_that_are_allowed_do_not_fail_the_run(self, desk: Desk) -> None:
        (desk.folder / FAIL).touch()
        document = desk.json("run", desk.file, "--set", "limits.failures=1", "--json")
        assert (document["state"], document["items"]["failed"]) == ("succeeded", 1)

    def test_after_kill_9_of_the_driver_a_resume_loses_nothing_and_repeats_nothing(self, desk: Desk) -> None:
        process, shown = desk.held()
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=HANG_S)
        assert [run["state"] for run in desk.json("ls", "--json")] == ["interrupted"]
        self.check_resumed(desk, shown)

    def test_a_second_driver_is_refused_and_a_run_that_is_stopped_goes_on_later(self, desk: Desk) -> None:
        process, shown = desk.held()
        for command in ("resume", "rm"):
            said = desk.shoal(command, shown["run"], code=2).stderr
            assert f"process {process.pid} on" in said
            assert "shoal stop" in said
        stopped = desk.shoal("stop", shown["run"])
        assert (stopped.stdout, f"shoal resume {shown['run']}" in stopped.stderr) == ("", True)
        ended = desk.end(process, 3)
        assert f"shoal resume {shown['run']}" in ended.stderr
        document = json.loads(ended.stdout)
        assert (document["run"], document["state"]) == (shown["run"], "stopped")
        assert document["items"]["done"] >= shown["counts"]["done"]
        self.check_resumed(desk, shown)
        desk.shoal("rm", shown["run"])
        assert list((desk.folder / ".shoal" / "runs").iterdir()) == []

    def check_resumed(self, desk: Desk, shown: dict[str, Any]) -> None:
        """That a resume does all that was not done, and nothing that was."""
        before = {item["item"]: item for item in shown["items"] if item["state"] == "done"}
        begun = len(desk.begun())
        desk.let_go()
        document = desk.json("resume", shown["run"], "--json")
        assert (document["run"], document["state"]) == (shown["run"], "succeeded")
        after = {item["item"]: item for item in desk.json("show", "last", "--json")["items"]}
        assert {item["state"] for item in after.values()} == {"done"}
        assert document["items"]["done"] == len(after) >= 3
        assert all(after[item] == before[item] for item in before)
        assert not before.keys() & set(desk.begun()[begun:])
        assert len(desk.json("results", "last", "--format", "json")) == self.rows

    def test_a_run_that_waits_says_for_what_and_behind_whom(self, desk: Desk, tmp_path: Path) -> None:
        second = Desk(tmp_path / "second", self.write)
        large = ("--cluster", "small.yaml", "--set", LARGE_WORKER)
        for each in (desk, second):
            (each.folder / "small.yaml").write_text(SMALL)
        try:
            holding, first = desk.held(*large)
            waiting = second.start("run", second.file, *large)
            assert waiting.stderr is not None
            said = next((line for line in waiting.stderr if " waits for " in line), "")
            assert f"1 CPU, 2.0 GiB of memory, held by {first['run']}\n" in said
            assert f"waits for: 1 CPU, 2.0 GiB of memory, held by {first['run']}\n" in (
                second.shoal("show", "last").stdout
            )
            desk.let_go()
            desk.end(holding, 0)
            second.end(waiting, 0)
            assert second.json("show", "last", "--json")["waits"] is None
        finally:
            second.close()

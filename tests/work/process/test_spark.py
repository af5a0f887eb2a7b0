"""`backend: spark`: what is read, set and refused; and that a run on Spark ends as one on the pool.

Spark is pretended here (see `pretended/`); `test_spark_sessions.py` has the real one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shoal import spec as specs
from shoal.cluster.spark_context import place, reason
from shoal.engine.workers.runner import Failed
from shoal.errors import ClusterError, SpecError
from shoal.model import Item, Node
from shoal.spec.process import Process
from shoal.work.process.item_params import FACTS, Facts, is_map
from shoal.work.process.job import prepare
from shoal.work.process.kind import KIND
from shoal.work.process.source import ProcessSource
from shoal.work.process.spark_job import INSIDE, NOTES
from shoal.work.process.spark_run import End, Execute, driven, master, settings
from shoal.work.records.record import Extent, Range

if TYPE_CHECKING:
    from shoal.testing.workload_folder import WorkloadFolder

PRETENDED = Path(__file__).parent / "pretended"
WORKLOAD = """\
kind: process
name: lengths
input: {text: "lines/*.txt", split: 100B}
job: {function: "mine:Lengths"}
env: {MARK: x}
output: lengths.csv
limits: {errors: 50%, retries: 0}
"""
ON_SPARK = "--set=backend=spark"
JOB = """\
import os, time

class Lengths:
    key = ("length",)

    def map(self, record):
        line = record.row["text"]
        with open("begun", "a") as file:
            file.write(f"{line}\\n")
        while line == "last" and os.path.exists("hold"):
            time.sleep(0.01)
        if line == "bad":
            raise ValueError("a bad line")
        return [(os.environ["MARK"] * len(line), 1)]

    def finish(self, pairs):
        if os.path.exists("fail"):
            raise RuntimeError("told to fail")
        yield from pairs
"""
SAME = ("rows", "records", "errors", "bytes", "reasons")


def read(text: str = "", *sets: str) -> Process:
    found = specs.loads(f"{WORKLOAD}{text}", folder=".", sets=sets, kind="process")
    assert isinstance(found, Process)
    return found


@pytest.mark.parametrize(
    ("given", "tasks"),
    [
        ("{}", None),
        ("{executors: 3}", 3),
        ("{cores: 2}", 2),
        ("{executors: 3, cores: 2}", 6),
        ("{master: local, executors: 3}", 1),
        ("{master: 'local[4]'}", 4),
        ("{master: 'local[*,2]', cores: 2}", 2),
        ("{master: 'spark://here:7077', cores: 2}", None),
        ("{master: yarn, executors: 3, cores: 2}", 6),
    ],
)
def test_the_file_says_how_many_tasks_run_at_a_time(given: str, tasks: int | None) -> None:
    assert read(f"backend: spark\nspark: {given}\n").spark.tasks == tasks


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("spark: {cores: 2}", "only goes with backend: spark"),
        ("backend: flink", "expected one of auto, spark"),
        ("backend: spark\nspark: {executors: 0}", "spark.executors"),
        ("backend: spark\nspark: {conf: {ui.enabled: true}}", "cannot be a name here"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        read(text)


def test_a_session_of_this_machine_is_on_loopback_and_tries_tasks_again() -> None:
    spec = read("backend: spark\nspark: {executors: 2, memory: 2GiB}\n", "limits.retries=3")
    assert place(master(spec)) == {
        "spark.master": "local[2,4]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    assert settings(spec)["spark.driver.memory"] == "2048m"
    assert "spark.executor.instances" not in settings(spec)


def test_executors_of_a_master_have_their_sizes_and_conf_decides() -> None:
    conf = "{spark.executor.memory: 3g, spark.ui.enabled: true}"
    given = f"{{master: 'spark://127.0.0.1:7077', executors: 3, cores: 2, memory: 2GiB, conf: {conf}}}"
    spec = read(f"backend: spark\nspark: {given}\n")
    assert place(master(spec))["spark.driver.host"] == "127.0.0.1"
    found = settings(spec)
    assert found["spark.executor.instances"] == "3"
    assert found["spark.executor.cores"] == "2"
    assert found["spark.cores.max"] == "6"
    assert found["spark.executor.memory"] == "3g"
    assert found["spark.ui.enabled"] == "true"
    assert "MARK" not in repr(found), "settings are seen on command lines, variables may be secrets"


def test_a_master_that_no_way_leads_to_is_named() -> None:
    with pytest.raises(ClusterError, match=r"nowhere\.invalid:7077"):
        place("spark://nowhere.invalid:7077,other:7077")


def failing(seqs: set[int], tried: list[int]) -> Execute:
    """Executors at which these items fail."""
    facts = Facts(records=5, errors=1, bytes=10, extents=[Extent(0, 10)])

    def execute(items: Sequence[Item]) -> Iterator[End]:
        for item in items:
            tried.append(item.seq)
            done = {"records": 5, "errors": 1, FACTS: facts.plain()} if is_map(item.params) else {"rows": 7}
            yield End(item.seq, error="no luck") if item.seq in seqs else End(item.seq, done)

    return execute


def three_files(failures: int) -> ProcessSource:
    ranges = [Range(f"{number}.txt", 0, 10) for number in range(3)]
    return ProcessSource(ranges, 10, failures=failures)


def test_what_fails_in_executors_is_tried_again_and_fails_the_run_in_a_sentence() -> None:
    tried: list[int] = []
    limits = read("", "limits.retries=2").limits
    with pytest.raises(Failed, match=r"^m00001: no luck \(1 more failed\)$"):
        driven(three_files(0), failing({1, 3}, tried), 3, limits)
    assert tried == [1, 2, 3, 1, 3, 1, 3], "and nothing is merged"


def test_as_many_failures_as_the_limits_allow_leave_a_result_of_the_others() -> None:
    limits = read("", "limits.failures=1").limits
    found = driven(three_files(1), failing({2}, []), 3, limits)
    assert (found["rows"], found["records"], found["errors"]) == (7, 10, 2)
    assert [seq for seq, *_ in found[INSIDE]] == [1, 3, 4]
    assert found[NOTES] == ["a part of the input was left out: m00002: no luck"]


ABORTED = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 4 times, most recent failure: {}
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2898)
Caused by: java.io.EOFException
"""
IN_PYTHON = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/python/lib/pyspark.zip/pyspark/serializers.py", line 192, in _read_with_length
    return self.loads(obj)
ModuleNotFoundError: No module named 'shoal'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/opt/python/lib/pyspark.zip/pyspark/worker.py", line 100, in main
pyspark.serializers.SerializationError: Caused by Traceback (most recent call last):
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (ABORTED.format(IN_PYTHON), "ModuleNotFoundError: No module named 'shoal'"),
        (
            ABORTED.format("ExecutorLostFailure (executor 1 exited)."),
            "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 4 times, most recent"
            " failure: ExecutorLostFailure (executor 1 exited)",
        ),
        (
            "[JAVA_GATEWAY_EXITED] Java gateway process exited.",
            "[JAVA_GATEWAY_EXITED] Java gateway process exited",
        ),
        ("", "RuntimeError"),
    ],
    ids=["python", "java", "plain", "none"],
)
def test_of_all_that_spark_says_one_line_is_told(
    text: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reason(RuntimeError(text)) == line
    assert "RuntimeError" in capsys.readouterr().err, "the log has all of it"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    write(made)
    return made


def write(folder: Path) -> str:
    (folder / "lengths.yaml").write_text(WORKLOAD)
    (folder / "mine.py").write_text(JOB)
    (folder / "lines").mkdir()
    (folder / "lines" / "1.txt").write_text("".join(f"{'a' * (n % 7 + 1)}\n" for n in range(30)) + "bad\n")
    (folder / "lines" / "2.txt").write_text("b\nlast\n")
    return "lengths.yaml"


def test_java_that_is_missing_is_named_with_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    spec = specs.load(str(folder / "lengths.yaml"), sets=["backend=spark"], kind="process")
    assert isinstance(spec, Process)
    with pytest.raises(SpecError, match="Spark runs on Java, and there is none on the PATH") as caught:
        prepare(spec)
    assert "Install Java 17" in str(caught.value.hint)
    prepare(spec.replaced(backend="auto"))


def test_the_plan_says_that_a_resume_is_all_or_nothing(folder: Path, java: None) -> None:
    spec = specs.load(
        str(folder / "lengths.yaml"), sets=["backend=spark", "spark.executors=2"], kind="process"
    )
    assert isinstance(spec, Process)
    job = prepare(spec)
    nodes = [Node("a", 4.0, 1 << 30), Node("b", 8.0, 1 << 30)]
    job.fit(nodes)
    assert job.need.cpu == 2, "what the session uses of the machine"
    plan = job.plan(nodes, None)
    assert (plan.items, plan.workers) == (1, 1)
    whys = {decision.name: (decision.choice, decision.why) for decision in plan.decisions}
    assert whys["backend"][0] == "spark"
    assert whys["resume"][0] == "all or nothing"
    assert "partials that are there are adopted" in whys["resume"][1]
    assert KIND.extras["pyspark"].extra == "spark"
    assert "pyspark" in job.imports(), "what is missing is told with that extra"


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PATH with something that is called java, and the pretended Spark where Python looks first."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(PRETENDED))
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.fixture
def work(tmp_path: Path, java: None) -> Iterator[WorkloadFolder]:
    from shoal.testing.workload_folder import WorkloadFolder  # Contracts of kinds are the first to load it.

    made = WorkloadFolder(tmp_path / "work", write)
    yield made
    made.close()


def result(work: WorkloadFolder) -> tuple[bytes, bytes]:
    return tuple((work.folder / name).read_bytes() for name in ("lengths.csv", "lengths.errors.parquet"))


def outcome(work: WorkloadFolder) -> dict[str, Any]:
    return {
        name: value for name, value in work.json("show", "last", "--json")["process"].items() if name in SAME
    }


def test_a_run_on_spark_ends_as_one_on_the_pool_does(work: WorkloadFolder) -> None:
    work.shoal("run", work.file)
    expected, document = result(work), outcome(work)
    assert document["errors"] == 1
    work.shoal("run", work.file, ON_SPARK)
    assert result(work) == expected
    assert outcome(work) == document
    settings = dict(line.split("=", 1) for line in (work.folder / "conf.txt").read_text().splitlines())
    assert settings["spark.master"] == "local[*,1]"
    assert (work.folder / "stopped.txt").exists(), "the session was ended"
    assert not list(work.folder.glob(".shoal-*")), "partials are gone"


def test_a_session_that_cannot_be_had_is_told_in_a_sentence(work: WorkloadFolder) -> None:
    said = work.shoal(
        "run", work.file, ON_SPARK, "--set=name=refused", "--set=limits.failures=1", code=1
    ).stderr
    assert (
        "Spark could not be started at local[*,1]: org.apache.spark.SparkException: not today. Is Java"
        in said
    )


@pytest.mark.long
def test_a_stopped_or_failed_run_on_spark_is_resumed_with_its_partials(work: WorkloadFolder) -> None:
    (work.folder / "hold").touch()
    (work.folder / "fail").touch()
    driver = work.start("run", work.file, ON_SPARK)
    work.until(lambda: "last" in work.begun(), driver)
    work.shoal("stop", "last")
    work.end(driver, 3)
    assert (work.folder / "stopped.txt").exists(), "the session was ended"
    (work.folder / "hold").unlink()
    said = work.shoal("resume", "last", code=1).stderr
    assert "RuntimeError: told to fail" in said
    (work.folder / "fail").unlink()
    work.shoal("resume", "last", "--failed")
    assert len(work.begun()) == 33 + len(["b", "last"]), "only the item that was stopped is mapped again"
    found = result(work)
    work.shoal("run", work.file)
    assert result(work) == found

"""Looking at detached runs from here, through an SSH that prints more than it was asked for. Nothing of Ray is up."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shoal.api.clusters import detached_runs
from shoal.api.clusters.cluster_machines import provider_for
from shoal.api.clusters.lifecycle import load
from shoal.cluster.agent import there
from shoal.cluster.agent.requests import ANSWER, NodeFacts
from shoal.cluster.agent_calls import ThisMachine
from shoal.errors import AgentRefused, ClusterError, FileError, NotFound, RunLocked
from shoal.model.item import Item
from shoal.store import RunStore
from shoal.store import home as kept
from shoal.store.home import Stub

SSH = """#!/bin/sh
echo 'Welcome to the head!'
while [ "$1" != -- ]; do shift; done
exec sh -c "$2"
"""
"""Every host is this machine, and its login shell says something first."""
UP = NodeFacts("a", "a:1", "a", "/nowhere")
NEW_HEAD = rf"""#!/bin/sh
while [ "$1" != -- ]; do shift; done
read -r request
case "$request" in
*'"do": "start"'*) echo '{ANSWER}{json.dumps({"ok": UP._asdict()})}';;
*) (printf '%s\n' "$request"; cat) | sh -c "$2";;
esac
"""
"""Every host is this machine; a node that is to be started is up, they say."""


OLDER = r"""#!/bin/sh
read -r request
echo 'Traceback (most recent call last):' >&2
task=${request#*'"do": "'}
echo "KeyError: '${task%%\"*}'" >&2
exit 1
"""
"""The agent of a host with an older Shoal, which knows nothing of what it is asked."""


class Away:
    """A folder here, and the data folder of a head that the SSH leads to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = str(folder / "lab.yaml")
        self.key = provider_for(load(self.file), self.file).detached().key
        self.home = there.home_folder(self.key)
        self.here = str(folder / ".shoal")

    def keep(self, run: str, state: str) -> None:
        kept.keep(
            self.here, Stub(run, "sweep", "t", self.file, str(self.folder / "t.yaml"), 1.0, state=state)
        )

    def run(self, **files: str) -> RunStore:
        """A run on the head, with one item that left these files; its driver is this process."""
        os.makedirs(self.home, exist_ok=True)
        store = RunStore.create(
            self.home, name="t", kind="sweep", spec_text="", document={}, token=lambda: "0001", now=1.0
        )
        item = Path(store.folder, "items", "t0001")
        item.mkdir(parents=True)
        for name, text in files.items():
            (item / name).write_text(text)
        return store

    @contextmanager
    def driver(self, run: str) -> Iterator[None]:
        """The driver of a run, on the head, while it installs packages: there is no run yet."""
        job = Path(there.job_file(self.key, run))
        job.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(self.folder / "slow.yaml")
        how = {"folder": str(self.folder), "arguments": ["run", "slow.yaml"], "home": self.home}
        job.write_text(json.dumps(how | {"environment": None}))
        process = subprocess.Popen([sys.executable, "-m", "shoal.cluster.agent.there", "job", str(job)])
        try:
            deadline = time.monotonic() + 20
            while run not in there.drivers(self.key):
                assert time.monotonic() < deadline, "it does not start"
                time.sleep(0.01)
            yield
        finally:
            process.kill()
            process.wait()

    def shoal(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "shoal", *arguments], capture_output=True, text=True, check=False
        )


@pytest.fixture
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Away:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ssh").write_text(SSH)
    (tmp_path / "bin" / "ssh").chmod(0o755)
    (tmp_path / ".shoal").mkdir()
    (tmp_path / "lab.yaml").write_text(
        "{kind: cluster, name: lab, provider: ssh, nodes: [{host: a, cpu: 1}]}"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Away(tmp_path)


def test_states_are_read_past_what_a_login_shell_prints(away: Away) -> None:
    away.keep("t-0001", "queued")
    with away.run() as store:
        store.set_state("running", 1.0)
        assert [(run.run, run.state) for run in detached_runs.runs()] == [("t-0001", "running")]


def test_a_head_that_answers_nonsense_hides_no_other_runs(away: Away) -> None:
    away.keep("t-0001", "running")
    (away.folder / "bin" / "ssh").write_text('#!/bin/sh\necho \'{"error": "not today"}\'\n')
    done = away.shoal("ls", "--json")
    assert [each["state"] for each in json.loads(done.stdout)] == ["running"], done.stderr


def test_files_are_brought_past_what_a_login_shell_prints(away: Away) -> None:
    away.keep("t-0001", "running")
    with away.run(note="hello") as store:
        os.symlink("/etc/passwd", os.path.join(store.folder, "items", "t0001", "outward"))
        target = detached_runs.get("t-0001", "t0001", "got")
        assert os.listdir(target) == ["note"]
        assert Path(target, "note").read_text() == "hello"
        with pytest.raises(NotFound, match="t0002 left no files"):
            detached_runs.get("t-0001", "t0002", "other")


def test_an_archive_that_is_cut_off_leaves_nothing(away: Away) -> None:
    away.keep("t-0001", "running")
    with away.run(note="hello" * 10_000):
        script = SSH.replace('exec sh -c "$2"', 'sh -c "$2" | head -c 12000')
        (away.folder / "bin" / "ssh").write_text(script)
        with pytest.raises(
            ClusterError, match="The files could not be fetched: The agent there did not answer"
        ):
            detached_runs.get("t-0001", None, "got")
    assert not os.path.lexists("got")


def test_files_that_cannot_be_written_are_a_sentence(away: Away) -> None:
    away.keep("t-0001", "running")
    Path("a-file").write_text("")
    with away.run(note="hello"):
        with pytest.raises(FileError, match="a-file"):
            detached_runs.get("t-0001", "t0001", "a-file/below")
        done = away.shoal("get", "t-0001", "t0001", "--to", "a-file/below")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.stderr


def test_what_nobody_expected_of_a_detached_run_is_a_sentence_too(away: Away) -> None:
    away.keep("t-0001", "running")
    (away.folder / "bin" / "ssh").write_text("not a program\n")
    done = away.shoal("show", "t-0001")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: This is a bug in Shoal: OSError")
    assert "Traceback" not in done.stderr


def test_a_run_that_is_going_is_not_resumed_and_its_folder_stays(away: Away) -> None:
    away.keep("t-0001", "stopped")
    folder = Path(there.workload_folder(away.key, "t-0001"))
    folder.mkdir(parents=True)
    (folder / "trial.py").write_text("")
    with away.run() as store:
        store.set_state("running", 1.0)
        with pytest.raises(RunLocked, match="t-0001 is running on its cluster"):
            resume("t-0001")
    assert os.listdir(folder) == ["trial.py"]


def test_a_run_whose_driver_is_still_getting_ready_is_not_resumed(away: Away) -> None:
    away.keep("t-0001", "queued")
    with away.driver("t-0001"):
        assert [(run.run, run.state) for run in detached_runs.runs()] == [("t-0001", "queued")]
        with pytest.raises(RunLocked, match="t-0001 is queued on its cluster"):
            resume("t-0001")


@pytest.mark.parametrize("before", ["its driver died", "its host was replaced"])
def test_a_run_that_was_queued_on_a_head_that_is_gone_is_handed_over_again(away: Away, before: str) -> None:
    away.keep("t-0001", "queued")
    if before == "its driver died":
        with away.driver("t-0001"):
            pass
    (away.folder / "bin" / "ssh").write_text(NEW_HEAD)
    with pytest.raises(AgentRefused, match="The head is not up"):  # There is no Ray here to hand it to.
        resume("t-0001")
    assert os.path.isdir(there.workload_folder(away.key, "t-0001")), "its folder was shipped"
    assert [stub.state for stub in kept.stubs(away.here)] == ["queued"]


@pytest.mark.parametrize("command", ["get", "report", "rm"])
def test_a_head_with_an_older_shoal_is_a_sentence_and_the_run_stays(away: Away, command: str) -> None:
    away.keep("t-0001", "succeeded")
    (away.folder / "bin" / "ssh").write_text(OLDER)
    done = away.shoal(command, "t-0001")
    assert (done.returncode, done.stdout) == (2, "")
    assert "The Shoal there is older than this one: it does not know the request" in done.stderr
    assert "Hint: Install the same version of Shoal there as here." in done.stderr
    assert "Traceback" not in done.stderr
    assert [stub.run for stub in kept.stubs(away.here)] == ["t-0001"]


def test_an_agent_says_which_request_it_does_not_know() -> None:
    with pytest.raises(AgentRefused, match="does not know the request 'fly'"):
        ThisMachine().ask("a", {"do": "fly"})


def test_options_of_a_command_reach_the_run_whatever_they_are_called(away: Away) -> None:
    away.keep("t-0001", "running")
    (away.folder / "bin" / "ssh").write_text(SSH.replace("echo 'Welcome to the head!'", ""))
    with away.run(note="hello") as store:
        journal = store.journal()
        journal.add([Item(1, "t0001", {"x": 1})])
        journal.commit()
        assert away.shoal("get", "--to", "t", "t", "t0001").stdout.strip() == str(away.folder / "t")
        assert os.listdir("t") == ["note"]
        assert json.loads(away.shoal("results", "--format", "json", "t").stdout)[0]["x"] == 1
        assert json.loads(away.shoal("show", "--why", "--json", "last").stdout)["run"] == "t-0001"
        done = away.shoal("logs", "--follow", "t", "--", "t0002")
        assert (done.returncode, done.stdout) == (2, "")
        assert "t0002" in done.stderr


@pytest.mark.parametrize("how", ["unreachable", "no cluster file"])
def test_a_run_whose_head_cannot_be_asked_is_forgotten_with_a_warning(away: Away, how: str) -> None:
    away.keep("t-0001", "queued")
    if how == "unreachable":
        (away.folder / "bin" / "ssh").write_text("#!/bin/sh\nexit 255\n")
    else:
        os.unlink("lab.yaml")
    done = away.shoal("rm", "t-0001")
    assert done.returncode == 0, done.stderr
    assert "t-0001 is forgotten here. What there may be of it on its cluster stays" in done.stderr
    assert ("a cannot be reached" if how == "unreachable" else "lab.yaml") in done.stderr
    assert kept.stubs(away.here) == []


def test_a_run_that_its_head_does_not_remove_is_not_forgotten(away: Away) -> None:
    away.keep("t-0001", "running")
    with away.run() as store:
        store.set_state("running", 1.0)
        done = away.shoal("rm", "t-0001")
    assert done.returncode == 2
    assert done.stderr.startswith("Error: Run 't-0001' is being driven by another process")
    assert [stub.run for stub in kept.stubs(away.here)] == ["t-0001"]


def test_a_new_run_does_not_replace_another_one_of_its_id(away: Away) -> None:
    detached = provider_for(load(away.file), away.file).detached()
    with away.run():
        with pytest.raises(AgentRefused, match="another run t-0001 on the head already"):
            detached.ship("t-0001", archive(), new=True)
        assert detached.ship("t-0001", archive()) == there.workload_folder(away.key, "t-0001")
    with pytest.raises(AgentRefused, match="another run t-0001 on the head already"):
        detached.ship("t-0001", archive(), new=True)
    detached.remove("t-0001")
    detached.ship("t-0001", archive(), new=True)


def resume(run: str) -> None:
    detached_runs.resume(run, lambda line: None, failed=False, take_over=False, as_json=False)


def archive() -> bytes:
    written = io.BytesIO()
    tarfile.open(fileobj=written, mode="w").close()
    return written.getvalue()


def submit(away: Away) -> str:
    detached = provider_for(load(away.file), away.file).detached()
    stub = Stub("t-0001", "sweep", "t", away.file, "t.yaml", 1.0)
    return detached_runs._submit(detached, stub, ["run", "t.yaml"], str(away.folder))


def test_a_run_that_was_refused_is_not_known_here(away: Away) -> None:
    with pytest.raises(AgentRefused, match="The head is not up"):
        submit(away)
    assert kept.stubs(away.here) == []


def test_a_run_that_was_refused_again_is_known_as_it_was(away: Away) -> None:
    away.keep("t-0001", "stopped")
    with pytest.raises(AgentRefused, match="The head is not up"):
        submit(away)
    assert [stub.state for stub in kept.stubs(away.here)] == ["stopped"]


def test_a_run_is_known_here_when_the_answer_is_lost(away: Away) -> None:
    (away.folder / "bin" / "ssh").write_text("#!/bin/sh\nexit 255\n")
    with pytest.raises(ClusterError, match="t-0001 was handed over") as error:
        submit(away)
    assert "shoal show t-0001" in str(error.value.hint)
    assert [stub.state for stub in kept.stubs(away.here)] == ["queued"]


@pytest.mark.parametrize(
    ("storage", "says"), [("", True), (", storage: /mnt/x", False)], ids=["none", "some"]
)
def test_it_is_said_beforehand_that_a_run_is_kept_on_the_head_alone(
    away: Away, storage: str, says: bool
) -> None:
    text = f"{{kind: cluster, name: lab, provider: ssh, nodes: [{{host: a, cpu: 1, memory: 1GiB}}]{storage}}}"
    Path("lab.yaml").write_text(text)
    Path("trial.py").write_text("def main(x):\n    return {}\n")
    Path("t.yaml").write_text(
        json.dumps({"kind": "sweep", "trials": {"grid": {"x": [1]}}, "run": {"function": "trial:main"}})
    )
    (away.folder / "bin" / "ssh").write_text("#!/bin/sh\nexit 255\n")
    told: list[str] = []
    with pytest.raises(ClusterError):
        detached_runs.detach("t.yaml", "lab.yaml", [], None, told.append)
    assert any("is lost if that is" in line for line in told) == says


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "words"])
def test_who_follows_a_run_reads_logs_on_stderr_and_what_came_of_it_on_stdout(
    away: Away, as_json: bool
) -> None:
    (away.folder / "bin" / "ssh").write_text(SSH.replace("echo 'Welcome to the head!'", ""))
    Path("trial.py").write_text("def main(x):\n    print('trial says', x)\n    return {'y': 1 / x}\n")
    Path("t.yaml").write_text(
        json.dumps({"kind": "sweep", "trials": {"grid": {"x": [0, 7]}}, "run": {"function": "trial:main"}})
    )
    os.makedirs(away.home)
    command = [sys.executable, "-m", "shoal", "run", "t.yaml", "--json"]
    environment = {**os.environ, "SHOAL_HOME": away.home}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    run = json.loads(ran.stdout)["run"]
    away.keep(run, "running")
    code = f"import sys; from shoal.api.clusters.detached_runs import follow; sys.exit(follow({run!r}, {as_json}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == ran.returncode == 1, done.stderr
    assert "trial says 7" in done.stderr
    assert "trial says" not in done.stdout
    if as_json:
        assert json.loads(done.stdout) == json.loads(ran.stdout)


def test_a_report_is_written_where_the_run_is_and_a_copy_is_kept_here(away: Away) -> None:
    away.keep("t-0001", "running")
    with away.run() as store:
        done = away.shoal("report", "t-0001")
        assert done.returncode == 0, done.stderr
        copy, there_too = Path(done.stdout.strip()), Path(store.folder, "report.html")
        assert copy.parent.parent == Path(away.here)
        assert copy.read_text() == there_too.read_text()
        assert copy.read_text().startswith("<!DOCTYPE html>")
        assert [stub.run for stub in kept.stubs(away.here)] == ["t-0001"]
    kept.forget(away.here, "t-0001")
    assert not copy.exists()


def test_a_report_that_cannot_be_had_is_a_sentence(away: Away) -> None:
    away.keep("t-0001", "running")
    os.makedirs(away.home)
    done = away.shoal("report", "t-0001")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: The report could not be fetched: There is no run 't-0001'")

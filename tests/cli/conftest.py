"""A folder with a finished run to look at, and the real command to run in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shoal.cli import main

Shoal = Callable[..., "subprocess.CompletedProcess[str]"]

TRIAL = """\
import sys, time
x, how = int(sys.argv[1]), sys.argv[2]
print("hello from", x)
if how == "sleep":
    print("asleep", flush=True)
    time.sleep(60)
if how == "fail":
    print("no luck")
    sys.exit(3)
print("score:", "nan" if how == "nan" else x * 10)
"""
SWEEP = """\
kind: sweep
name: {name}
trials: {{table: {name}.csv}}
run: {{command: "python trial.py {{x}} {{how}}"}}
metrics: {{score: 'score: (\\S+)'}}
objective: {{metric: score, goal: max}}
"""


def write_sweep(folder: Path, name: str, hows: list[str]) -> Path:
    """A sweep whose trials end as told: ok, fail, nan or sleep."""
    (folder / "trial.py").write_text(TRIAL)
    rows = [f"00{number},{how}" for number, how in enumerate(hows, 1)]
    (folder / f"{name}.csv").write_text("\n".join(["x,how", *rows]) + "\n")
    path = folder / f"{name}.yaml"
    path.write_text(SWEEP.format(name=name))
    return path


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    return kept | {"SHOAL_LEASES": str(folder / "leases"), "COLUMNS": "100"}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "shoal", *arguments]


class Finished(NamedTuple):
    """A folder, and the id of the run that ended in it, with one of its three trials failed."""

    folder: Path
    run: str


@pytest.fixture
def sweep(tmp_path: Path) -> Callable[[str, list[str]], Path]:
    return lambda name, hows: write_sweep(tmp_path, name, hows)


LOOKS = {"ls", "show", "results", "logs", "get", "rm", "schema"}
"""Commands that start nothing: they need no process of their own, which takes longer than what they do."""


@pytest.fixture
def shoal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shoal:
    """Runs the real command in `tmp_path`."""

    def in_this_process(*arguments: str) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            patch.chdir(tmp_path)
            for name in os.environ.keys() - environment(tmp_path).keys():
                patch.delenv(name)
            for name, value in environment(tmp_path).items():
                patch.setenv(name, value)
            capsys.readouterr()
            code = main(list(arguments))
            return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    def run(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
        if arguments[0] in LOOKS and not settings:
            return in_this_process(*arguments)
        settings = {"cwd": tmp_path, "env": environment(tmp_path), "timeout": 60} | settings
        return subprocess.run(command(*arguments), capture_output=True, text=True, check=False, **settings)

    return run


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the real command in `tmp_path`; whatever is left of it is killed at the end."""
    started = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command(*arguments),
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path) -> None:
    """So that no home further up is found."""
    (tmp_path / ".shoal").mkdir()


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("finished")
    (folder / ".shoal").mkdir()
    write_sweep(folder, "three", ["ok", "fail", "ok"])
    done = subprocess.run(
        command("run", "three.yaml"), cwd=folder, env=environment(folder), capture_output=True, check=False
    )
    assert done.returncode == 1, done.stderr
    return Finished(folder, next((folder / ".shoal" / "runs").iterdir()).name)


@pytest.fixture
def look(
    finished: Finished, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs a command in this process, in the folder of the finished run: its exit code, stdout and stderr."""
    monkeypatch.chdir(finished.folder)
    monkeypatch.delenv("SHOAL_HOME", raising=False)
    monkeypatch.setenv("SHOAL_LEASES", str(finished.folder / "leases"))

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return run

"""Nothing heavy is loaded before it is needed, and the public API is what it says."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import shoal
from shoal.cli import COMMANDS

HEAVY = {"ray", "torch", "pandas", "pyarrow", "optuna", "numpy", "rich", "openpyxl", "IPython", "obstore"}
HELP = "import sys, shoal.cli; shoal.cli.main(['--help'])"


def loaded_by(code: str) -> set[str]:
    script = f"import sys\n{code}\nsys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("code", ["import shoal", "import shoal.cli", HELP], ids=["shoal", "cli", "help"])
def test_nothing_heavy_is_loaded(code):
    assert loaded_by(code) & HEAVY == set()


def test_import_shoal_loads_nothing_else_of_shoal():
    assert {name for name in loaded_by("import shoal") if name.startswith("shoal")} == {"shoal"}


def test_help_loads_no_command():
    modules = {f"shoal.cli.{module}" for module, _ in COMMANDS.values()}
    assert loaded_by(HELP) & modules == set()


def test_nothing_of_reports_is_loaded_before_one_is_asked_for():
    looked = "import shoal.cli; shoal.cli.main(['report', '--help'])"
    for code in ("import shoal", HELP, looked):
        assert [name for name in loaded_by(code) if name.startswith("shoal.report")] == []
    assert loaded_by("import shoal.reports.page") & HEAVY == set()


def test_a_run_needs_neither_click_nor_rich(tmp_path):
    (tmp_path / "one.yaml").write_text("kind: sweep\ntrials: {grid: {x: [1]}}\nrun: {command: 'true {x}'}\n")
    code = f"""
import os, shoal.cli
os.chdir({str(tmp_path)!r})
os.environ['SHOAL_LEASES'] = {str(tmp_path / "leases")!r}
code = shoal.cli.main(['run', 'one.yaml', '--json'])
assert code == 0, code
sys.stderr.write(chr(10))
"""
    assert loaded_by(code) & {"click", "rich", "optuna", "openpyxl", "pandas"} == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_in_the_help_is_that_of_the_command(name):
    module, line = COMMANDS[name]
    command = getattr(import_module(f"shoal.cli.{module}"), f"{name}_command")
    assert command.name == name
    assert command.help.replace("\n", " ").startswith(line)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_its_options_explained(name):
    import click

    command = getattr(import_module(f"shoal.cli.{COMMANDS[name][0]}"), f"{name}_command")
    for parameter in command.params:
        assert not isinstance(parameter, click.Option) or parameter.hidden or parameter.help, parameter.name


@pytest.mark.parametrize("name", shoal.__all__)
def test_every_public_name_is_there(name):
    assert getattr(shoal, name) is not None
    assert name in dir(shoal)


@pytest.mark.parametrize("name", ["check", "plan", "report", "resume", "run", "start", "stop"])
def test_a_public_function_says_that_it_is_of_shoal(name):
    function = getattr(shoal, name)
    assert (function.__module__, function.__qualname__) == ("shoal", name)
    assert pickle.loads(pickle.dumps(function)) is function


def test_a_function_that_version_0_1_sent_by_value_finds_what_it_reports_with():
    assert import_module("shoal.engine.workers.reporting").report is shoal.report


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = shoal.nonsense


def test_the_version_is_that_of_the_project():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert shoal.__version__ == project["project"]["version"]


def test_version_is_printed():
    done = subprocess.run(
        [sys.executable, "-m", "shoal", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"shoal {shoal.__version__}\n"

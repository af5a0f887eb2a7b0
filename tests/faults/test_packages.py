"""Workloads that ask for packages, and workloads that should have: whole runs, as a user starts them."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

VERSION = """
import shoalfish
def main(x):
    return {"version": shoalfish.version}
"""
GRID = "{grid: {x: [1, 2, 3, 4]}}"


@pytest.fixture
def place(place: Any, request: pytest.FixtureRequest) -> Any:
    name = "stocked" if "stocked" in request.fixturenames else "wheels"
    place.environment |= request.getfixturevalue(name).environment
    return place


def decision(place: Any, file: str) -> tuple[str, str]:
    """What the plan says of packages: the choice, and why."""
    found = [each for each in place.json("plan", file, "--json")["decisions"] if each["name"] == "packages"]
    return (found[0]["choice"], found[0]["why"]) if found else ("", "")


@pytest.mark.parametrize(
    "run",
    ["function: f:main", "python script.py", "sh script.sh", "shoalfish"],
    ids=["function", "script", "python in a shell script", "program of the package"],
)
def test_whatever_a_trial_runs_finds_the_packages(place: Any, stocked: Any, run: str) -> None:
    place.write("f.py", VERSION)
    place.write("script.py", "import shoalfish, shoal\nshoalfish.main()\n")
    place.write("script.sh", "python -c 'import shoalfish; shoalfish.main()'\n")
    more = "requirements: [shoalfish==2.0]\n"
    if not run.startswith("function:"):
        more += "metrics: {version: 'version: (\\S+)'}\n"
    rows = place.run(place.sweep("s", GRID, run, more))
    assert [row["version"] for row in rows] == ["2.0"] * 4


@pytest.mark.long
def test_a_plan_says_what_is_installed_and_what_is_there(place: Any, wheels: Any) -> None:
    place.write("f.py", VERSION)
    file = place.sweep("s", GRID, "function: f:main", "requirements: [shoalfish==2.0, click]\n")
    choice, why = decision(place, file)
    assert choice == "install"
    assert "shoalfish==2.0: not installed" in why
    assert "click" not in why
    assert wheels.installs() == 0, "a plan starts nothing"
    done = place.shoal("run", file, code=0)
    assert "Installing shoalfish==2.0" in done.stderr
    assert decision(place, file)[0] == "reuse"
    assert "Installing" not in place.shoal("run", file, code=0).stderr
    place.write("g.py", "def main(x): ...\n")
    there = place.sweep("there", GRID, "function: g:main", "requirements: [click>=8]\n")
    assert decision(place, there) == ("none", "everything in requirements: is installed where Shoal runs")
    assert decision(place, place.sweep("plain", GRID, "function: g:main")) == ("", "")
    place.run(there)
    assert wheels.installs() == 1


@pytest.mark.long
def test_two_runs_at_once_install_once(place: Any, wheels: Any) -> None:
    place.write("f.py", VERSION)
    file = place.sweep("s", GRID, "function: f:main", "requirements: [shoalfish==2.0]\n")
    going = [place.start("run", file, "--json") for _ in range(2)]
    for process in going:
        done = json.loads(place.end(process, code=0).stdout)
        assert {row["version"] for row in place.table(done["results"])} == {"2.0"}
    assert wheels.installs() == 1


def test_two_workloads_have_two_versions_of_one_package(place: Any, stocked: Any) -> None:
    place.write("f.py", VERSION)
    for version in ("1.0", "2.0"):
        more = f"requirements: [shoalfish=={version}]\n"
        rows = place.run(place.sweep(f"v{version}", GRID, "function: f:main", more))
        assert {row["version"] for row in rows} == {version}


@pytest.mark.long
def test_a_requirements_file_is_read_with_what_it_includes(place: Any, wheels: Any) -> None:
    place.write("f.py", VERSION)
    place.write("needs/all.txt", "# everything\n-r fish.txt\n-c limits.txt\nclick  # is there\n")
    place.write("needs/fish.txt", "shoalfish \\\n  >=1.0\n")
    place.write("needs/limits.txt", "shoalfish<2\n")
    file = place.sweep("s", GRID, "function: f:main", "requirements: needs/all.txt\n")
    assert {row["version"] for row in place.run(file)} == {"1.0"}
    place.write("needs/limits.txt", "shoalfish>=2\n")
    assert {row["version"] for row in place.run(file)} == {"2.0"}, "the file was changed"


def test_a_package_that_cannot_be_had_is_refused_before_anything_is_started(place: Any, wheels: Any) -> None:
    place.write("f.py", VERSION)
    file = place.sweep("s", GRID, "function: f:main", "requirements: [shoalfish==7]\n")
    done = place.shoal("run", file, "--json", code=2)
    said = json.loads(done.stdout)
    assert "No matching distribution found for shoalfish==7" in said["error"]
    assert "Nothing was started" in said["hint"]
    assert place.runs() == []
    assert wheels.environments() == []


@pytest.mark.long
def test_a_resume_finds_the_packages_again(place: Any, wheels: Any) -> None:
    import shutil

    place.write("f.py", VERSION)
    file = place.sweep("s", GRID, "function: f:main", "requirements: [shoalfish==2.0]\n")
    place.write("f.py", VERSION.replace("return", "if x == 3: raise ValueError\n    return"))
    place.shoal("run", file, code=1)
    place.write("f.py", VERSION)
    shutil.rmtree(wheels.cache)
    rows = place.run("s", "--failed", command="resume")
    assert [row["version"] for row in rows] == ["2.0"] * 4


def test_ctrl_c_during_an_install_leaves_no_run_and_nothing_that_looks_complete(
    place: Any, wheels: Any
) -> None:
    place.write("f.py", VERSION)
    place.write(
        "hook/sitecustomize.py",
        """
        import sys, time
        if 'pip' in sys.orig_argv:
            open("reached", "w").close()
            time.sleep(600)
        """,
    )
    place.environment["PYTHONPATH"] = str(place.folder / "hook")
    file = place.sweep("s", GRID, "function: f:main", "requirements: [shoalfish==2.0]\n")
    going = place.start("run", file)
    place.until((place.folder / "reached").exists, going)
    going.send_signal(signal.SIGINT)
    place.end(going, code=3)
    assert place.runs() == []
    assert wheels.environments() == []
    place.until(lambda: not place.alive())


# Packages that nobody asked for.


@pytest.mark.parametrize("command", ["run", "check"])
@pytest.mark.parametrize(
    ("files", "run", "words"),
    [
        ({"f.py": VERSION}, "function: f:main", "f.py:2: there is no module 'shoalfish'"),
        ({"f.py": "import shoalfish\n"}, "python f.py", "f.py:1: there is no module 'shoalfish'"),
        (
            {
                "f.py": "import os, other\ndef main(x): ...\n",
                "other.py": '"""."""\nfrom shoalfish.x import y\n',
            },
            "function: f:main",
            "other.py:2: there is no module 'shoalfish'",
        ),
        (
            {"p/f.py": "from . import other\ndef main(x): ...\n", "p/other.py": "import shoalfish\n"},
            "function: p.f:main",
            "p/other.py:1: there is no module 'shoalfish'",
        ),
        ({"src/f.py": "import other, shoalfish\n", "src/other.py": ""}, "python src/f.py", "f.py:1"),
    ],
    ids=["function", "script", "other", "package", "folder"],
)
def test_a_missing_package_is_refused_before_the_start(
    place: Any, command: str, files: dict[str, str], run: str, words: str
) -> None:
    for name, text in files.items():
        place.write(name, text)
    error = place.refused(command, place.sweep("s", GRID, run))
    assert words in error
    assert "requirements: [shoalfish]" in error


@pytest.mark.long
def test_a_package_that_requirements_do_not_bring_is_refused_before_the_start(
    place: Any, wheels: Any
) -> None:
    place.write("f.py", "import shoalfish\ndef main(x): ...\n")
    file = place.sweep("s", GRID, "function: f:main", "requirements: [shoalfin]\n")
    assert "nothing wrong" in place.shoal("check", file, code=0).stdout, "shoalfin might have brought it"
    done = place.shoal("run", file, code=2)
    assert "f.py:1: there is no module 'shoalfish'" in done.stderr
    assert "Add the package that has it to requirements:" in done.stderr
    assert place.runs() == []
    assert "no module 'shoalfish'" in place.refused("check", file)


def test_a_function_of_a_package_that_is_installed_for_the_run(place: Any, stocked: Any) -> None:
    file = place.sweep(
        "s", "{grid: {x: [1]}}", "function: shoalfish:main", "requirements: [shoalfish==2.0]\n"
    )
    rows = place.run(file, code=1)
    assert "main() got an unexpected keyword argument 'x'" in rows[0]["error"]
    wrong = place.sweep(
        "w", "{grid: {x: [1]}}", "function: shoalfisch:main", "requirements: [shoalfish==2.0]\n"
    )
    assert "there is no module 'shoalfisch'" in place.shoal("run", wrong, code=2).stderr


def test_a_package_that_is_missed_only_when_workers_start_ends_the_run_before_any_trial(place: Any) -> None:
    place.write("f.py", "if len('certain'): import shoalfish\ndef main(x): ...\n")
    file = place.sweep("s", GRID, "function: f:main")
    done = place.shoal("run", file, code=2)
    assert "No module named 'shoalfish'" in done.stderr
    assert "no item was tried" in done.stderr
    assert "requirements:" in done.stderr
    assert set(place.states().values()) <= {"waiting"}
    place.write("f.py", "def main(x): ...\n")
    place.run("s", command="resume")


@pytest.mark.parametrize(
    "text",
    [
        "import sys\nsys.path.insert(0, 'lib')\nimport local\n",
        "import sys\nfor each in ['lib']:\n    sys.path.append(each)\nimport local\n",
        "import paths\nimport local\n",
        "try:\n    import shoalfish\nexcept ImportError:\n    shoalfish = None\n",
        "import typing\nif typing.TYPE_CHECKING:\n    import shoalfish\n",
        "def later():\n    import shoalfish\n",
        "import importlib\nif False:\n    import shoalfish\n",
        "import lib.local\nimport numpy.linalg, yaml\n",
    ],
    ids=["inserted", "loop", "elsewhere", "optional", "types", "later", "never", "found"],
)
def test_imports_that_are_not_certain_to_fail_are_left_alone(place: Any, text: str) -> None:
    place.write("lib/local.py", "")
    place.write("paths.py", "import sys\nsys.path.append('lib')\n")
    place.write("f.py", text + "def main(x): ...\n")
    place.run(place.sweep("s", "{grid: {x: [1]}}", "function: f:main"))
    place.run(place.sweep("t", "{grid: {x: [1]}}", "python f.py"))

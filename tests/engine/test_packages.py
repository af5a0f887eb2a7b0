"""The packages of a workload: installed once, whoever asks and however it is interrupted."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from shoal.engine.workers import packages
from shoal.errors import SpecError
from shoal.model.node import Packages

ENSURE = """
import json, sys
from shoal.engine.workers import packages
from shoal.model.node import Packages
print(packages.ensure(Packages(tuple(json.loads(sys.argv[1])))).python)
"""


def asks(*requirements: str) -> subprocess.Popen[str]:
    """Another process that asks for packages."""
    import json

    return subprocess.Popen(
        [sys.executable, "-c", ENSURE, json.dumps(requirements)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def said(python: str, code: str) -> str:
    done = subprocess.run([python, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_an_environment_has_the_packages_and_all_that_is_beside_shoal(stocked: Any) -> None:
    found = packages.ensure(Packages(("shoalfish==2.0",)))
    code = (
        "import shoalfish, shoalfin, shoal, click; print(shoalfish.version, shoalfin.version, click.__file__)"
    )
    fish, fin, click = said(found.python, code).split(" ", 2)
    assert (fish, fin) == ("2.0", "0.5")
    assert click.startswith(sys.prefix)
    assert found.folder in packages.environments()


def test_what_is_asked_for_wins_over_what_is_beside_shoal(wheels: Any) -> None:
    import click

    wheels.make("click", "0.0.1")
    found = packages.ensure(Packages(("click==0.0.1",)))
    assert said(found.python, "import click; print(click.version)") == "0.0.1"
    assert os.path.exists(click.__file__), "the one beside Shoal is untouched"


@pytest.mark.long
@pytest.mark.timeout(90)
def test_an_installer_that_hangs_holds_up_only_who_needs_it_and_they_are_told(
    wheels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = Packages(("shoalfish==1.0",))
    path = f"{packages.find(wanted).folder}.lock"
    os.makedirs(os.path.dirname(path))
    with open(path, "w") as hanging:
        fcntl.flock(hanging, fcntl.LOCK_EX)
        waiting = asks(*wanted.lines)
        assert waiting.stderr is not None
        assert "Another process is installing the same packages" in waiting.stderr.readline()
        with monkeypatch.context() as patched:
            patched.setattr(packages, "WAIT_S", 0.1)
            with pytest.raises(SpecError, match=r"has been installing the same packages for 0\.1 s"):
                packages.ensure(wanted)
        fcntl.flock(hanging, fcntl.LOCK_UN)
        assert waiting.communicate(timeout=60)[0].strip() == packages.find(wanted).python
        fcntl.flock(hanging, fcntl.LOCK_EX)
        monkeypatch.setattr(packages, "WAIT_S", 0.1)
        assert packages.ensure(wanted).complete, "what is finished needs nobody's leave"


def test_what_is_beside_shoal_already_needs_no_environment(wheels: Any) -> None:
    for wanted in (("click>=8", "PyYAML"), ("click; python_version < '3'", "rich[jupyter]>=1; extra == 'x'")):
        found = packages.ensure(Packages(wanted))
        assert (found.missing, found.python) == ([], sys.executable)
    assert not wheels.cache.exists()


@pytest.mark.parametrize(
    "wanted",
    [
        Packages(("click<1",)),
        Packages(("click",), constraints=("click<1",)),
        Packages(("click @ https://example.org/click.whl",)),
        Packages(("nothing-of-that-name",)),
        Packages(("https://example.org/click.whl",)),
    ],
    ids=["version", "constraint", "address", "name", "archive"],
)
def test_what_is_not_quite_there_has_to_be_installed(wanted: Packages) -> None:
    assert packages.find(wanted).missing == list(wanted.lines)


def test_an_extra_is_there_when_all_that_it_adds_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "shoalfan-1.dist-info"
    info.mkdir()
    extras = "Requires-Dist: click; extra == 'a'\nRequires-Dist: nothing-of-that-name; extra == 'b'\n"
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: shoalfan\nVersion: 1\n{extras}")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert packages.find(Packages(("shoalfan[a]",))).missing == []
    assert packages.find(Packages(("shoalfan[a,b]",))).missing == ["shoalfan[a,b]"]


@pytest.mark.long
def test_many_who_ask_at_once_install_once(wheels: Any) -> None:
    asking = [asks("shoalfish==2.0") for _ in range(4)]
    pythons = {process.communicate(timeout=120)[0] for process in asking}
    assert [process.returncode for process in asking] == [0] * 4
    assert len(pythons) == 1
    assert wheels.installs() == 1


@pytest.mark.long
def test_an_environment_is_used_again_and_its_use_can_be_seen(wheels: Any) -> None:
    first = packages.ensure(Packages(("shoalfish", "shoalfin")))
    marker = Path(first.folder, packages.COMPLETE)
    os.utime(marker, (0, 0))
    assert packages.ensure(Packages(("shoalfin", "shoalfish"))) == first._replace(
        missing=["shoalfin", "shoalfish"]
    )
    assert marker.stat().st_mtime > 0
    assert wheels.installs() == 1


def test_other_packages_beside_shoal_make_another_environment(
    wheels: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = packages.find(Packages(("shoalfish",))).folder
    beside = tmp_path / "site-packages"
    (beside / "shoalfin-9.dist-info").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(beside))
    assert packages.find(Packages(("shoalfish",))).folder != before


def test_two_versions_of_one_package_live_side_by_side(stocked: Any) -> None:
    old, new = (packages.ensure(Packages((f"shoalfish=={version}",))) for version in ("1.0", "2.0"))
    code = "import shoalfish; print(shoalfish.version)"
    assert (said(old.python, code), said(new.python, code)) == ("1.0", "2.0")


@pytest.mark.long
def test_constraints_and_options_count(wheels: Any) -> None:
    elsewhere = wheels.folder.parent / "elsewhere"
    wheels.folder.rename(elsewhere)
    wheels.folder.mkdir()
    found = packages.ensure(Packages((f"--find-links {elsewhere}", "shoalfish"), ("shoalfish<2",)))
    assert said(found.python, "import shoalfish; print(shoalfish.version)") == "1.0"


def test_what_cannot_be_had_is_an_error_that_says_why_and_leaves_nothing(wheels: Any) -> None:
    with pytest.raises(SpecError, match=r"No matching distribution found for shoalfish==7") as error:
        packages.ensure(Packages(("shoalfish==7",)))
    log = (error.value.hint or "").rpartition(" ")[2]
    assert "shoalfish==7" in Path(log).read_text()
    assert Path(log).stat().st_mode & 0o077 == 0
    assert not packages.environments()
    assert [path.name for path in Path(packages.cache_folder()).iterdir() if path.is_dir()] == []
    wheels.make("shoalfish", "7")
    assert packages.ensure(Packages(("shoalfish==7",))).complete


def slow_pip(wheels: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make every pip stop in the middle, while a file is there: it has installed, and is not done."""
    gate = folder / "gate"
    gate.touch()
    hook = folder / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(
        "import atexit, os, sys, time\n"
        "def wait():\n"
        f"    open({str(folder / 'reached')!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
        f"    while os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
        "if 'pip' in sys.orig_argv: atexit.register(wait)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(hook))
    return gate


def until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def test_a_killed_install_does_not_look_complete_and_is_done_again(
    wheels: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = slow_pip(wheels, tmp_path, monkeypatch)
    reached = tmp_path / "reached"
    asking = asks("shoalfish==2.0")
    until(reached.exists)
    folder = packages.find(Packages(("shoalfish==2.0",))).folder
    assert list(Path(folder).rglob("shoalfish.py")), "the package is there, but the install has not ended"
    asking.send_signal(signal.SIGKILL)
    asking.communicate()
    pid = int(reached.read_text())
    until(lambda: not Path(f"/proc/{pid}").exists())  # It ends with the one who asked, although it waits.
    assert not packages.environments()
    gate.unlink()
    found = packages.ensure(Packages(("shoalfish==2.0",)))
    assert said(found.python, "import shoalfish; print(shoalfish.version)") == "2.0"
    assert wheels.installs() == 2


@pytest.mark.long
def test_who_waits_for_an_install_that_is_killed_does_it_itself(
    wheels: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = slow_pip(wheels, tmp_path, monkeypatch)
    first = asks("shoalfish==2.0")
    until((tmp_path / "reached").exists)
    second = asks("shoalfish==2.0")
    first.send_signal(signal.SIGKILL)
    first.communicate()
    gate.unlink()
    out, error = second.communicate(timeout=120)
    assert second.returncode == 0, error
    assert said(out.strip(), "import shoalfish; print(shoalfish.version)") == "2.0"


@pytest.mark.long
def test_the_cache_can_be_deleted_at_any_time(wheels: Any) -> None:
    first = packages.ensure(Packages(("shoalfish==1.0",)))
    shutil.rmtree(packages.cache_folder())
    assert not first.complete
    assert packages.ensure(Packages(("shoalfish==1.0",))).complete
    shutil.rmtree(Path(first.folder, "bin"))  # As an `rm -r` that was interrupted leaves it.
    again = packages.ensure(Packages(("shoalfish==1.0",)))
    assert said(again.python, "import shoalfish; print(shoalfish.version)") == "1.0"


@pytest.mark.long
def test_settings_of_pip_that_would_put_packages_elsewhere_do_not_count(
    wheels: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PIP_TARGET", "PIP_PREFIX"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    found = packages.ensure(Packages(("shoalfish==1.0",)))
    assert said(found.python, "import shoalfish; print(shoalfish.version)") == "1.0"


def test_a_cache_that_cannot_be_written_is_an_error_with_a_way_out(
    wheels: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(SpecError, match="cannot be kept in"):
        packages.ensure(Packages(("shoalfish==1.0",)))


@pytest.mark.machine
def test_uv_installs_where_there_is_no_pip(wheels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("uv") is None:
        pytest.skip("uv is not on the PATH")
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels.folder))
    found = packages.ensure(Packages(("shoalfish==2.0",)))
    assert said(found.python, "import shoalfish, shoalfin, shoal; print(shoalfish.version)") == "2.0"
    with pytest.raises(SpecError, match="shoalfish==7"):
        packages.ensure(Packages(("shoalfish==7",)))


def test_neither_pip_nor_uv_is_an_error_that_says_so(wheels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(wheels.folder))
    with pytest.raises(SpecError, match=r"neither pip in .* nor uv on the PATH"):
        packages.ensure(Packages(("shoalfish",)))
    assert not packages.environments()

"""Packages for functions that a program gives, and what `shoal doctor` says of what was installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.cli import main


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, wheels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".shoal").mkdir()  # So that none further up is found.


def test_a_function_sent_by_value_finds_the_packages(wheels: Any) -> None:
    def version(x: int) -> dict[str, Any]:
        import shoalfish

        if x == 2 and not Path("mended").exists():
            raise ValueError
        return {"version": shoalfish.version}

    run = shoal.run(version, [{"x": 1}, {"x": 2}], requirements=["shoalfish==1.0"], display=False)
    assert [row.get("version") for row in run.rows()] == ["1.0", None]
    Path("mended").touch()
    again = shoal.resume(run.id, failed=True, display=False)
    assert [row["version"] for row in again.rows()] == ["1.0", "1.0"]
    assert wheels.installs() == 1


def test_a_package_that_cannot_be_had_is_an_error_of_the_call() -> None:
    with pytest.raises(shoal.SpecError, match="shoalfish==7"):
        shoal.start(lambda x: None, [{"x": 1}], requirements=["shoalfish==7"])
    assert not Path(".shoal/runs").exists()


def test_doctor_says_how_much_was_installed(wheels: Any, capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])
    assert "packages of workloads" not in capsys.readouterr().out
    shoal.run(lambda x: None, [{"x": 1}], requirements=["shoalfish==1.0"], display=False)
    main(["doctor"])
    assert f"in {wheels.cache}/shoal/packages, 1 environment (" in capsys.readouterr().out

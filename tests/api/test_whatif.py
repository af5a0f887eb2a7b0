"""What would be: predictions from the simulation."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.api.runs import plan, run
from shoal.api.whatif import whatif
from shoal.errors import SpecError


@pytest.fixture(autouse=True)
def _workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".shoal").mkdir()  # So that none further up is found.
    (tmp_path / "trial.py").write_text("import time\ndef main(ms):\n    time.sleep(ms / 1000)\n")
    (tmp_path / "sweep.yaml").write_text(
        "kind: sweep\ntrials: {grid: {ms: [20, 40, 60, 80]}, repeat: 6}\nrun: {function: 'trial:main'}\n"
    )


def test_nothing_is_predicted_before_anything_is_known() -> None:
    assert plan("sweep.yaml").predicted_seconds is None
    with pytest.raises(SpecError, match="Nothing is known yet"):
        whatif("sweep.yaml", [1, 2])


@pytest.mark.serial
def test_a_run_teaches_the_next_plan_how_long_it_will_take() -> None:
    seconds = run("sweep.yaml", display=False).wait().seconds
    prediction = plan("sweep.yaml").predicted_seconds
    assert prediction is not None
    assert prediction.low <= seconds <= prediction.high * 1.5


def test_more_nodes_help_until_the_longest_trial_is_all_that_counts() -> None:
    run("sweep.yaml", display=False)
    times = dict(whatif("sweep.yaml", [1, 2, 40]))
    assert times[2].mid == pytest.approx(times[1].mid / 2, rel=0.35)
    assert times[40].mid >= 0.08
    assert times[40].mid < times[2].mid

"""What would be: predictions from the simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.api import workloads
from shoal.api.runs import plan, run
from shoal.api.whatif import whatif
from shoal.errors import SpecError
from shoal.store.profiles import remember
from shoal.work.sweep.trial_rows import content_of

CPUS = 2


@pytest.fixture(autouse=True)
def _workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".shoal").mkdir()  # So that none further up is found.
    (tmp_path / "trial.py").write_text("import time\ndef main(ms):\n    time.sleep(ms / 1000)\n")
    (tmp_path / "sweep.yaml").write_text(
        "kind: sweep\ntrials: {grid: {ms: [20, 40, 60, 80]}, repeat: 6}\nrun: {function: 'trial:main'}\n"
    )
    (tmp_path / "lab.yaml").write_text(
        f"{{kind: cluster, name: lab, provider: local, engine: embedded, nodes: [{{host: a, cpu: {CPUS}}}]}}"
    )


def test_nothing_is_predicted_before_anything_is_known() -> None:
    assert plan("sweep.yaml").predicted_seconds is None
    with pytest.raises(SpecError, match="Nothing is known yet"):
        whatif("sweep.yaml", [1, 2])


def test_a_run_teaches_the_next_plan_how_long_it_will_take() -> None:
    done = run("sweep.yaml", cluster="lab.yaml", display=False)
    prediction = plan("sweep.yaml", cluster="lab.yaml").predicted_seconds
    assert prediction is not None
    trials = [row["seconds"] for row in done.rows()]
    assert sum(trials) / CPUS <= prediction.mid <= done.wait().seconds + max(trials)
    assert prediction.low < prediction.mid < prediction.high


def test_more_nodes_help_until_the_longest_trial_is_all_that_counts() -> None:
    job: Any = workloads.from_file("sweep.yaml").job
    measured = [(content_of(job.columns, row), row[0].value / 1000) for row in job.rows.all()]
    remember(".shoal", job.fingerprint, "machine", measured, now=1.0, startup_s=0.01)
    times = dict(whatif("sweep.yaml", [1, 2, 40], cluster="lab.yaml"))
    assert times[1].mid == pytest.approx(sum(seconds for _, seconds in measured) / CPUS, rel=0.2)
    assert times[2].mid == pytest.approx(times[1].mid / 2, rel=0.2)
    assert times[40].mid == pytest.approx(0.08, rel=0.2)

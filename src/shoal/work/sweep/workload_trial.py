"""What runs in a worker whose trials are runs of another workload: `shoal run`, in a process and a home of its own."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from typing import Any

from shoal import spec as specs
from shoal.engine.workers.process import run_command
from shoal.engine.workers.runner import Failed, Work
from shoal.errors import SpecError
from shoal.work.kind import kind_of
from shoal.work.sweep.inner import OUTPUT, Settings, settings_of
from shoal.work.sweep.trial import cells_of


class WorkloadTrial:
    """Runs the workload with the row's values set. Nothing that one trial learned is known to the next."""

    def __init__(self, workload: str) -> None:
        self._workload = workload

    def run(self, work: Work) -> Mapping[str, Any] | None:
        settings = settings_of(cells_of(work))
        output = os.path.join(work.folder, OUTPUT)
        answer = os.path.join(work.folder, "run.json")
        leases = os.path.join(work.folder, "leases")
        arguments = ["python", "-P", "-m", "shoal", "run", self._workload, "--json", *settings.options()]
        env = {
            "SHOAL_HOME": os.path.join(work.folder, "shoal"),
            "SHOAL_LEASES": os.path.join(
                leases, "leases.json"
            ),  # Its room is this trial's, which is held already.
        }
        try:
            run_command([*arguments, *self._to(output, settings)], work, env=env, stdout=answer)
        except Failed as failed:
            raise Failed(why(_read(answer)) or str(failed)) from None
        finally:
            shutil.rmtree(leases, ignore_errors=True)
        document = _read(answer)
        if document.get("state") != "succeeded":
            raise Failed(why(document) or f"{self._workload} gave no answer that can be read")
        shutil.rmtree(output, ignore_errors=True)
        return metrics_of(document)

    def _to(self, output: str, settings: Settings) -> list[str]:
        """The option that sends the output to the trial's own folder, where the workload has one."""
        try:
            inner = specs.load(self._workload, settings.sets)
        except SpecError as error:
            raise Failed(str(error)) from None
        return [f"--set={each}" for each in kind_of(inner.kind).written_to(inner, output)]


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def why(document: Mapping[str, Any]) -> str | None:
    """Why a run did not succeed, as far as what it printed says."""
    if document.get("error"):
        hint = f" {document['hint']}" if document.get("hint") else ""
        return f"{document['error']}{hint}"
    notes = "; ".join(document.get("notes") or ())
    return f"the run {document['state']}: {notes}" if notes and document.get("state") != "succeeded" else None


def metrics_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """What runs of its kind are compared by, from the run's own summary."""
    kind = str(document.get("kind"))
    return kind_of(kind).measures(document.get(kind) or {}, document["seconds"])

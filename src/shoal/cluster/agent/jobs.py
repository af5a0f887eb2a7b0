"""Handing a run to the cluster: its folder is put on the head, and its driver becomes a Ray job there."""

from __future__ import annotations

import io
import json
import os
import secrets
import shlex
import shutil
import sys
import tarfile
import time
from collections.abc import Mapping
from typing import Any

from shoal import namespaces
from shoal.cluster.agent import looking, there
from shoal.cluster.agent.values import TOKEN_FILE, node_folder
from shoal.errors import ClusterError

PATIENCE_S = 90.0
TOLD_LINES = 12


def receive(key: str, run: str, archive: bytes, cluster: Mapping[str, Any]) -> str:
    """Unpack a workload's folder, and write the cluster file for the driver; the folder."""
    folder = there.workload_folder(key, run)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, mode=0o700)
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        opened.extractall(folder, filter="data")
    with open(cluster_file(key), "w", encoding="utf-8") as file:
        json.dump(cluster, file)  # JSON is YAML.
    return folder


def cluster_file(key: str) -> str:
    return os.path.join(there.data_folder(key), "cluster.yaml")


def submit(request: Mapping[str, Any]) -> str:
    """Start `shoal ARGUMENTS` as a Ray job, and wait until its run has begun; the id of the job.

    What the driver said is the error, when it ended before that.
    """
    dashboard, network = _find_ray(request)
    home = request.get("home") or there.home_folder(request["key"])
    job = _write_job(request, home)
    with namespaces.inside(network):
        from ray.job_submission import JobSubmissionClient

        client = JobSubmissionClient(f"http://{dashboard}")
        name = f"{request['run']}-{secrets.token_hex(3)}"
        record = os.path.join(home, "runs", request["run"], "run.db")
        before = _stamp(record)
        client.submit_job(
            entrypoint=shlex.join([sys.executable, "-m", "shoal.cluster.agent.there", "job", job]),
            submission_id=name,
        )
        _wait_until_begun(client, name, record, before)
    return name


def _find_ray(request: Mapping[str, Any]) -> tuple[str, str | None]:
    """Where Ray takes jobs on this host, and the namespace that it is in. In a container it is where it was told."""
    if "dashboard" in request:
        return request["dashboard"], None
    facts = looking.node_facts(node_folder(request["cluster"], request["host"]))
    if facts is None or facts.dashboard is None:
        raise ClusterError("The head is not up.", hint="shoal cluster up FILE")
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN_PATH"] = os.path.join(facts.folder, TOKEN_FILE)
    return facts.dashboard, facts.network


def _write_job(request: Mapping[str, Any], home: str) -> str:
    """In a file that only its owner can read: variables may be secrets."""
    folder = os.path.join(there.data_folder(request["key"]), "jobs")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, f"{request['run']}.json")
    job = {name: request.get(name) for name in ("arguments", "folder", "environment")} | {"home": home}
    with open(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
        json.dump(job, file)
    return path


def _wait_until_begun(client: Any, name: str, record: str, before: float) -> None:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        status = client.get_job_status(name)
        if _stamp(record) != before or str(status) == "SUCCEEDED":
            return
        if status.is_terminal():
            raise ClusterError(_last_words(client.get_job_logs(name)))
        time.sleep(0.1)
    raise ClusterError(
        f"The driver did not begin within {PATIENCE_S:g} s: {_last_words(client.get_job_logs(name))}"
    )


def _stamp(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _last_words(log: str) -> str:
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    errors = [number for number, line in enumerate(lines) if line.startswith("Error:")]
    told = lines[errors[-1] :] if errors else lines[-TOLD_LINES:]
    return "\n".join(told).removeprefix("Error: ") or "its driver ended and said nothing"

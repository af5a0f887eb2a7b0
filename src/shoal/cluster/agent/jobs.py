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
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from shoal import namespaces
from shoal.cluster.agent import host_facts, there
from shoal.cluster.agent.requests import TOKEN_FILE, node_folder
from shoal.errors import ClusterError
from shoal.files import make_private, write_secret

PATIENCE_S = 90.0
TOLD_LINES = 12


def receive(key: str, run: str, archive: bytes, cluster: Mapping[str, Any], *, new: bool = False) -> str:
    """Unpack a workload's folder, and write the cluster file for the driver; the folder.

    In place of what was there of that run; a `new` one must not be there already, under an id that came up twice.
    """
    folder = there.workload_folder(key, run)
    if new and (os.path.lexists(folder) or os.path.lexists(there.run_folder(key, run))):
        raise ClusterError(
            f"There is another run {run} on the head already.", hint="Try again: it gets another id."
        )
    aside = f"{folder}.{secrets.token_hex(3)}.part"
    try:
        make_private(there.data_folder(key))
        os.makedirs(aside, mode=0o700)
        with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
            opened.extractall(aside, filter="data")
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(aside, folder)
    except tarfile.TarError as error:
        raise ClusterError(f"The workload's folder cannot be unpacked on the head: {error}.") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    with open(cluster_file(key), "w", encoding="utf-8") as file:
        json.dump(cluster, file)  # JSON is YAML.
    return folder


def cluster_file(key: str) -> str:
    return os.path.join(there.data_folder(key), "cluster.yaml")


def submit(request: Mapping[str, Any]) -> str:
    """Start `shoal ARGUMENTS` as a Ray job, and wait until its run has begun: `running`.

    `queued` when the driver is at work and still has no run after a while: it may have packages to install. What the
    driver said is the error, when it ended before that. After an error there is no job.
    """
    dashboard, network = _find_ray(request)
    home = request.get("home") or there.home_folder(request["key"])
    job = _write_job(request, home)
    with namespaces.inside(network):
        from ray.job_submission import JobSubmissionClient

        try:
            client = JobSubmissionClient(f"http://{dashboard}")
        except (RuntimeError, OSError) as error:
            raise ClusterError(f"Ray takes no jobs on the head: {error}") from error
        name = f"{request['run']}-{secrets.token_hex(3)}"
        answer = there.answer_file(job)
        with suppress(FileNotFoundError):
            os.unlink(answer)
        client.submit_job(
            entrypoint=shlex.join([sys.executable, "-m", "shoal.cluster.agent.there", "job", job]),
            submission_id=name,
        )
        return wait_until_begun(client, name, lambda: _answer(answer))


def _find_ray(request: Mapping[str, Any]) -> tuple[str, str | None]:
    """Where Ray takes jobs on this host, and the namespace that it is in. In a container it is where it was told."""
    if "dashboard" in request:
        return request["dashboard"], None
    facts = host_facts.node_facts(node_folder(request["cluster"], request["host"]))
    if facts is None or facts.dashboard is None:
        raise ClusterError("The head is not up.", hint="shoal cluster up FILE")
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN_PATH"] = os.path.join(facts.folder, TOKEN_FILE)
    return facts.dashboard, facts.network


def _write_job(request: Mapping[str, Any], home: str) -> str:
    """In a file that only its owner can read: variables may be secrets."""
    path = there.job_file(request["key"], request["run"])
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    job = {name: request.get(name) for name in ("arguments", "folder", "environment")} | {"home": home}
    write_secret(path, json.dumps(job))
    return path


def _answer(path: str) -> Mapping[str, Any]:
    """What the driver answered; nothing as long as it did not."""
    try:
        with open(path, encoding="utf-8") as file:
            answer: Mapping[str, Any] = json.load(file)
            return answer
    except FileNotFoundError:
        return {}


def wait_until_begun(
    client: Any, name: str, ask: Callable[[], Mapping[str, Any]], patience_s: float = PATIENCE_S
) -> str:
    """What `submit` promises, of a job that was submitted; `ask` gives what its driver answered."""
    until = time.monotonic() + patience_s
    while True:
        status = client.get_job_status(name)
        answer = ask()
        if "ok" in answer or str(status) == "SUCCEEDED":
            return "running"
        if status.is_terminal() and "error" in answer:
            raise ClusterError(answer["error"], hint=answer["hint"])
        if status.is_terminal():
            raise ClusterError(_last_words(client.get_job_logs(name)))
        if time.monotonic() >= until:
            break
        time.sleep(0.1)
    if str(status) == "RUNNING":
        return "queued"
    words = _last_words(client.get_job_logs(name))
    with suppress(RuntimeError):  # That it has ended meanwhile is as good.
        client.stop_job(name)
    raise ClusterError(f"The driver did not begin within {patience_s:g} s, and was stopped: {words}")


def _last_words(log: str) -> str:
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    return "\n".join(lines[-TOLD_LINES:]) or "its driver ended and said nothing"

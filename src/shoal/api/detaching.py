"""Runs that are handed to a cluster, and looking at them from here: what is asked of them is asked on their head."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Sequence

from shoal.api import workloads
from shoal.api.clustered import provider_for
from shoal.api.clusters import is_virtual, load
from shoal.api.machines import machines
from shoal.cluster.base import Provider, Tell
from shoal.cluster.detached import Detached
from shoal.cluster.here import Here
from shoal.cluster.local import environment_of_items
from shoal.errors import ClusterError, NotFound, SpecError
from shoal.store import RunSummary, find_home, make_home
from shoal.store import stubs as kept
from shoal.store.stubs import Stub

THERE = ("python", "-m", "shoal.cluster.agent.there")
ENDED = ("succeeded", "failed", "stopped")
ANSWER_S = 20.0


def detach(file: str, cluster: str, sets: Sequence[str], limit: int | None, tell: Tell) -> str:
    """Hand a workload to a cluster; the id of the run, once it has begun there. It needs nobody here any more."""
    prepared = workloads.from_file(file, sets, limit)
    where = machines(cluster)
    where.ensure_room(prepared.job.need)
    where.ensure_shippable(prepared.job.factory.folder)
    provider = _provider(cluster)
    here = Here()
    home = find_home(here.folder, here.environment)
    make_home(home)
    run = f"{prepared.spec.name}-{here.token(4)}"
    options = [*(f"--set={text}" for text in sets), *([f"--limit={limit}"] if limit else []), f"--id={run}"]
    provider.up(tell, _head(cluster))
    detached = provider.detached()
    if detached.is_here:
        arguments = ["run", os.path.abspath(file), f"--cluster={os.path.abspath(cluster)}", *options]
        detached.submit(run, arguments, folder=here.folder, home=home, environment=environment_of_items())
    else:
        _submit_away(detached, file, run, options, prepared.spec.folder)
        spec, files = prepared.spec, (os.path.abspath(cluster), os.path.abspath(file))
        kept.keep(home, Stub(run, spec.kind, spec.name, *files, here.now(), state="running"))
    provider.up(tell)
    return run


def _submit_away(detached: Detached, file: str, run: str, options: Sequence[str], folder: str) -> None:
    there = detached.ship(run, _packed(folder))
    arguments = ["run", os.path.relpath(file, folder), "--cluster=../../cluster.yaml", *options]
    detached.submit(run, arguments, folder=there)


def _packed(folder: str) -> bytes:
    from shoal.engine.ray import shipping

    return shipping.pack(folder).data


def resume(run: str, options: Sequence[str], tell: Tell) -> int | None:
    """Go on with a detached run, on its cluster; with the workload's folder as it is here now.

    One that has succeeded is gone on with in this terminal, as most likely there is only its summary to print: the
    exit code then.
    """
    stub = _stub(run)
    provider = _provider(stub.cluster)
    provider.up(tell)
    detached = provider.detached()
    there = detached.ship(run, _packed(os.path.dirname(stub.workload)))
    arguments = ["resume", run, f"--cluster={there}/../../cluster.yaml", *options]
    if "--failed" not in options and _ask_states(stub.cluster).get(run, ("",))[0] == "succeeded":
        return attach(arguments, run)
    detached.submit(run, arguments, folder=there)
    kept.keep(_home(), stub._replace(state="running"))  # What is thought to have ended is not asked about.
    return None


def attach(arguments: Sequence[str], run: str) -> int:
    """Give a command about a detached run to its head; what it says is said here. Its exit code."""
    provider = _provider(_stub(run).cluster)
    return provider.door().attach([*THERE, "shoal", provider.detached().key, *arguments])


def follow(run: str) -> int:
    """Say what a detached run's trials say, until it has ended, and then what came of it. Its exit code."""
    attach(["logs", run, "--follow"], run)
    attach(["results", run], run)
    state = _ask_states(_stub(run).cluster).get(run, ("",))[0]
    return {"succeeded": 0, "stopped": 3}.get(state, 1)


def must_be_detached(cluster: str) -> bool:
    """Whether work can be driven only from inside: containers cannot reach this machine."""
    provider = load(cluster).provider
    return provider in ("kubernetes", "swarm") and not Here().environment.get("SHOAL_CLUSTER")


def get(run: str, item: str | None, to: str | None) -> str:
    """Bring what a detached run, or one of its items, left in SHOAL_ITEM_DIR; the folder it was put in."""
    target = os.path.join(Here().folder, to or (f"{run}-{item}" if item else run))
    if os.path.lexists(target):
        raise SpecError(f"{target} exists already.", hint="Name another folder with --to.")
    provider = _provider(_stub(run).cluster)
    done = provider.door().run([*THERE, "tar", provider.detached().key, run, *([item] if item else [])])
    if done.code != 0:
        raise NotFound(f"{item or f'No item of {run}'} left {'no ' if item else ''}files.")
    with tarfile.open(fileobj=io.BytesIO(done.output)) as archive:
        archive.extractall(target, filter="data")
    return target


def remove(run: str) -> str:
    """Delete a detached run where it is, and what is known of it here."""
    stub = _stub(run)
    provider = _provider(stub.cluster)
    detached = provider.detached()
    done = provider.door().run([*THERE, "shoal", detached.key, "rm", run])
    if done.code != 0 and b"There is no run" not in done.errors:
        raise ClusterError(done.errors.decode("utf-8", "replace").strip())
    detached.forget(run)
    kept.forget(_home(), run)
    return run


def runs() -> list[RunSummary]:
    """The detached runs, with the state that is true now where their heads can be reached, else the last known."""
    home = _home()
    found = kept.stubs(home)
    for cluster in {stub.cluster for stub in found if stub.state not in ENDED}:
        states = _ask_states(cluster)
        for stub in [stub for stub in found if stub.cluster == cluster and stub.run in states]:
            state, seconds = states[stub.run]
            found[found.index(stub)] = new = stub._replace(state=state, seconds=seconds)
            kept.keep(home, new)
    return [
        RunSummary(
            stub.run, stub.kind, stub.name, stub.state, stub.created, stub.seconds, f"on {stub.cluster}"
        )
        for stub in found
    ]


def _ask_states(cluster: str) -> dict[str, tuple[str, float]]:
    try:
        provider = _provider(cluster)
        command = [*THERE, "shoal", provider.detached().key, "ls", "--json"]
        done = provider.door().run(command, timeout_s=ANSWER_S)
    except (ClusterError, SpecError):
        return {}
    return {each["run"]: (each["state"], each["seconds"]) for each in json.loads(done.output or b"[]")}


def _provider(cluster: str) -> Provider:
    found = load(cluster)
    if is_virtual(found):
        raise SpecError(
            f"{found.name} has only virtual nodes, which cannot outlive this terminal.",
            hint="Start the run in tmux; or leave out engine: embedded, and install shoal[ray].",
        )
    return provider_for(found, os.path.abspath(cluster))


def _head(cluster: str) -> list[str]:
    head = load(cluster).head
    return [head.host] if head is not None else []


def _stub(run: str) -> Stub:
    stub = kept.find(_home(), run)
    if stub is None:
        raise NotFound(f"Nothing is known of a detached run {run!r}.")
    return stub


def _home() -> str:
    here = Here()
    return find_home(here.folder, here.environment)

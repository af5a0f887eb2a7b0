"""Runs that are handed to a cluster, and looking at them from here: what is asked of them is asked on their head."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shoal.api import workloads
from shoal.api.clusters.cluster_machines import provider_for
from shoal.api.clusters.lifecycle import load
from shoal.api.machines import machines
from shoal.cluster.base import Provider, Tell
from shoal.cluster.head_requests import Detached, HeadRun
from shoal.cluster.local import environment_of_items
from shoal.cluster.this_machine import Here
from shoal.cluster.virtual import is_virtual
from shoal.errors import AgentRefused, ClusterError, FileError, NotFound, RunLocked, SpecError
from shoal.model import RunState
from shoal.store import RunSummary, ensure_own, find_home, home_for_new_runs, make_home
from shoal.store import home as kept
from shoal.store.home import Stub

BEGIN_S = 3600.0


class Handed(NamedTuple):
    """A run that was handed to a cluster, and needs nobody here any more."""

    run: str
    state: str
    """`running`, or `queued` while what it needs first is made ready there."""


def detach(file: str, cluster: str, sets: Sequence[str], limit: int | None, tell: Tell) -> Handed:
    """Hand a workload to a cluster. Returns once it has begun there, or is sure to."""
    prepared = workloads.from_file(file, sets, limit)
    where = machines(cluster)
    where.ensure_room(prepared.job.asks())
    where.ensure_shippable(prepared.job.folder)
    provider = _provider(cluster)
    here = Here()
    home = home_for_new_runs(here.folder, here.environment)
    make_home(home)
    run = f"{prepared.spec.name}-{here.token(4)}"
    options = [*(f"--set={text}" for text in sets), *([f"--limit={limit}"] if limit else []), f"--id={run}"]
    found = load(cluster)
    if found.storage is None and not provider.is_here:
        tell(f"{found.name} has no storage:, so the run is kept on its head alone, and is lost if that is.")
    provider.up(tell, _head(cluster))
    detached = provider.detached()
    if detached.is_here:
        arguments = ["run", os.path.abspath(file), f"--cluster={os.path.abspath(cluster)}", *options]
        how = {"folder": here.folder, "home": home, "environment": environment_of_items()}
        state = detached.submit(run, arguments, **how)
    else:
        spec, files = prepared.spec, (os.path.abspath(cluster), os.path.abspath(file))
        there = detached.ship(run, _packed(spec.folder), new=True)
        arguments = ["run", os.path.relpath(file, spec.folder), "--cluster=../../cluster.yaml", *options]
        state = _submit(detached, Stub(run, spec.kind, spec.name, *files, here.now()), arguments, there)
    provider.up(tell)
    return Handed(run, state)


def _submit(detached: Detached, stub: Stub, arguments: Sequence[str], folder: str) -> str:
    """The state of the run then. It is known here from before it can begin: the answer may never arrive."""
    home = _home()
    before = kept.find(home, stub.run)
    kept.keep(home, stub._replace(state=RunState.QUEUED))
    try:
        state = RunState(detached.submit(stub.run, arguments, folder=folder))
    except AgentRefused:
        if before is None:
            kept.forget(home, stub.run)
        else:
            kept.keep(home, before)
        raise
    except ClusterError as error:
        hint = f"It may have begun all the same: shoal show {stub.run}"
        raise ClusterError(f"{stub.run} was handed over, and then: {error}", hint=hint) from error
    kept.keep(home, stub._replace(state=state))
    return state


def _packed(folder: str) -> bytes:
    from shoal.engine.ray import shipment

    return shipment.pack(folder).data


def resume(run: str, tell: Tell, *, failed: bool, take_over: bool, as_json: bool) -> str | int:
    """Go on with a detached run, on its cluster; with the workload's folder as it is here now. Its state then.

    One that has succeeded is gone on with in this terminal, as most likely there is only its summary to print: the
    exit code then. One that is going is left alone, and its folder with it.
    """
    stub = _stub(run)
    provider = _provider(stub.cluster)
    found = _ask_states(stub.cluster)
    _refuse_going(run, found)
    provider.up(tell)
    detached = provider.detached()
    if run not in found:
        found = detached.runs()
        _refuse_going(run, found)
    there = detached.ship(run, _packed(os.path.dirname(stub.workload)))
    options = [*(["--failed"] if failed else []), *(["--take-over"] if take_over else [])]
    arguments = ["resume", run, f"--cluster={there}/../../cluster.yaml", *options]
    if not failed and run in found and found[run].state is RunState.SUCCEEDED:
        return detached.attach([*arguments, *(["--json"] if as_json else [])])
    return _submit(detached, stub, arguments, there)


def _refuse_going(run: str, found: Mapping[str, HeadRun]) -> None:
    """Only while its head says so: one that the head does not know is gone, whatever was last heard of it."""
    if run in found and found[run].state.is_active:
        raise RunLocked(
            f"Run {run} is {found[run].state} on its cluster.",
            hint=f"Look at it: shoal logs {run} -f. End it: shoal stop {run}. Forget it: shoal rm {run}.",
        )


def attach(run: str, arguments: Sequence[str]) -> int:
    """Give a command about a detached run to its head; what it says is said here. Its exit code."""
    return _detached(run).attach(arguments)


def follow(run: str, as_json: bool) -> int:
    """Say what a detached run's trials say, on stderr, until it has ended; then print what `run` prints at its end.

    The exit code of the run.
    """
    detached = _detached(run)
    _wait_until_known(run, detached)
    detached.attach(["logs", run, "--follow"], aside=True)
    return detached.attach(["show", run, "--summary", *(["--json"] if as_json else [])])


def _wait_until_known(run: str, detached: Detached) -> None:
    """Its driver may have to install packages first."""
    here = Here()
    until = here.now() + BEGIN_S
    while detached.runs().get(run, HeadRun()).state is RunState.QUEUED:
        if here.now() > until:
            raise ClusterError(
                f"{run} did not begin within {BEGIN_S:g} s.", hint=f"Look with: shoal show {run}"
            )
        here.pause(1.0)


def must_be_detached(cluster: str) -> bool:
    """Whether work can be driven only from inside: containers cannot reach this machine."""
    found = load(cluster)
    if is_virtual(found) or Here().environment.get("SHOAL_CLUSTER"):
        return False
    return provider_for(found, os.path.abspath(cluster)).driven_from_inside


def get(run: str, item: str | None, to: str | None) -> str:
    """Bring what a detached run, or one of its items, left in SHOAL_ITEM_DIR; the folder it was put in."""
    target = os.path.join(Here().folder, to or (f"{run}-{item}" if item else run))
    if os.path.lexists(target):
        raise SpecError(f"{target} exists already.", hint="Name another folder with --to.")
    try:
        archive = _detached(run).files(run, item)
    except ClusterError as error:
        raise ClusterError(f"The files could not be fetched: {error}", hint=error.hint) from error
    if archive is None:
        raise NotFound(
            f"{item or f'No item of {run}'} left {'no ' if item else ''}files.",
            hint=f"Where a run put its output is `results` of: shoal show {run} --json",
        )
    _unpack(archive, target)
    return target


def report(run: str) -> str:
    """Have the report of a detached run written where it is, and bring a copy of it; the path of the copy."""
    try:
        page = _detached(run).report(run)
    except ClusterError as error:
        raise ClusterError(f"The report could not be fetched: {error}", hint=error.hint) from error
    try:
        return kept.keep_report(_home(), run, page.encode())
    except OSError as error:
        raise FileError(f"{error.filename} cannot be written: {error.strerror or error}.") from error


def _unpack(archive: bytes, target: str) -> None:
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
            opened.extractall(target, filter=_within)
    except OSError as error:
        shutil.rmtree(target, ignore_errors=True)
        raise FileError(
            f"{error.filename or target} cannot be written: {error.strerror or error}.",
            hint="Name another folder with --to.",
        ) from error


def _within(member: tarfile.TarInfo, target: str) -> tarfile.TarInfo | None:
    """Links that lead elsewhere, and what is no file, are left out."""
    try:
        return tarfile.data_filter(member, target)
    except tarfile.FilterError:
        return None


def remove(run: str, tell: Tell) -> str:
    """Delete a detached run where it is, and what is known of it here; only that, where its head cannot be asked."""
    stub = _stub(run)
    try:
        _provider(stub.cluster).detached().remove(run)
    except AgentRefused:
        raise
    except (ClusterError, SpecError) as error:
        tell(
            f"{run} is forgotten here. What there may be of it on its cluster stays, as that cannot be asked: {error}"
        )
    kept.forget(_home(), run)
    return run


def runs() -> list[RunSummary]:
    """The detached runs, with the state that is true now where their heads can be reached, else the last known."""
    home = _home()
    found = kept.stubs(home)
    for cluster in {stub.cluster for stub in found if not stub.state.has_ended}:
        states = _ask_states(cluster)
        for stub in [stub for stub in found if stub.cluster == cluster and stub.run in states]:
            found[found.index(stub)] = new = stub._replace(**states[stub.run]._asdict())
            kept.keep(home, new)
    return [
        RunSummary(
            stub.run, stub.kind, stub.name, stub.state, stub.created, stub.seconds, f"on {stub.cluster}"
        )
        for stub in found
    ]


def _ask_states(cluster: str) -> dict[str, HeadRun]:
    """As far as they can be known."""
    try:
        return _provider(cluster).detached().runs()
    except (ClusterError, SpecError):
        return {}


def _detached(run: str) -> Detached:
    """The detached runs of the cluster that has this one."""
    return _provider(_stub(run).cluster).detached()


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
    home = find_home(here.folder, here.environment)
    ensure_own(home, here.environment)
    return home

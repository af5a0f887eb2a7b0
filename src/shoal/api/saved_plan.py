"""A saved plan (`shoal plan FILE --json > plan.json`): read back, compared with what is there now, followed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from shoal import spec as specs
from shoal.api import workloads
from shoal.api.machines import Machines
from shoal.api.workloads import Prepared
from shoal.errors import Problem, ShoalError, SpecError, several
from shoal.model import Decision, ItemPlacement, MadeFor, Node, Plan, Prediction
from shoal.model.item import digest
from shoal.spec import Workload

MAKE_ONE = "Make one: shoal plan FILE --json > plan.json"
MAKE_ANEW = "Make the plan anew: shoal plan FILE --json > plan.json. It takes the same --cluster and --set as the run."


def made_for(prepared: Prepared, where: Machines) -> MadeFor:
    """What a plan of this workload on these machines is for. Looks at all inputs."""
    document = prepared.document
    workload = {
        "file": digest(prepared.spec.source),
        "sets": list(document["sets"]),
        "limit": document["limit"],
    }
    try:
        inputs = prepared.job.inputs()
    except ShoalError:  # A plan can be made all the same; what is wrong with them the run will say.
        inputs = None
    return MadeFor(workload, inputs, {node.host: _facts(node) for node in where.nodes})


def _facts(node: Node) -> dict[str, Any]:
    return {
        "cpu": node.cpu,
        "memory_bytes": node.memory_bytes,
        "gpu": node.gpu,
        "labels": dict(node.labels),
    }


def follow(path: str, prepared: Prepared, where: Machines, now: Plan) -> tuple[Prepared, Plan]:
    """The workload bound by a saved plan, and that plan. `now` is what would be planned without it.

    Raises `SpecError` with all that the plan was not made for.
    """
    if prepared.rows is not None:
        raise SpecError("A saved plan goes with a workload file, not with a function.", hint=MAKE_ONE)
    saved = read(path)
    problems = [
        Problem(f"{path}: {each}", MAKE_ANEW) for each in _differences(saved, now, made_for(prepared, where))
    ]
    if problems:
        raise several(problems)
    pins = [
        f"{key}={value}" for key, value in saved.settings.items() if value not in (None, now.settings[key])
    ]
    document = {
        **prepared.document,
        "sets": [*prepared.document["sets"], *pins],
        "ceiling": dict(saved.workers_by_node),
    }
    spec = specs.load(document["path"], document["sets"])
    assert isinstance(spec, Workload)
    spec = spec.replaced(limits=prepared.spec.limits)
    job = workloads.job_of(spec, limit=document["limit"])
    return prepared._replace(spec=spec, job=job, document=document), saved


def ceiling(document: Mapping[str, Any], where: Machines) -> Mapping[str, int] | None:
    """Most workers on each node, by host, as the plan says that a run with this document follows; None where it follows
    none, or goes on in a cluster without the plan's nodes. Raises `SpecError` where they are gone from its own."""
    found: Mapping[str, int] | None = document.get("ceiling")
    hosts = {host for host, most in (found or {}).items() if most}
    if found is None or hosts.intersection(node.host for node in where.nodes):
        return found
    if where.file != document.get("cluster"):
        return None
    only = ", ".join(sorted(hosts))
    raise SpecError(
        f"The plan that this run follows has workers on {only} alone, and there is no such node now.",
        hint="Bring one back, or go on elsewhere, without the plan's workers: shoal resume RUN --cluster FILE",
    )


def _differences(saved: Plan, now: Plan, of_now: MadeFor) -> Iterator[str]:
    """What the plan was made for, and is not so now."""
    assert saved.made_for is not None
    then = saved.made_for
    if (saved.kind, saved.name) != (now.kind, now.name):
        yield f"it is a plan of {saved.kind} {saved.name}, and this is {now.kind} {now.name}."
        return
    if then.workload.get("file") != of_now.workload["file"]:
        yield "the workload file has changed since."
    for key, option in (("sets", "--set"), ("limit", "--limit")):
        before, given = then.workload.get(key) or None, of_now.workload[key] or None
        if before != given:
            yield f"it was made with {_given(option, before)}, and this run has {_given(option, given)}."
    if then.inputs != of_now.inputs:
        yield "the inputs have changed since."
    for host in sorted(then.nodes.keys() | of_now.nodes.keys()):
        yield from _of_node(host, then.nodes.get(host), of_now.nodes.get(host))
    for key in saved.settings.keys() - now.settings.keys():
        yield f"settings: {key!r} is none of {now.kind}'s: {', '.join(now.settings) or 'it has none'}."
    for host in saved.workers_by_node.keys() - of_now.nodes.keys():
        yield f"workers_by_node: there is no node {host}."


def _given(option: str, value: object) -> str:
    if not value:
        return f"no {option}"
    values = value if isinstance(value, list) else [value]
    return " ".join(f"{option} {each}" for each in values)


def _of_node(host: str, then: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> Iterator[str]:
    if then is None:
        yield f"the node {host} is new."
    elif now is None:
        yield f"the node {host} is gone."
    else:
        for key, value in now.items():
            if then.get(key) != value:
                yield f"the node {host} had {key} {_shown(then.get(key))}, and has {_shown(value)} now."


def _shown(value: object) -> str:
    return f"{value:.15g}" if isinstance(value, int | float) else str(value)


def read(path: str) -> Plan:
    """The plan in a file; raises `SpecError` where there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror or error}.", hint=MAKE_ONE) from error
    except ValueError as error:
        raise SpecError(f"{path} is no JSON: {error}.", hint=MAKE_ONE) from error
    try:
        return _plan(document)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        why = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise SpecError(
            f"{os.path.basename(path)} is no plan that can be followed: {why}.", hint=MAKE_ONE
        ) from error


def _plan(document: Mapping[str, Any]) -> Plan:
    by_node = _counts(document["workers_by_node"])
    if document["made_for"] is None:
        raise ValueError("it does not tell what it was made for, as that of a run does not")
    prediction = document["predicted_seconds"]
    return Plan(
        document["kind"],
        document["name"],
        document["items"],
        min(document["workers"], sum(by_node.values())),
        Prediction(**prediction) if prediction else None,
        tuple(Decision(**each) for each in document["decisions"]),
        tuple(ItemPlacement(**each) for each in document["placements"]),
        by_node,
        dict(document["settings"]),
        MadeFor(**document["made_for"]),
    )


def _counts(by_node: Mapping[str, Any]) -> dict[str, int]:
    """Workers by host, at least one in all."""
    for host, count in by_node.items():
        if type(count) is not int or count < 0:
            raise ValueError(f"workers_by_node: {host}: expected a whole number, found {count!r}")
    if not sum(by_node.values()):
        raise ValueError("workers_by_node: there is no worker on any node")
    return dict(by_node)

"""`python -m shoal.cluster.agent`: reads one request as JSON from stdin, does it, prints one answer as JSON.

What is asked comes on stdin and not as arguments, because a token is in it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from shoal.cluster.agent import host_facts, jobs, notebook, ray_node, there
from shoal.cluster.agent.requests import ANSWER, NodeRequest, node_folder, unknown_task
from shoal.cluster.agent.round_trips import latency
from shoal.errors import ClusterError, ShoalError


def _receive(request: Mapping[str, Any]) -> Any:
    new = request.get("new", False)  # Not said by an older Shoal.
    return jobs.receive(
        request["key"], request["run"], sys.stdin.buffer.read(), request["as_cluster"], new=new
    )


def _notebook(request: Mapping[str, Any]) -> Any:
    if "dashboard" in request:  # A container, whose Ray somebody else started.
        return notebook.start(there.data_folder(request["key"]))._asdict()
    facts = host_facts.node_facts(node_folder(request["cluster"], request["host"]))
    if facts is None:
        raise ClusterError("The head is not up.", hint="shoal cluster up FILE")
    return notebook.start(facts.folder)._asdict()


def _probe(request: Mapping[str, Any]) -> Any:
    return host_facts.host_facts()._asdict()


def _start(request: Mapping[str, Any]) -> Any:
    return ray_node.start(NodeRequest(**request))._asdict()


def _look(request: Mapping[str, Any]) -> Any:
    folder = node_folder(request["cluster"], request["host"])
    facts = host_facts.node_facts(folder)
    return None if facts is None else {**facts._asdict(), "let_go": host_facts.let_go(folder)}


def _stop(request: Mapping[str, Any]) -> Any:
    there = ray_node.stop(request["cluster"], request["host"])
    ray_node.tidy(request["cluster"])
    return there


def _hold(request: Mapping[str, Any]) -> Any:
    """Start a node that lives as long as whoever holds the other end of stdin."""
    facts = ray_node.start(NodeRequest(**request))
    _answer({"ok": facts._asdict()})
    while sys.stdin.buffer.read(1 << 16):
        pass
    return _stop(request)


def _by_name(do: Callable[..., Any]) -> Callable[[Mapping[str, Any]], Any]:
    return lambda request: do(**request)


TASKS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "probe": _probe,
    "latency": _by_name(latency),
    "start": _start,
    "look": _look,
    "stop": _stop,
    "hold": _hold,
    "receive": _receive,
    "submit": jobs.submit,
    "runs": _by_name(there.runs),
    "files": _by_name(there.files),
    "report": _by_name(there.report),
    "remove": _by_name(there.remove),
    "notebook": _notebook,
}


def _answer(answer: Mapping[str, Any]) -> None:
    try:
        print(ANSWER + json.dumps(answer), flush=True)  # noqa: T201 - this is how it talks
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def main() -> int:
    """One request, one answer."""
    line = sys.stdin.buffer.readline()
    try:
        request = json.loads(line)
        task = request.pop("do")
        if task not in TASKS:
            raise unknown_task(task)
        answer = {"ok": TASKS[task](request)}
    except ShoalError as error:
        answer = {"error": str(error), "hint": error.hint}
    except OSError as error:
        answer = {"error": f"{error.strerror or error}: {error.filename or 'on the host'}", "hint": None}
    _answer(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())

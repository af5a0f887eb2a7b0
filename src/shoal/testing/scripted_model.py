"""What `shoal.testing.runners:Scripted` would do, as a model for the simulation engine."""

from __future__ import annotations

from pathlib import Path

from shoal.engine.sim import Behaviour, Startup
from shoal.model import Factory, Item


def simulated(factory: Factory, item: Item) -> Behaviour:
    """The behaviour of `Scripted` for this item."""
    params = item.params
    seconds = float(params.get("seconds", 0.0))
    match params.get("do", "sleep"):
        case "sleep":
            return Behaviour(seconds, metrics={"value": params.get("value")})
        case "raise":
            return Behaviour(seconds, "failed", error=f"ValueError: {params.get('message', 'told to fail')}")
        case "exit":
            why = f"The worker left with exit status {params.get('status', 1)}."
            return Behaviour(seconds, crash=True, error=why)
        case "signal":
            why = f"The worker was killed by {params.get('name', 'SIGKILL')}."
            return Behaviour(seconds, crash=True, error=why)
        case "leave":
            return Behaviour(seconds, leaves=True, error="told to leave")
        case "babble":
            return Behaviour(seconds, crash=True, error="what its process said was refused")
        case "blob":
            return Behaviour(seconds, metrics={"value": Path(factory.blob).read_text()})
        case "tell":
            return Behaviour(seconds, facts=params["facts"])
        case "break":
            return Behaviour(seconds, crash=True, error="told to break")
        case "hang":
            return Behaviour(seconds, hang=True)
        case "stubborn":
            return Behaviour(seconds, hang=True, ignores_cancel=True)
        case "report":
            count = params.get("n", 3)
            reports = tuple(
                ((step + 1) / count, {"value": step, "last": step}, step) for step in range(count)
            )
            hang = bool(params.get("hang", False))
            return Behaviour(seconds, metrics={"value": count}, reports=reports, hang=hang)
        case "print":
            return Behaviour(seconds)
        case "env":
            return Behaviour(seconds, metrics={"value": factory.env.get(params["name"])})
        case other:
            return Behaviour(seconds, "failed", error=f"KeyError: {other!r}")


def simulated_start(factory: Factory) -> Startup:
    """How a worker with `Scripted` comes up."""
    failing = factory.arguments.get("fail_start", False)
    error = "RuntimeError: the factory was told to fail" if failing else None
    return Startup(float(factory.arguments.get("start_s", 0.0)), error, factory.arguments.get("facts") or {})

"""How far this host is from probes: several round trips to each, side by side, in bounded time.

Also runs as a task on nodes that have no agent, so it takes and gives plain values only.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shoal.cluster.agent import echo
from shoal.cluster.agent.echo import EchoNotPermittedError, Target
from shoal.model import RoundTrip
from shoal.spec.probe import Probe, parse_probe

SAMPLES = 5
LIMIT_S = 3.0
"""For all samples of one probe, finding the address of its name included."""
ATTEMPT_S = 0.95
"""For one sample. TCP sends a first packet that was lost again after a second: what that takes is no round trip."""
GRACE_S = 0.5

RoundTripS = Callable[[Target, float], float]
Resolve = Callable[[str, int | None], Sequence[Target]]


def latency(probes: Mapping[str, str], samples: int = SAMPLES, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """By location, a `RoundTrip` as a mapping. Takes little more than `limit_s`, whatever happens."""
    found: dict[str, RoundTrip] = {}

    def one(location: str, probe: str) -> None:
        found[location] = measure(probe, samples, limit_s)

    # Daemons: looking up a name cannot be broken off, and must not hold up the end of this process.
    threads = [threading.Thread(target=one, args=each, daemon=True) for each in probes.items()]
    until = time.monotonic() + limit_s + GRACE_S
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    late = f"nothing came of it within {limit_s:g} s: the name cannot be looked up from there"
    return {
        location: found.get(location, RoundTrip(probe, 0, error=late))._asdict()
        for location, probe in probes.items()
    }


def measure(
    text: str,
    samples: int = SAMPLES,
    limit_s: float = LIMIT_S,
    *,
    round_trip_s: RoundTripS = echo.round_trip_s,
    resolve: Resolve = echo.resolve,
    now: Callable[[], float] = time.monotonic,
) -> RoundTrip:
    """Round trips to one probe. The name is resolved before, and that is not counted."""
    until = now() + limit_s
    try:
        probe = parse_probe(text)
        targets = list(resolve(probe.host, probe.port))
    except ValueError as error:
        return RoundTrip(text, 0, error=str(error))
    except OSError as error:
        return RoundTrip(text, 0, error=f"{text} has a name that nobody knows there: {_words(error)}")
    taken: list[float] = []
    problem = ""
    tried, most = 0, samples + len(targets) - 1
    while len(taken) < samples and tried < most and (left_s := until - now()) > 0:
        tried += 1
        try:
            taken.append(round_trip_s(targets[0], min(ATTEMPT_S, left_s)))
        except EchoNotPermittedError:
            return RoundTrip(text, 0, error=_give_a_port(probe))
        except TimeoutError:
            problem = "no answer"
        except OSError as error:
            problem = _words(error)
        if problem and not taken and len(targets) > 1:
            targets.pop(0)  # A name may stand for several addresses, and not all of them be reached.
            problem = ""
    return _summary(text, taken, tried, problem)


def _summary(text: str, taken: Sequence[float], tried: int, problem: str) -> RoundTrip:
    if not taken:
        return RoundTrip(text, 0, error=f"{text}: {problem or 'no answer'}, tried {tried} times")
    failed = f"{problem} in {tried - len(taken)} of {tried} tries" if problem else ""
    return RoundTrip(
        text, len(taken), min(taken), statistics.median(taken), max(taken) - min(taken), error=failed
    )


def _give_a_port(probe: Probe) -> str:
    return f"an echo request may not be sent from there: give the probe a port that is open, such as {probe.host}:22"


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()

"""What a tuner found out, in words and as a document: each decision with the figures behind it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.model import Decision
from shoal.model.advice import Setting, Space
from shoal.planner.tuner.batches import MARGIN
from shoal.planner.tuner.knowledge import Knowledge
from shoal.units import format_number, format_seconds, format_size

VERSION = 1


def chosen(known: Knowledge) -> tuple[Setting, int]:
    """The best setting as far as is known, and how many workers of a node."""
    workers = known.workers()
    return known.fitted(known.chosen, workers), workers


def decisions(known: Knowledge) -> tuple[Decision, ...]:
    setting, workers = chosen(known)
    return (
        Decision("runtime", setting.runtime, _runtime(known, setting)),
        Decision("batch", setting.batch, _batch(known, setting)),
        Decision("threads", setting.threads, _threads(known)),
        Decision("workers", min(workers, known.present or workers), _workers(known, workers)),
        Decision("memory", _memory(known, setting), _why_memory(known, setting, workers)),
    )


def not_worth(benefit_s: float, left_s: float) -> str:
    """Why something was not tried."""
    cost = format_seconds(max(0.0, -benefit_s))
    return f"trying it would cost {cost} more than it may save of {format_seconds(left_s)}"


def _runtime(known: Knowledge, setting: Setting) -> str:
    if len(known.space.runtimes) == 1:
        return (
            "the only one"
            if known.rate() is None
            else f"the only one, {_rate(known.rate_of_worker())} a worker"
        )
    told: list[str] = []
    for name in known.space.runtimes:
        found = known.best_of(name)
        if name in known.unusable:
            told.append(f"{name} cannot be used: {known.unusable[name]}")
        elif name in known.slower:
            told.append(f"{name} is slower: {known.slower[name]}")
        elif found is not None:
            told.append(f"{name} does {_rate(found[1].rate)} a worker with batch {found[0].batch}")
        elif name in known.ratios and name != known.space.runtimes[0]:
            base = known.space.runtimes[0]
            told.append(f"{name} did {known.ratios[name]:.2f} times what {base} did, when it was measured")
        elif name in known.not_tried:
            told.append(f"{name} was not tried: {known.not_tried[name]}")
    if setting.runtime in known.differences:
        told.append(f"the largest difference of its outputs is {known.differences[setting.runtime]:.2g}")
    return "; ".join(told) or _unknown(known)


def _batch(known: Knowledge, setting: Setting) -> str:
    if known.space.batch is not None:
        return "given"
    points = {each.batch: estimate.rate for each, estimate in known.known(setting.runtime).items()}
    if not points:
        return _unknown(known)
    rates = ", ".join(f"{batch}: {format_number(rate)}" for batch, rate in sorted(points.items()))
    bound = known.memory.largest.get(setting.runtime)
    capped = "" if bound is None else f"; memory ran out beyond {bound}"
    return f"inputs/s a worker by batch: {rates}{capped}"


def _threads(known: Knowledge) -> str:
    if known.space.threads is not None:
        return "given"
    return _arrangements(known) or _shared(known)


def _shared(known: Knowledge) -> str:
    cores, workers = known.space.machine.cpu, known.arranger.current.workers
    return f"{cores} core{'' if cores == 1 else 's'} among {workers} worker{'' if workers == 1 else 's'}"


def _arrangements(known: Knowledge) -> str:
    tried = [
        f"{each}: {'not measured' if rate is None else _rate(rate)}"
        for each, rate in sorted(known.arranger.rates.items(), reverse=True)
    ]
    left_out = [f"{each} was not tried: {why}" for each, why in sorted(known.arranger.reasons.items())]
    return "; ".join([f"measured {', '.join(tried)}", *left_out] if tried else left_out)


def _workers(known: Knowledge, workers: int) -> str:
    if known.space.workers is not None and workers < known.space.workers:
        return f"there was not enough memory for the {known.space.workers} that are given"
    if known.space.workers is not None:
        if 0 < known.present < workers:
            return f"{workers} are given; there were never more than {known.present} at once"
        return "given"
    wanted = known.arranger.current.workers
    if workers < wanted:
        return f"memory suffices for {workers} of {wanted}"
    if known.memory.most is not None and workers >= known.memory.most:
        return "there was not enough memory for more"
    points, law = known.scaling(), known.law()
    if law is None or len(points) < 2:
        return _arrangements(known) or _shared(known)
    measured = ", ".join(f"{count}: {format_number(rate)}" for count, rate in sorted(points.items()))
    gain = law.gain(workers)
    return (
        f"inputs/s of a node by workers: {measured}; by the law of scalability (contention {law.contention:.2g}, "
        f"coherence {law.coherence:.2g}) one more would gain {gain:.1%}"
    )


def _memory(known: Knowledge, setting: Setting) -> int | None:
    return known.memory.expected(setting.runtime, setting.batch)


def _why_memory(known: Knowledge, setting: Setting, workers: int) -> str:
    expected = _memory(known, setting)
    if expected is None:
        return "not measured yet"
    machine = known.space.machine
    told = (
        f"{workers} x {format_size(expected)} of {format_size(machine.memory_bytes)}, "
        f"of which {MARGIN:.0%} stay free"
    )
    device = known.memory.expected_on_device(setting.runtime, setting.batch)
    if device is not None and machine.gpu_memory_bytes:
        sharing = -(-workers // max(1, machine.gpu))
        told += f"; on a GPU {sharing} x {format_size(device)} of {format_size(machine.gpu_memory_bytes)}"
    return told


def _unknown(known: Knowledge) -> str:
    return "as in the last run" if known.known_rate is not None else "nothing is measured yet"


def _rate(rate: float | None) -> str:
    return "?" if rate is None else f"{format_number(rate)} inputs/s"


def document(known: Knowledge) -> dict[str, Any]:
    """All of it as JSON values; `read` takes it back."""
    setting, _ = chosen(known)
    law = known.law()
    return {
        "version": VERSION,
        "machine": known.space.machine.kind,
        "chosen": setting._asdict()
        | {"workers": known.arranger.current.workers, "at_work": known.at_work(), "rate": known.rate()},
        "settled": known.settled,
        "settled_with": known.settled_with,
        "fixed_rows": known.fixed_rows,
        "points": known.curve.document(),
        "arrangements": [
            {"workers": each.workers, "threads": each.threads, "node_rate": rate}
            for each, rate in sorted(known.arranger.rates.items())
        ],
        "scaling": sorted([count, rate] for count, rate in known.scaling().items()),
        "usl": None if law is None else law._asdict(),
        "memory": known.memory.document(),
        "load_s": dict(known.load_s),
        "differences": dict(known.differences),
        "unusable": dict(known.unusable),
        "slower": dict(known.slower),
        "not_tried": dict(known.not_tried),
        "ratios": dict(known.ratios),
    }


def read(space: Space, document: Mapping[str, Any] | None) -> Knowledge:
    """What an earlier run found out; nothing, where that is of another version or no document of ours."""
    known = Knowledge(space)
    if document is None or document.get("version") != VERSION:
        return known
    try:
        known.read(document)
    except (KeyError, TypeError, ValueError, AttributeError):
        return Knowledge(space)
    return known

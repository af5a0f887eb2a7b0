"""The table of kinds: which kinds of files there are, and where each is defined. Names only; nothing is loaded here."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    section: str
    """`module:Class` of what such a file says."""
    work: str | None = None
    """The module whose `KIND` is the `work.kind.Kind`; None where the file is no workload."""
    preload: tuple[str, ...] = ()
    """Modules that most workers of this kind need."""


KINDS: dict[str, Entry] = {
    "sweep": Entry("shoal.spec.sweep:Sweep", "shoal.work.sweep.kind", ("shoal.work.sweep.trial",)),
    "infer": Entry("shoal.spec.infer:Infer", "shoal.work.infer.kind"),
    "cluster": Entry("shoal.spec.cluster:Cluster"),
}
"""By name. The first is the most common one: what its workers need is loaded before a workload is read."""


def workloads() -> tuple[str, ...]:
    """The kinds that can be run."""
    return tuple(name for name, entry in KINDS.items() if entry.work is not None)


def usual() -> Entry:
    return next(iter(KINDS.values()))


def listed(names: tuple[str, ...]) -> str:
    """`sweep, infer or cluster`."""
    return " or ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)

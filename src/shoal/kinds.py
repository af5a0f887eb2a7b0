"""The table of kinds: which kinds of files there are, and where each is defined. Names only; nothing is loaded here."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    section: str
    """`module:Class` of what such a file says."""
    work: str | None = None
    """The module whose `KIND` is the `work.kind.Kind`; None where the file is no workload."""
    preload: tuple[str, ...] = ()
    """Modules that most of its workers need. Those of the usual kind are loaded before a workload is read."""


KINDS: dict[str, Entry] = {
    "sweep": Entry("shoal.spec.sweep:Sweep", "shoal.work.sweep.kind", ("shoal.work.sweep.trial",)),
    "infer": Entry("shoal.spec.infer:Infer", "shoal.work.infer.kind"),
    "process": Entry("shoal.spec.process:Process", "shoal.work.process.kind"),
    "cluster": Entry("shoal.spec.cluster:Cluster"),
}
"""By name; the most usual one is the first."""


def workloads() -> tuple[str, ...]:
    """The kinds that can be run."""
    return tuple(name for name, entry in KINDS.items() if entry.work is not None)


def usual() -> Entry:
    """The kind that most runs are of."""
    return next(iter(KINDS.values()))

"""What others know of sweeps. Loads nothing that only some of them need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from shoal.work.kind import Kind

if TYPE_CHECKING:
    from shoal.spec import Workload
    from shoal.store import RunInfo, RunStore
    from shoal.work.pages import Page
    from shoal.work.sweep.job import SweepJob


class SweepKind(Kind):
    """Its results are its trials, which can be compared."""

    noun = "sweep"
    unit = "trial"
    is_compared = True
    code = "run"

    def samples(self) -> Mapping[str, str]:
        from shoal.work.sweep.samples import SAMPLES

        return SAMPLES

    def prepare(self, spec: Workload, *, limit: int | None = None) -> SweepJob:
        from shoal.spec import Sweep
        from shoal.work.sweep.job import prepare

        assert isinstance(spec, Sweep)
        return prepare(spec, limit=limit)

    def is_averaged(self, store: RunStore) -> bool:
        return bool((self.document(store) or {}).get("average"))

    def page(self, store: RunStore, info: RunInfo) -> Page:
        from shoal.work.sweep.page import page

        return page(store, info)


KIND = SweepKind("sweep")

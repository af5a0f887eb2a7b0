"""What Shoal knows of greetings. An item greets one, and fails for somebody who is not in the file `here`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shoal import spec as specs
from shoal import words
from shoal.files.turns import Turn
from shoal.model import Item
from shoal.spec import Sweep, Workload
from shoal.store import RunInfo, RunStore
from shoal.work.job import Conclusion
from shoal.work.kind import Kind
from shoal.work.pages import Bars, Page, Paragraph, Section, Tile, counted
from shoal.work.sweep.job import SweepJob
from shoal.work.sweep.trial_rows import GridRows
from toy_kind.spec import Toy


class ToyJob(SweepJob):
    """Leaves to a sweep what any pool of items needs."""

    kind = "toy"

    def conclude(
        self, items: Iterator[tuple[Item, Mapping[str, Any]]], seconds: float, turn: Turn
    ) -> Conclusion:
        greeted = [item.params["name"] for item, _ in items]
        return Conclusion(document={"greeted": greeted, "letters": sum(map(len, greeted))})


class ToyKind(Kind):
    noun = "round"
    unit = "greeting"

    def samples(self) -> Mapping[str, str]:
        return {"toy.yaml": "kind: toy\nname: hello\ngreet: [ann, bob, eve]\n", "here": "ann eve\n"}

    def prepare(self, spec: Workload, *, limit: int | None = None) -> ToyJob:
        assert isinstance(spec, Toy)
        run = {"command": "grep -oh {name} here"}
        data = {
            "kind": "sweep",
            "name": spec.name,
            "trials": {"grid": {"name": list(spec.greet)}},
            "run": run,
        }
        as_sweep = specs.parse(data, folder=spec.folder)
        assert isinstance(as_sweep, Sweep)
        assert as_sweep.trials.grid is not None
        return ToyJob(as_sweep, GridRows(as_sweep.trials.grid, 1), limit, None)

    def in_words(self, document: Mapping[str, Any]) -> list[str]:
        return [f"Greeted: {', '.join(document['greeted'])}."]

    def counts(self, items: Mapping[str, int], document: Mapping[str, Any]) -> str:
        return words.some(len(document["greeted"]), self.unit)

    def page(self, store: RunStore, info: RunInfo) -> Page:
        greeted = (self.document(store) or {}).get("greeted", ())
        rows = [(name, float(len(name)), f"{len(name)} letters") for name in greeted]
        sections = [Section("Who was greeted", [Bars(rows, "letters"), Paragraph("That is all.")])]
        return Page([*counted(info, self.item), Tile("names", ", ".join(greeted))], sections)


KIND = ToyKind("toy")

"""Any sequence of calls leaves the same state to see in run.db and in memory, through crashes too."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shoal.model import Item, LogSlice, Outcome
from shoal.model.record import Attempt
from shoal.store import MemoryJournal, RunStore

NOW = 1_700_000_000.0

values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text())
mappings = st.dictionaries(st.sampled_from(["lr", "acc", "loss", "é"]), values, max_size=3)
logs = st.none() | st.builds(LogSlice, st.sampled_from(["w0.log", "w1.log"]), st.integers(0, 99))
errors = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
nodes = st.sampled_from(["node0", "nöde"])
states = st.sampled_from(["done", "failed", "pruned", "stopped"])
seqs = st.integers(1, 6)


class Journals(RuleBasedStateMachine):
    """Drives both journals with what a correct shape could tell, and with ends that no shape should."""

    @initialize()
    def begin(self) -> None:
        self.home = tempfile.mkdtemp()
        self.store = RunStore.create(
            self.home, name="x", kind="sweep", spec_text="", document={}, token=lambda: "0000", now=NOW
        )
        self.memory = MemoryJournal()
        self.added = 0

    def tell(self, name: str, *arguments: Any) -> None:
        for journal in (self.store.journal(), self.memory):
            call: Callable[..., None] = getattr(journal, name)
            call(*arguments)

    def newest(self, seq: int) -> int:
        record = self.memory._now.get(seq)
        return record.item.attempt if record else 0

    def is_running(self, seq: int) -> bool:
        record = self.memory._now.get(seq)
        return record is not None and record.state == "running"

    @rule(params=st.lists(mappings, min_size=1, max_size=3), texts=st.none() | st.just({"lr": "0.10"}))
    def add(self, params: list[dict[str, Any]], texts: dict[str, str] | None) -> None:
        first = self.added + 1
        self.added += len(params)
        self.tell("add", [Item(first + i, f"t{first + i}", p, texts, "c") for i, p in enumerate(params)])

    @precondition(lambda self: self.added)
    @rule()
    def add_again(self) -> None:
        self.tell("add", [Item(1, "other", {})])

    @rule(seq=seqs, node=nodes, log=logs)
    def started(self, seq: int, node: str, log: LogSlice | None) -> None:
        if seq <= self.added and not self.is_running(seq):
            self.tell("started", seq, self.newest(seq) + 1, node, NOW, log)

    @rule(seq=seqs, old=st.integers(0, 1), metrics=mappings, step=st.none() | st.integers(0, 9))
    def progressed(self, seq: int, old: int, metrics: dict[str, Any], step: int | None) -> None:
        self.tell("progressed", seq, self.newest(seq) - old, NOW, metrics, step)

    @rule(seq=seqs, more=st.integers(0, 1), error=errors, log=logs, is_kept=st.booleans())
    def requeued(self, seq: int, more: int, error: str | None, log: LogSlice | None, is_kept: bool) -> None:
        if self.is_running(seq):
            item = self.memory._now[seq].item
            over = Attempt(item.attempt, item.used + 1, "nöde", NOW, 1.5, "crash", error, log)
            for journal in (self.store.journal(), self.memory):
                journal.requeued(seq, item.attempt, item.used + more, error, over=over if is_kept else None)

    @rule(at=st.floats(0, NOW), why=st.text(st.characters(exclude_categories=["Cs"])))
    def noted(self, at: float, why: str) -> None:
        self.tell("noted", at, "node nöde", "ready", why)

    @rule(
        seq=seqs, newer=st.integers(-2, 2), state=states, metrics=mappings, error=errors, log=logs, node=nodes
    )
    def ended(
        self,
        seq: int,
        newer: int,
        state: str,
        metrics: dict[str, Any],
        error: str | None,
        log: LogSlice | None,
        node: str,
    ) -> None:
        """Of the attempt that runs, of one that is over, again after the end, or of an item nobody knows."""
        log = log._replace(end=100) if log else None
        outcome = Outcome(state, metrics, error, 1.5, log, bool(newer))
        self.tell("ended", seq, self.newest(seq) + newer, 1, node, NOW, outcome)

    @rule()
    def commit(self) -> None:
        self.tell("commit")

    @rule()
    def crash(self) -> None:
        self.store.close()
        self.store = RunStore.open(self.home, self.store.run, write=True)
        self.store.journal()
        assert list(self.store.waiting_items()) == self.memory.crash()
        self.added = len(self.memory.records())

    @invariant()
    def what_is_committed_is_the_same(self) -> None:
        if not hasattr(self, "store"):
            return
        assert {record.item.seq: record for record in self.store.items()} == self.memory.records()
        assert self.store.counts() == self.memory.counts()
        assert self.store.max_seq() == self.memory.max_seq()
        for seq in self.memory.records():
            assert self.store.reports(seq) == self.memory.reports(seq)
            assert self.store.attempts(seq).get(seq, []) == self.memory.attempts(seq)
        assert self.store.events() == self.memory.events()

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.home)


TestJournals = Journals.TestCase
TestJournals.settings = settings(
    max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

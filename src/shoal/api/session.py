"""One driver at work on one run: store, engine and shape put together, and taken apart again whatever happens."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from shoal.api import driver_turn
from shoal.api.driver_turn import UNSEEN, Place
from shoal.api.machines import Machines
from shoal.cluster.this_machine import Here
from shoal.errors import ClusterLost, FileError, ShoalError, StoreError, TakenOver
from shoal.files.turns import suspended_at
from shoal.model import Item, ItemState, Outcome, RunState
from shoal.model.record import Summary
from shoal.model.states import UNFINISHED
from shoal.planner.durations import Durations
from shoal.shape.base import Ended, Progress, Watcher, Watchers, drive
from shoal.store import RunInfo, RunStore
from shoal.store.driver import BEAT_S, Driver
from shoal.store.profiles import recall, recall_learned, remember, remember_learned
from shoal.work.job import Conclusion, Job, Learned, Past, Recorded, Setting

STOP_FILE = "stop"
LOOK_S = 0.25


class Session:
    """Drives a run to its end. `stop` may be called from a signal handler or another thread."""

    def __init__(
        self,
        store: RunStore,
        job: Job,
        machines: Machines,
        here: Here,
        *,
        failed: bool = False,
        ceiling: Mapping[str, int] | None = None,
    ) -> None:
        """`failed` takes the failed items again; `ceiling` is how many workers each node may have, by host.

        Nothing of the run is changed before all is known to fit.
        """
        self.store = store
        self.job = job
        self._machines = machines
        self._here = here
        self._began = here.now()
        self._resumed = store.turn() > 0
        self._next_look, self._next_beat = 0.0, self._began + BEAT_S
        self._watchers = Watchers([self])
        self._waits: str | None = None
        self._bare = False
        """Whether it had no worker at the last look, though items waited."""
        self._stop_file = os.path.join(store.folder, STOP_FILE)
        job.begin(store.run, store.home, resumed=self._resumed)
        try:
            places = [*machines.turns(store.run), *(Place(place) for place in job.turns())]
            self._turn = driver_turn.take(
                store, places, Driver.this(here.token(16)), self._began, machines.tell
            )
            self._set_up(failed, ceiling)
            here.has_begun()
        except BaseException:
            job.close()
            self._give_up()
            raise

    def _give_up(self) -> None:
        """What has begun in the record, and cannot begin: others must not take it for running."""
        with suppress(ShoalError):
            if self.store.is_driven_here:
                self.store.set_state(RunState.INTERRUPTED, self._here.now())

    def _set_up(self, failed: bool, ceiling: Mapping[str, int] | None) -> None:
        """From here on the run is this driver's."""
        store, job, machines = self.store, self.job, self._machines
        if failed:
            store.take_failed_again(job.still_wanted)
        past = self._past()
        waiting = self._waiting() if past.waiting else iter(())
        if (results := job.results()) is not None:
            store.keep(store.kept()._replace(results=results))
        self._engine = machines.engine(store.folder, job.folder, str(self._turn.number))
        try:
            self._shape = job.shape(
                Setting(
                    self._engine,
                    store.journal(),
                    {"SHOAL_RUN": store.run},
                    past,
                    waiting,
                    self._durations(),
                    self._watchers,
                    ceiling,
                )
            )
            self._growing = machines.growing(job.asks(), self._engine.nodes)
            weight = job.weight()
            if self._growing is not None and weight is not None:
                self._growing.measure(weight)
            self._copying = machines.copying(store.folder, self._turn.number)
        except BaseException:
            self._engine.close()
            raise
        self._turn.watch()
        for watcher in (self._growing, self._copying):
            if watcher is not None:
                self._watchers.add(watcher)

    def watch(self, watcher: Watcher) -> None:
        """Somebody else wants to see, too."""
        self._watchers.add(watcher)

    def stop(self) -> None:
        self._shape.stop()

    def drive(self) -> Summary:
        """Run until everything has ended or `stop` was called; then the results are written and the lock is free.

        However it ends, the machines are given back. `TakenOver` where another driver has the run by now: then this
        one has ended its workers, and has recorded nothing since.
        """
        try:
            summary = self._drive()
        except TakenOver:
            self._leave(replaced=True)
            raise
        except BaseException:
            self._leave()
            raise
        self._leave()
        return summary

    def _drive(self) -> Summary:
        try:
            drive(self._shape)
        except TakenOver:
            self._engine.close()
            raise
        except ClusterLost as error:
            self._interrupt(error)
            self._engine.close()
            hint = f"What was done is recorded. Once the cluster is up again: shoal resume {self.store.run}"
            raise ClusterLost(str(error), hint=hint) from error
        except BaseException:
            self._engine.close()
            self._fail()
            raise
        self._engine.close()
        try:
            return self._finish()
        except TakenOver:
            raise
        except FileError as error:
            self._fail()
            what = f"All that ran has ended, and what was done is recorded, but not all could be written: {error}"
            raise FileError(what, hint=self._once_mended(error)) from error
        except BaseException:
            self._fail()
            raise

    def _once_mended(self, error: FileError) -> str:
        again = " --failed" if self.store.counts().get(ItemState.FAILED) else ""
        return f"{error.hint or 'Look at what is wrong there.'} Then: shoal resume {self.store.run}{again}"

    def _leave(self, *, replaced: bool = False) -> None:
        try:
            self.job.close(replaced=replaced)
            self.store.close()
            if self._copying is not None and not replaced:
                self._copying.finish()
            self._turn.close()
        finally:
            self._machines.close()

    # A watcher of its own shape.

    def durable(self, ended: Sequence[Ended]) -> None:
        """Nothing: the store has them."""

    def moment(self, progress: Progress) -> None:
        """See whether the run is still this driver's, and whether somebody asked it to stop. May raise `TakenOver`."""
        if progress.now < self._next_look:
            return
        self._next_look = progress.now + LOOK_S
        self._turn.check()
        self.store.journal().ensure_ours()
        if progress.now >= self._next_beat:
            self._next_beat = progress.now + BEAT_S
            self._beat()
        self._look_for_room(progress)
        self._record_changes()
        if os.path.exists(self._stop_file):
            self._shape.stop()

    def _look_for_room(self, progress: Progress) -> None:
        """While it has no worker because of others: say what it waits for, and behind whom."""
        bare = progress.waiting > 0 and not progress.workers
        behind = self._machines.holders(self.store.run) if bare and self._bare else ()
        self._bare = bare
        asked = " and ".join(need.words for need in self.job.asks()[0])
        said = f"{asked}, held by {', '.join(behind)}" if behind else None
        if said == self._waits:
            return
        self._waits = said
        _unless_disk_is_full(lambda: self.store.keep(self.store.kept()._replace(waits=said)))
        if said is not None:
            self._machines.tell(f"{self.store.run} waits for {said}")

    def _record_changes(self) -> None:
        """What was done to the cluster for this run, durably: items may take hours until their next commit."""
        changes = [] if self._growing is None else list(self._growing.changes())
        journal = self.store.journal()
        for change in changes:
            journal.noted(*change)
        if changes:
            _unless_disk_is_full(journal.commit)

    def _beat(self) -> None:
        _unless_disk_is_full(lambda: self.store.beat(self._here.now()))

    # Before.

    def _past(self) -> Past:
        if not self._resumed:
            return Past(learned=self._learned(), turn=self._turn)
        counts = self.store.counts()
        waiting = sum(counts.get(state, 0) for state in UNFINISHED)
        return Past(
            self.store.highest_number() + 1,
            self.store.known_contents(),
            self._recorded(),
            waiting,
            lambda: all_items(self.store),
            self._learned(),
            self._turn,
        )

    def _learned(self) -> Learned:
        return recall_learned(self.store.home, self.job.fingerprint)

    def _recorded(self) -> Iterator[Recorded]:
        for record in self.store.items():
            item, state = record.item, record.state
            outcome = None if state in UNFINISHED else Outcome(state, record.metrics)
            reports = self.store.reports(item.seq)
            yield Recorded(
                item, outcome, [(each.step, each.metrics) for each in reports if each.step is not None]
            )

    def _waiting(self) -> Iterator[Item]:
        """What an earlier session left, less what is no longer asked for."""
        for item in self.store.waiting_items():
            if self.job.still_wanted(item):
                yield item
            else:
                outcome = Outcome(ItemState.STOPPED, error="its row is no longer in the table")
                self.store.journal().ended(item.seq, item.attempt, item.used, "", self._began, outcome)

    def _durations(self) -> Durations:
        durations = Durations()
        profile = recall(self.store.home, self.job.fingerprint)
        if profile is not None:
            durations.tell_all((content, {}, seconds) for content, seconds in profile.seconds.items())
        if self._resumed:
            durations.tell_all(
                (content, params, seconds) for content, params, seconds, _ in self.store.durations()
            )
        return durations

    # After.

    def _interrupt(self, error: ClusterLost) -> None:
        """The cluster is gone, the driver is not: all that was heard is kept, and the rest can be resumed."""
        self._shape.abandon(str(error))
        try:
            self.store.journal().commit()
            self.store.write_results()
            self.store.set_state(RunState.INTERRUPTED, self._here.now())
        except ShoalError:
            return

    def _fail(self) -> None:
        """The driver itself failed: say so in the run, as far as the store still can."""
        try:
            self.store.journal().commit()
            self.store.set_state(RunState.FAILED, self._here.now())
        except ShoalError:
            return

    def _finish(self) -> Summary:
        now = self._here.now()
        with suppress(*UNSEEN):  # Who publishes something asks again, and does not go on unseen.
            self._turn.ensure()
        self.store.journal().commit()  # Items that are no longer asked for never went through the shape.
        counts = self.store.counts()
        conclusion = self._conclude()
        state = self._state(counts, conclusion)
        self._record_changes()
        self._tidy()
        suspended_at("end")
        self.store.write_results()
        self.store.set_state(state, now)
        if state == RunState.SUCCEEDED:
            with suppress(*UNSEEN):  # It only cleans up.
                self.job.tidy(self._turn)
        self._learn(now)
        remember_learned(self.store.home, self.job.fingerprint, conclusion.learned, now=now)
        return summarize(self.store, workers=self._shape.worker_uses())

    def _conclude(self) -> Conclusion:
        """What the kind has to say, kept with the run."""
        done = ((record.item, record.metrics) for record in self.store.items((ItemState.DONE,)))
        conclusion = self.job.conclude(done, self.store.info(self._here.now()).seconds, self._turn)
        kept = self.store.kept()
        notes, document = conclusion.notes or kept.notes, dict(conclusion.document) or kept.document
        self.store.keep(kept._replace(notes=notes, workers=self._shape.worker_uses(), document=document))
        return conclusion

    def _state(self, counts: Mapping[str, int], conclusion: Conclusion) -> RunState:
        verdict = self._shape.verdict()
        if verdict is not None:
            return verdict  # However many failures are allowed: not everything was tried.
        failed = conclusion.failed or counts.get(ItemState.FAILED, 0) > self.job.failures
        return RunState.FAILED if failed else RunState.SUCCEEDED

    def _tidy(self) -> None:
        """Folders that workers were killed in, and that nothing was left in."""
        for name in ("items", "checkpoints"):
            folder = os.path.join(self.store.folder, name)
            for entry in os.scandir(folder) if os.path.isdir(folder) else ():
                if entry.is_dir(follow_symlinks=False):
                    try:
                        os.rmdir(entry.path)
                    except OSError:
                        continue

    def _learn(self, now: float) -> None:
        measured = ((content, seconds) for content, _, seconds, _ in self.store.durations() if content)
        uses = self._shape.worker_uses()
        startup = sum(use.startup_s for use in uses) / len(uses) if uses else None
        remember(self.store.home, self.job.fingerprint, "machine", measured, now=now, startup_s=startup)


def _unless_disk_is_full(write: Callable[[], None]) -> None:
    """The commits of items see to a disk that is full."""
    try:
        write()
    except TakenOver:
        raise
    except StoreError:
        return


def summarize(store: RunStore, workers: Sequence[Any] = ()) -> Summary:
    """What is to be said of a run that is not running."""
    info, kept = store.info(), store.kept()
    return Summary(
        info.run,
        info.kind,
        info.state,
        info.items,
        info.seconds,
        info.predicted_seconds,
        store.results_path(),
        info.best,
        store.folder,
        workers or kept.workers,
        [*_notes(info), *kept.notes],
        kept.document,
    )


def all_items(store: RunStore) -> Iterator[Item]:
    """Every item of a run, in order."""
    return (record.item for record in store.items())


def _notes(info: RunInfo) -> list[str]:
    """What a person should know, and would not see."""
    if info.objective is not None and info.best is None and info.items.get(ItemState.DONE):
        metric = info.objective[0]
        return [
            f"no trial reported a number as {metric!r}, which objective: asks for; so there is no best one."
        ]
    return []


def read_only(folder: str) -> RunStore:
    """The store of a run by its folder, to look at."""
    runs, run = os.path.split(folder)
    return RunStore.open(os.path.dirname(runs), run, write=False)

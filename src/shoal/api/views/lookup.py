"""Looking at runs: lists, details, logs, files. Never takes a lock, never changes anything but with `remove`."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator

from shoal.api.views.averages import Averages, average
from shoal.cluster.this_machine import Here
from shoal.errors import NotFound, ShoalError, SpecError, nearest
from shoal.model import LogSlice
from shoal.store import (
    RunStore,
    RunSummary,
    ensure_own,
    find_home,
    foreign,
    list_runs,
    resolve_run,
    say_whose,
)
from shoal.store import remove as remove_run
from shoal.store.home import stubs
from shoal.work.kind import kind_of

BLOCK_BYTES = 1 << 16


def runs() -> list[RunSummary]:
    """All runs, newest first, with the state that is true now."""
    here = Here()
    home = _home(here)
    found = list_runs(home)
    if stubs(home) and foreign(home, here.environment) is None:
        from shoal.api.clusters import detached_runs

        found = sorted([*found, *detached_runs.runs()], key=lambda run: (run.created, run.run), reverse=True)
    return found


def open_run(run: str) -> RunStore:
    """A run by id, unique prefix, name (its latest), or `last`; to be read."""
    home = _home(Here())
    return RunStore.open(home, resolve_run(home, run), write=False)


def averages(store: RunStore, *, best: int | None = None) -> Averages:
    """Trials with equal parameters as one row each; with `best`, the best N by the mean of the objective."""
    info = store.info()
    kind = kind_of(info.kind)
    if not kind.is_compared:
        raise SpecError(
            f"Run {store.run} is of kind {kind.name}, and has no trials to average.",
            hint="Leave out --average.",
        )
    metric, goal = info.objective or (None, None)
    found = average(store.rows(), store.columns(), store.parameters(), metric)
    if best is None:
        return found
    if goal is None:
        raise SpecError(
            f"Run {store.run} has no objective, so none of its averages is best.",
            hint="Add objective: {metric: NAME, goal: max} to the workload, or leave out --best.",
        )
    return found._replace(rows=found.best(goal, best))


def logs(run: str, item: str | None = None, *, follow: bool = False) -> Iterator[bytes]:
    """What a run, or one of its items, wrote. With `follow`, goes on until the run has ended."""
    with open_run(run) as store:
        yield from logs_of(store, item, follow=follow)


def logs_of(store: RunStore, item: str | None, *, follow: bool = False) -> Iterator[bytes]:
    """The same of a run that is open."""
    return _all_logs(store, follow) if item is None else _item_log(store, item, follow)


def _item_log(store: RunStore, item: str, follow: bool) -> Iterator[bytes]:
    here = Here()
    log = store.item(item).log
    while log is None and follow and store.state().is_active:
        here.pause(0.1)
        log = store.item(item).log
    if log is None:
        record = store.item(item)
        raise NotFound(f"{item} has no log: it is {record.state}.", hint=record.error)
    position = log.start
    while True:
        ended = not follow or not store.state().is_active
        now = store.item(item).log or log
        if now.file != log.file:
            log, position = now, now.start
        for block in _read(store, LogSlice(log.file, position, now.end)):
            position += len(block)
            yield block
        if ended or now.end is not None:
            return
        here.pause(0.1)


def _all_logs(store: RunStore, follow: bool) -> Iterator[bytes]:
    """Every worker's log, one after the other; followed, as they grow."""
    here = Here()
    positions: dict[str, int] = {}
    while True:
        ended = not follow or not store.state().is_active
        folder = os.path.join(store.folder, "logs")
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        for name in (name for name in names if name.endswith(".log")):
            file = os.path.join("logs", name)
            for block in _read(store, LogSlice(file, positions.get(file, 0))):
                positions[file] = positions.get(file, 0) + len(block)
                yield block
        if ended:
            return
        here.pause(0.1)


def _read(store: RunStore, log: LogSlice) -> Iterator[bytes]:
    try:
        with open(os.path.join(store.folder, log.file), "rb") as file:
            file.seek(log.start)
            left = None if log.end is None else log.end - log.start
            while left is None or left > 0:
                block = file.read(BLOCK_BYTES if left is None else min(BLOCK_BYTES, left))
                if not block:
                    return
                left = None if left is None else left - len(block)
                yield block
    except FileNotFoundError:
        return


def get(run: str, item: str | None = None, *, to: str | None = None) -> str:
    """Copy what a run, or one of its items, left in SHOAL_ITEM_DIR; the folder it was copied to."""
    with open_run(run) as store:
        kept = os.path.join(store.folder, "items")
        names = sorted(os.listdir(kept)) if os.path.isdir(kept) else []
        if item is not None:
            store.item(item)
            if item not in names:
                raise NotFound(
                    f"{item} left no files.", hint=nearest(item, names) if names else _instead(store)
                )
            return _copy(os.path.join(kept, item), to or f"{store.run}-{item}")
        if not names:
            raise NotFound(
                f"No item of {store.run} left files.",
                hint=_instead(store) or "Write them into the folder named by SHOAL_ITEM_DIR.",
            )
        return _copy(kept, to or store.run)


def _instead(store: RunStore) -> str | None:
    """Where to look: what some kinds make is not in the folders of their items."""
    output = store.kept().results
    return f"Its output is in {output}" if output else None


def _copy(source: str, target: str) -> str:
    target = os.path.join(Here().folder, target)
    if os.path.lexists(target):
        raise SpecError(f"{target} exists already.", hint="Name another folder with --to.")
    if os.path.islink(source) or not os.path.isdir(source):
        raise NotFound(f"{source} is no folder any more: the item put something else in its place.")
    import shutil

    shutil.copytree(source, target, symlinks=True, ignore=_special)
    return target


def _special(folder: str, names: list[str]) -> list[str]:
    """Pipes, sockets and devices cannot be copied."""
    modes = {name: os.lstat(os.path.join(folder, name)).st_mode for name in names}
    return [
        name
        for name, mode in modes.items()
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))
    ]


def remove(run: str) -> str:
    """Delete a run and everything it kept; its id. A run that is being driven is refused."""
    home, name = run_to_change(run)
    clear = _leftovers(home, name)
    remove_run(home, name, now=Here().now())
    clear()
    return name


def _leftovers(home: str, run: str) -> Callable[[], None]:
    try:
        with RunStore.open(home, run, write=False) as store:
            return kind_of(store.info().kind).leftovers(store)
    except ShoalError:
        return lambda: None  # A run that cannot be read can be removed all the same.


def run_to_change(run: str) -> tuple[str, str]:
    """The home and the id of a run that is to be changed. `SpecError` where it is another user's."""
    here = Here()
    home = find_home(here.folder, here.environment)
    name = resolve_run(home, run)
    ensure_own(home, here.environment, name)
    return home, name


def _home(here: Here) -> str:
    home = find_home(here.folder, here.environment)
    say_whose(home, here.environment)
    return home

"""Whose an output folder is: one run's at a time; checks of one, and whether its run is driven now. For drivers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

from shoal.errors import FileError, NotFound, Problem, SpecError
from shoal.files import Storage, is_among, is_url
from shoal.files.machine import machine_name
from shoal.files.turns import FirstTurn, Turn, Turns
from shoal.spec.shared_sections import Input, Output
from shoal.store import is_locked, run_folder
from shoal.store.driver import Driver
from shoal.store.home import name_of
from shoal.work.outputs.layout import (
    ERRORS,
    HIDDEN,
    OTHERS_NAMED,
    OWNER,
    Listing,
    ended_key,
    is_claim_aside,
    look,
    opened,
    part_key,
    published_prefix,
    remove,
    retire,
    successor_key,
    turns_prefix,
)

FIRST = FirstTurn()
_TRIES = 10
_OTHER = "--set output.path=FOLDER"
_ELSEWHERE = f"Give output: a new or empty folder, for instance with {_OTHER}."


class Owner(NamedTuple):
    """The run that has the folder, and the home of runs where it is recorded, in words that `is_alive` understands."""

    run: str
    home: str
    limit: int | None = None
    """How many inputs it takes at most (`--limit`); None for all there are."""


def claim(
    output: Output,
    folder: str,
    run: str,
    home: str,
    *,
    is_alive: Callable[[str, str], bool | None],
    limit: int | None = None,
) -> None:
    """Make the folder ours at the beginning of a new run. What an earlier run of Shoal left there stays for now.

    `SpecError` for a folder that holds other files, or the parts of a run whose driver is alive, or may be:
    `is_alive(run, home)` is None where that cannot be seen from here, and the run did not `let_go`. Also where this
    run has a `limit`, and what is there is of one that had none. A run may call it again.
    """
    storage = opened(output, folder)
    ours = Owner(run, home, limit)
    for _ in range(_TRIES):
        chain = _chain(storage)
        if chain and chain[-1].run == run:
            return
        found = look(storage)
        _refuse_others(storage, found, is_of_shoal=bool(chain))
        if chain:
            _refuse_the_living(storage, found, chain[-1], is_alive(chain[-1].run, chain[-1].home))
            if limit is not None:
                _refuse_to_try_over(storage, found, chain[0])
        key = successor_key(chain[-1].run) if chain else OWNER
        if storage.write_new(key, _encoded(ours)) and chain and _chain(storage)[-1:] != [ours]:
            storage.delete(key)  # Somebody took over and was done before our word came.
    raise SpecError(f"Other runs keep taking {storage.url}.", hint=_ELSEWHERE)


def replace(output: Output, folder: str, run: str, turn: Turn = FIRST) -> list[str]:
    """Remove what earlier runs wrote, before the first part of ours: notes for the person. May be called again."""
    storage = opened(output, folder)
    return _settle(storage, _chain_to(storage, run), turn)


def let_go(output: Output, folder: str, run: str, turn: int = 0) -> None:
    """The driver of this run ends: leave word for those that cannot see it. It holds until somebody has a later turn.

    `turn` is 0 for a driver that had none yet.
    """
    storage = opened(output, folder)
    if [each.run for each in _chain(storage)[-1:]] == [run] and turn >= (_ended_turn(storage, run) or 0):
        storage.write(ended_key(run), str(turn).encode())


def turns(output: Output, folder: str, run: str) -> Turns:
    """Where the drivers of this run write their turns down."""
    return Turns(opened(output, folder), turns_prefix(run))


def next_number(output: Output, folder: str) -> int:
    """Above the numbers of all items of which there is something, also of those that nobody has recorded."""
    return max(look(opened(output, folder)).numbers, default=0) + 1


def ensure_free(output: Output, folder: str) -> None:
    """`SpecError` for a folder that no run has, and that holds other files. Changes nothing."""
    storage = opened(output, folder)
    if not _chain(storage):
        _refuse_others(storage, look(storage), is_of_shoal=False)


def owner(output: Output, folder: str) -> str | None:
    """The run whose parts are in the folder now; who only claimed it has none there yet. Changes nothing."""
    found = _owner(opened(output, folder), OWNER)
    return None if found is None else found.run


def ensure_ours(output: Output, folder: str, run: str, *, home: str = "", limit: int | None = None) -> None:
    """On a resume: `SpecError` if another run has taken the folder since, or somebody else's files are there.

    Where nothing is there, it is made ours: the driver may have been killed before it could claim it.
    """
    storage = opened(output, folder)
    chain = _chain(storage)
    if not chain:
        _refuse_others(storage, look(storage), is_of_shoal=False)
        storage.write_new(OWNER, _encoded(Owner(run, home, limit)))
    chain = _chain_to(storage, run)
    if home and chain[-1].home != home:  # The run was brought here.
        key = OWNER if len(chain) == 1 else successor_key(chain[-2].run)
        storage.write(key, _encoded(chain[-1]._replace(home=home)))


def _chain_to(storage: Storage, run: str) -> list[Owner]:
    """The chain, if this run is at its end; else `SpecError`."""
    chain = _chain(storage)
    if chain and chain[-1].run == run:
        return chain
    whose = f"run {chain[-1].run}" if chain else "nobody"
    is_there = any(each.run == run for each in chain)
    raise SpecError(
        f"{storage.url} is the output of {whose} now: what run {run} wrote there"
        f" {'stays only until that run writes' if is_there else 'is gone'}.",
        hint=f"Start it anew with another output: {_OTHER}",
    )


def _refuse_the_living(storage: Storage, found: Listing, owner: Owner, is_alive: bool | None) -> None:
    if is_alive:
        raise SpecError(
            f"{storage.url} is the output of run {owner.run}, which is running.",
            hint=f"Wait for it, stop it (shoal stop {owner.run}), or give another output: {_OTHER}",
        )
    if is_alive is None and not _has_ended(storage, found, owner.run):
        raise SpecError(
            f"{storage.url} is the output of run {owner.run} of another machine or folder, which may still be"
            " running.",
            hint=f"Give another output: {_OTHER}. Or, when that run is over, remove what is there, and run it again.",
        )


def _has_ended(storage: Storage, found: Listing, run: str) -> bool:
    """Whether the last driver of this run left word that it ended."""
    ended = _ended_turn(storage, run) if ended_key(run) in found.hidden else None
    return ended is not None and ended >= Turns(storage, turns_prefix(run)).highest()


def _ended_turn(storage: Storage, run: str) -> int | None:
    """The turn of the driver that said so; None where none did. Versions before 0.2 had no turns."""
    try:
        word = storage.read(ended_key(run))
    except NotFound:
        return None
    return int(word) if word.isdigit() else 0


def _refuse_to_try_over(storage: Storage, found: Listing, owner: Owner) -> None:
    """A run with a limit is a try. It may replace another try, and not what took a run hours."""
    if owner.limit is None and (found.parts or found.has_errors):
        raise SpecError(
            f"{storage.url} holds what run {owner.run} wrote, which had no --limit. This one has, and would"
            " replace that.",
            hint="Give what is only tried an output of its own: --set output.path=FOLDER.",
        )


def _settle(storage: Storage, chain: list[Owner], turn: Turn) -> list[str]:
    """Being at the end of the chain, clear the folder of who was before, and stand there alone.

    What has a name of its own in every run is removed at once. Other names may be those of our own files by the time
    that a driver which was suspended goes on.
    """
    *before, ours = chain
    if not before:
        return []
    found = look(storage)
    turn.ensure()
    kept = {OWNER, *(successor_key(each.run) for each in before)}
    own = (f"{turns_prefix(ours.run)}/", f"{published_prefix(ours.run)}/")
    hidden = [key for key in found.hidden if key not in kept and not is_claim_aside(key)]
    named = [key for key in hidden if "/" in key.removeprefix(f"{HIDDEN}/") and not key.startswith(own)]
    shared = [key for key in hidden if "/" not in key.removeprefix(f"{HIDDEN}/")]
    retired = {each.aside for each in found.retired}
    old = [*found.parts.values(), *(key for key in shared if key not in retired)]
    retire(storage, [*old, ERRORS] if found.has_errors else old, turn)
    remove(storage, [*named, *retired, *found.asides])
    storage.write(OWNER, _encoded(_chain_to(storage, ours.run)[-1]))
    remove(storage, [successor_key(each.run) for each in before])
    parts = f"{len(found.parts)} part{'' if len(found.parts) == 1 else 's'}"
    were = "it was" if len(found.parts) == 1 else "they were"
    return [f"{storage.url} held {parts} of run {before[0].run}; {were} removed."] if found.parts else []


def _chain(storage: Storage) -> list[Owner]:
    """The owner, and who came after it; empty where there is none."""
    chain: list[Owner] = []
    key = OWNER
    while (found := _owner(storage, key)) is not None and found not in chain:
        chain.append(found)
        key = successor_key(found.run)
    return chain


def _owner(storage: Storage, key: str) -> Owner | None:
    try:
        document = json.loads(storage.read(key))
        limit = document.get("limit")
        return Owner(str(document["run"]), str(document["home"]), None if limit is None else int(limit))
    except NotFound:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SpecError(f"{storage.url}/{key} cannot be read.", hint=_ELSEWHERE) from error


def _encoded(owner: Owner) -> bytes:
    known = {key: value for key, value in owner._asdict().items() if value is not None}
    return json.dumps({**known, "name": name_of(owner.run)}).encode()


def _refuse_others(storage: Storage, found: Listing, *, is_of_shoal: bool) -> None:
    """What nobody says Shoal wrote is not removed."""
    others = sorted(found.others)
    if not is_of_shoal:
        others += [part_key(seq) for seq in sorted(found.parts)] + [ERRORS] * found.has_errors
    if others:
        more = " and more" if len(others) > OTHERS_NAMED else ""
        raise SpecError(
            f"{storage.url} holds files that are of no run: {', '.join(others[:OTHERS_NAMED])}{more}.",
            hint=_ELSEWHERE,
        )


def address(home: str, output: str) -> str:
    """The home of a run, as its output names it: machine and path, or their digest where others can read it."""
    told = f"{machine_name()}:{os.path.abspath(home)}"
    return blake2b(told.encode(), digest_size=16).hexdigest() if is_url(output) else told


def is_alive(run: str, address_: str, home: str, turns: Turns) -> bool | None:
    """Whether a driver works on this run now; None where that cannot be seen. `home` is ours, `turns` are the run's.

    What cannot be seen may live: its folder may be hidden from us, or on a machine that is called as ours is. Then its
    last driver says who it is, and a process that we could see and that is gone is dead.
    """
    known = _is_alive_at(run, address_, home)
    if known is None and (driver := Driver.read(turns.driver(turns.highest()))) is not None:
        known = driver.is_alive()
    return known


def _is_alive_at(run: str, address_: str, home: str) -> bool | None:
    """As the lock in the run's folder says."""
    machine, _, folder = address_.partition(":")
    if address_ == address(home, "s3://"):
        machine, folder = machine_name(), home
    if not folder or not os.path.isdir(run_folder(folder, run)):
        return None
    if is_locked(os.path.join(run_folder(folder, run), "lock")):
        return True
    names = (machine_name(), os.uname().nodename)  # Versions before 0.2 wrote the name of the host.
    return False if machine in names else None


def check_output(output: Output, input_: Input, folder: str) -> list[Problem]:
    """Every problem with where the output goes. A folder that does not exist is none: it will be made."""
    if output.path.lower().startswith(("http://", "https://")):
        return [
            Problem(f"output: {output.path} can be read, not written.", "Give a folder, or s3:// or hdfs://.")
        ]
    try:
        root = opened(output, folder).url
    except SpecError as error:
        return [Problem(f"output: {problem.message}", problem.hint) for problem in error.problems]
    problems = _about_rights(output.path, root)
    if _is_read_again(output, input_, folder):
        problems.append(
            Problem(
                f"output: {output.path} is in the input {input_.target}: the next run would read it as input.",
                "Give a folder beside it.",
            )
        )
    return problems or _about_others(output, folder)


def _about_rights(path: str, root: str) -> list[Problem]:
    if is_url(path) and not path.lower().startswith("file:"):
        return []
    nearest = root
    while not os.path.lexists(nearest):
        nearest = os.path.dirname(nearest)
    if not os.path.isdir(nearest):
        return [Problem(f"output: {nearest} is a file, not a folder.", "Give another folder.")]
    if not os.access(nearest, os.W_OK | os.X_OK):
        made = "" if nearest == root else f", so {root} cannot be made"
        return [
            Problem(
                f"output: {nearest} may not be written{made}.", "Give another folder, or look at its rights."
            )
        ]
    return []


def _about_others(output: Output, folder: str) -> list[Problem]:
    """Only on this machine: elsewhere it would take requests."""
    if is_url(output.path):
        return []
    try:
        ensure_free(output, folder)
    except SpecError as error:
        return [Problem(f"output: {error}", error.hint)]
    except FileError:
        return []  # What is wrong with it is told by whoever writes there.
    return []


def _is_read_again(output: Output, input_: Input, folder: str) -> bool:
    if output.endpoint != input_.endpoint:
        return False
    try:
        return any(is_among(input_.target, output.path, key, folder=folder) for key in (part_key(0), ERRORS))
    except SpecError:
        return False  # What is wrong with the input is told where the input is checked.

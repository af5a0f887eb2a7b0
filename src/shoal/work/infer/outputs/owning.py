"""Whose an output folder is: one run's at a time. For drivers.

`run.json` names the owner. Who wants to follow it writes `after-OWNER.json`, which only one can; the owner is whoever
stands at the end of that chain. So of two runs that begin at once one gets the folder, and one that is killed while it
takes over leaves nothing that the next could not go on with.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from shoal.errors import NotFound, SpecError
from shoal.files import Storage
from shoal.spec.infer import Output
from shoal.store.home import name_of
from shoal.work.infer.outputs.layout import (
    ERRORS,
    OTHERS_NAMED,
    OWNER,
    Listing,
    is_claim_aside,
    look,
    opened,
    part_key,
    remove,
    successor_key,
)

_TRIES = 10
_ELSEWHERE = "Give output: a new or empty folder."


class Owner(NamedTuple):
    """The run that has the folder, and the home of runs where it is recorded."""

    run: str
    home: str


def claim(
    output: Output, folder: str, run: str, home: str, *, is_alive: Callable[[str, str], bool]
) -> list[str]:
    """Make the folder ours at the beginning of a new run: notes for the person.

    What an earlier run of Shoal left there is removed. `SpecError` for a folder that holds other files, or the parts
    of a run whose driver is alive: `is_alive(run, home)`. A run may call it again.
    """
    storage = opened(output, folder)
    ours = Owner(run, home)
    for _ in range(_TRIES):
        chain = _chain(storage)
        if chain and chain[-1].run == run:
            return _settle(storage, chain)
        found = look(storage)
        _refuse_others(storage, found, is_of_shoal=bool(chain))
        if chain and is_alive(*chain[-1]):
            raise SpecError(
                f"{storage.url} is the output of run {chain[-1].run}, which is running.",
                hint=f"Wait for it, stop it (shoal stop {chain[-1].run}), or give another output:.",
            )
        key = successor_key(chain[-1].run) if chain else OWNER
        if storage.write_new(key, _encoded(ours)) and chain and _chain(storage)[-1:] != [ours]:
            storage.delete(key)  # Somebody took over and was done before our word came.
    raise SpecError(f"Other runs keep taking {storage.url}.", hint=_ELSEWHERE)


def ensure_free(output: Output, folder: str) -> None:
    """`SpecError` for a folder that no run has, and that holds other files. Changes nothing."""
    storage = opened(output, folder)
    if not _chain(storage):
        _refuse_others(storage, look(storage), is_of_shoal=False)


def owner(output: Output, folder: str) -> str | None:
    """The run whose parts are in the folder now. Changes nothing."""
    chain = _chain(opened(output, folder))
    return chain[-1].run if chain else None


def ensure_ours(output: Output, folder: str, run: str, *, home: str = "") -> None:
    """On a resume: `SpecError` if another run has taken the folder since, or somebody else's files are there.

    Where nothing is there, it is made ours: the driver may have been killed before it could claim it.
    """
    storage = opened(output, folder)
    chain = _chain(storage)
    if not chain:
        _refuse_others(storage, look(storage), is_of_shoal=False)
        storage.write_new(OWNER, _encoded(Owner(run, home)))
        chain = _chain(storage)
    if not chain or chain[-1].run != run:
        whose = f"run {chain[-1].run}" if chain else "nobody"
        raise SpecError(
            f"{storage.url} is the output of {whose} now: what run {run} wrote there is gone.",
            hint="Start it anew with another output:.",
        )
    _settle(storage, chain)


def _settle(storage: Storage, chain: list[Owner]) -> list[str]:
    """Being at the end of the chain, clear the folder of who was before, and stand there alone."""
    *before, ours = chain
    if not before:
        return []
    found = look(storage)
    kept = {OWNER, *(successor_key(each.run) for each in before)}
    hidden = [key for key in found.hidden if key not in kept and not is_claim_aside(key)]
    old = [*found.parts.values(), *found.asides, *hidden]
    remove(storage, [*old, ERRORS] if found.has_errors else old)
    storage.write(OWNER, _encoded(ours))
    remove(storage, [successor_key(each.run) for each in before])
    parts = f"{len(found.parts)} part{'' if len(found.parts) == 1 else 's'}"
    were = "it was" if len(found.parts) == 1 else "they were"
    return [f"{storage.url} held {parts} of run {before[-1].run}; {were} removed."] if found.parts else []


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
        return Owner(str(document["run"]), str(document["home"]))
    except NotFound:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise SpecError(f"{storage.url}/{key} cannot be read.", hint=_ELSEWHERE) from error


def _encoded(owner: Owner) -> bytes:
    return json.dumps({**owner._asdict(), "name": name_of(owner.run)}).encode()


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

"""How a driver takes files out of an output: aside first, and for good only when the run is still its own after that.

A look is no fence. A driver may be suspended between its look and its act, and somebody else may have the run when it
goes on, and count on what is moved then. So it looks again after the act, and takes it back where it came too late.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from shoal.errors import NotFound, ShoalError
from shoal.files import Storage
from shoal.files.suspension import suspended_at
from shoal.files.turns import Turn
from shoal.work.outputs.layout import Retired, aside_key, for_each, remove


def retire(storage: Storage, keys: Iterable[str], turn: Turn) -> None:
    """Take these out of the output. They were listed before this is called: what a later driver writes is not in it.

    Raises what `turn.ensure` does; then they are where they were. A driver that is killed in it leaves them aside,
    for who has a later turn.
    """
    retired = [Retired(turn.number, aside_key(turn.number, key), key) for key in keys]
    if not retired:
        return
    turn.ensure()
    suspended_at("delete")
    try:
        for_each(lambda each: _move(storage, each), retired)
        turn.ensure()
    except BaseException:
        with suppress(ShoalError):  # What cannot be put back now lies aside, for who has the run.
            put_back(storage, retired)
        raise
    remove(storage, [each.aside for each in retired])


def put_back(storage: Storage, retired: Iterable[Retired]) -> None:
    """Where there is another file by now, that one stays."""
    for_each(lambda each: _put_back(storage, each), retired)


def _move(storage: Storage, each: Retired) -> None:
    with suppress(NotFound):
        storage.move(each.key, each.aside)


def _put_back(storage: Storage, each: Retired) -> None:
    with suppress(NotFound):
        storage.write_new(each.key, storage.read(each.aside))
        storage.delete(each.aside)

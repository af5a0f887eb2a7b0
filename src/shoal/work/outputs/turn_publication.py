"""What each turn of a run made of the output, and `errors.parquet`, which is that of the last one.

A driver that was suspended may write after its heir has. So what it publishes is under its own turn, where it replaces
nothing, and whoever writes the file that people read looks afterwards whether there is a later one.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.errors import NotFound
from shoal.files import Storage
from shoal.files.suspension import suspended_at
from shoal.files.turns import Turn
from shoal.work.outputs.layout import ERRORS, last_published, published_key, published_prefix
from shoal.work.outputs.part_tables import ItemErrors, combine
from shoal.work.protocols import Facts


def publish(
    storage: Storage,
    run: str,
    turn: Turn,
    done: Mapping[int, Facts],
    errors: Mapping[int, ItemErrors],
    schema: Any,
) -> Counter[str]:
    """Make it known that the output consists of these items: how often each reason for an error was found.

    `schema` is that of the parts, or None where none has a row.
    """
    turn.ensure()
    suspended_at("publish")
    earlier = last_published(storage, run)
    known = [ERRORS] if earlier is None else [errors_published(run, earlier), ERRORS]
    reasons = combine(storage, errors, schema, errors_published(run, turn.number), known)
    document = {
        "parts": sorted(done),
        "rows": sum(facts.rows for facts in done.values()),
        "errors": sum(facts.errors for facts in done.values()),
    }
    storage.write(published_key(run, turn.number), json.dumps(document).encode())
    _show_errors(storage, run)
    return reasons


def errors_published(run: str, turn: int) -> str:
    """The errors that this turn published; not there where it had none."""
    return f"{published_prefix(run)}/{turn}.parquet"


def kept_when_tidy(run: str, turn: int) -> set[str]:
    """What stays of all that was published: the last word, and its errors where an earlier driver may come back."""
    return {published_key(run, turn), *([errors_published(run, turn)] if turn > 1 else [])}


def _show_errors(storage: Storage, run: str) -> None:
    shown = None
    while (last := last_published(storage, run)) != shown:
        assert last is not None, "this driver has published"
        has_errors = json.loads(storage.read(published_key(run, last)))["errors"]
        suspended_at("errors")
        if has_errors:
            _copy(storage, errors_published(run, last), ERRORS)
        else:
            storage.delete(ERRORS)
        shown = last


def _copy(storage: Storage, key: str, to: str) -> None:
    descriptor, path = tempfile.mkstemp(suffix=".parquet")
    os.close(descriptor)
    try:
        storage.download(key, path)
        storage.write(to, Path(path))
    except NotFound:
        return  # A later turn published, and removed this one's.
    finally:
        os.unlink(path)

"""Functions as workloads: `shoal.run(train, rows)`. Sent by name where they can be imported, else by value."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from shoal import spec as specs
from shoal.api import succession
from shoal.api.workloads import Prepared, ensure_limit, one_at_a_time
from shoal.cluster.this_machine import Here
from shoal.errors import SpecError
from shoal.files import replacing, write_bytes
from shoal.spec import Cell, Sweep
from shoal.store import RunStore
from shoal.work.sweep.job import SweepJob
from shoal.work.sweep.trial_rows import Rows

PICKLE_FILE, ROWS_FILE = succession.FILES
LIMITS = ("timeout", "retries", "concurrent", "failures", "stop_after")
RESOURCES = ("cpu", "gpu", "memory")
OTHERS = ("name", "env", "objective", "requirements", "tags")


class ListRows(Rows):
    """Rows that a program holds in memory."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        columns = list(dict.fromkeys(name for row in rows for name in row))
        super().__init__(columns, 1, len(rows))
        self._rows = rows

    def once(self) -> Iterator[Sequence[Cell]]:
        for row in self._rows:
            yield [Cell.of(row.get(name)) for name in self.columns]


def from_function(
    function: Callable[..., Any],
    rows: Iterable[Mapping[str, Any]] | None,
    settings: Mapping[str, Any],
    folder: str,
    limit: int | None,
    *,
    inline: bool = False,
) -> Prepared:
    """A sweep that calls `function` with each row as keyword arguments; `inline` as in `workloads.from_file`."""
    ensure_limit(limit)
    given = _plain_rows(rows)
    reference, root = _reference(function)
    pickled = None if root is not None else _pickle(function)
    spec = specs.parse(_document(function, reference, settings), folder=root or folder)
    assert isinstance(spec, Sweep)
    if inline:
        spec = one_at_a_time(spec)
    job = SweepJob(spec, ListRows(given), limit, PICKLE_FILE if pickled is not None else None)
    document = {
        "rows": True,
        "pickle": pickled is not None,
        "folder": spec.folder,
        "limit": limit,
        "sets": [],
    }
    return Prepared(spec, job, document, given, pickled)


def settle(prepared: Prepared, folder: str) -> None:
    """Put what a function run needs again into its folder."""
    if prepared.rows is None:
        return
    if prepared.pickled is not None:
        write_bytes(os.path.join(folder, PICKLE_FILE), prepared.pickled)
        _use_pickle(prepared.job, folder)
    with replacing(os.path.join(folder, ROWS_FILE), encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in prepared.rows)


def again(store: RunStore) -> Prepared:
    """The same run's workload, from its folder."""
    document = store.document
    spec = specs.loads(store.spec_text, folder=_folder(document["folder"]), label=f"{store.run}/spec.yaml")
    assert isinstance(spec, Sweep)
    try:
        with open(os.path.join(store.folder, ROWS_FILE), encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
    except FileNotFoundError:
        raise SpecError(
            f"Run {store.run} was killed before its rows were kept, and nothing of it ran.",
            hint=f"Start it again from your program, and remove this one: shoal rm {store.run}",
        ) from None
    job = SweepJob(spec, ListRows(rows), document["limit"], PICKLE_FILE if document["pickle"] else None)
    if document["pickle"]:
        _use_pickle(job, store.folder)
    return Prepared(spec, job, document, rows)


def _folder(path: str) -> str:
    """Where the program was; where only the run was brought, the current folder."""
    return path if os.path.isdir(path) else Here().folder


def _use_pickle(job: Any, folder: str) -> None:
    job.factory = job.factory._replace(blob=os.path.join(folder, PICKLE_FILE))


def _plain_rows(rows: Iterable[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    if rows is None:
        raise SpecError(
            "A function needs rows.", hint="shoal.run(function, [{'lr': 0.1}, {'lr': 0.01}]): a trial each."
        )
    plain = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise SpecError(
                f"Row {number} is a {type(row).__name__}.", hint="Each row is a dict of arguments."
            )
        plain.append({str(name): _plain(name, value, number) for name, value in row.items()})
    if not plain:
        raise SpecError("There are no rows.", hint="Each row is a dict of arguments: one trial.")
    reserved = sorted(set(specs.RESERVED) & {name for row in plain for name in row})
    if reserved:
        raise SpecError(
            f"Reserved names cannot be parameters: {', '.join(reserved)}.",
            hint=f"Rename them, for example to my_{reserved[0]}.",
        )
    return plain


def _plain(name: str, value: Any, number: int) -> Any:
    from shoal.engine.workers.reporting import plain_metrics

    try:
        return plain_metrics({name: value})[str(name)]
    except TypeError:
        raise SpecError(
            f"Row {number}: {name!r} is a {type(value).__name__}, which cannot be recorded.",
            hint="Use numbers, texts, lists and dicts; let the function load what is larger.",
        ) from None


def _reference(function: Callable[..., Any]) -> tuple[str, str | None]:
    """`module:name`, and the folder it can be imported from; None when it has to be sent by value."""
    module = getattr(function, "__module__", None) or "__main__"
    name = getattr(function, "__qualname__", type(function).__name__)
    safe = re.sub(r"\W", "_", name.replace("<locals>.", "")) or "function"
    loaded = sys.modules.get(module)
    path = getattr(loaded, "__file__", None)
    found: Any = loaded
    for part in name.split("."):
        found = getattr(found, part, None)
    if module == "__main__" or path is None or found is not function:
        return f"{module.replace('__main__', 'main')}:{safe}", None
    folder = os.path.dirname(os.path.abspath(path))
    for _ in range(module.count(".") + (os.path.basename(path) == "__init__.py")):
        folder = os.path.dirname(folder)
    return f"{module}:{name}", folder


def _pickle(function: Callable[..., Any]) -> bytes:
    import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(function)
    except Exception as error:
        raise SpecError(
            f"The function cannot be sent to workers: {error}.",
            hint="It may use something that cannot be copied, such as an open file: open it inside the function.",
        ) from error
    return data


def _document(function: Callable[..., Any], reference: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The workload file that says the same."""
    known = (*LIMITS, *RESOURCES, *OTHERS)
    unknown = [name for name in settings if name not in known]
    if unknown:
        from shoal.errors import unknown as unknown_error

        raise unknown_error("setting", unknown[0], known)
    document: dict[str, Any] = {
        "kind": "sweep",
        "name": settings.get("name") or _name(function),
        "trials": {"table": ROWS_FILE},
        "run": {"function": reference},
    }
    for section, names in (("limits", LIMITS), ("resources", RESOURCES)):
        part = {name: settings[name] for name in names if settings.get(name) is not None}
        if part:
            document[section] = part
    document.update({name: settings[name] for name in OTHERS[1:] if settings.get(name) is not None})
    return document


def _name(function: Callable[..., Any]) -> str:
    name = re.sub(r"[^a-z0-9._-]+", "-", getattr(function, "__name__", "function").lower()).strip("-._")
    return name[:63] or "function"

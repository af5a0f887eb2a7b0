"""From what a user gives (a file, or a function and rows) to a job that can be run, with its packages."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeVar

from shoal import spec as specs
from shoal.api.machines import Machines
from shoal.errors import Problem, SpecError, several
from shoal.model import Decision
from shoal.spec import Workload
from shoal.work.job import Job
from shoal.work.kind import kind_of

W = TypeVar("W", bound=Workload)
Target = str | os.PathLike[str] | Callable[..., Any]
KNOWN_AS = {
    "cv2": "opencv-python",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "yaml": "PyYAML",
    "bs4": "beautifulsoup4",
}
"""Packages that have another name than their module, and that people trip over most."""


class Prepared(NamedTuple):
    """A checked workload, and all that a resume needs to make it again."""

    spec: Workload
    job: Job
    document: dict[str, Any]
    rows: Sequence[Mapping[str, Any]] | None = None
    """The rows of a function run, to be kept with it."""
    pickled: bytes | None = None
    """A function that was sent by value."""


def prepared(
    target: Target,
    rows: Iterable[Mapping[str, Any]] | None,
    sets: Sequence[str],
    limit: int | None,
    settings: Mapping[str, Any],
    folder: str,
    *,
    inline: bool = False,
) -> Prepared:
    """What is to be run, checked; a function that cannot be imported runs in `folder`."""
    if callable(target):
        from shoal.api import functions

        return functions.from_function(target, rows, settings, folder, limit, inline=inline)
    if not isinstance(target, str | os.PathLike):
        raise SpecError(
            f"Expected a workload file or a function, found a {type(target).__name__}.",
            hint='shoal.run("sweep.yaml"), or shoal.run(function, rows).',
        )
    _refuse_settings(rows, settings)
    return from_file(os.fspath(target), sets, limit, inline=inline)


def _refuse_settings(rows: object, settings: Mapping[str, Any]) -> None:
    if rows is not None or settings:
        raise SpecError(
            "Rows and settings go with a function, not with a workload file.",
            hint="Write them into the file, or pass sets=['limits.retries=1'].",
        )


def from_file(
    path: str, sets: Sequence[str] = (), limit: int | None = None, *, inline: bool = False
) -> Prepared:
    """Load and check a workload file; raises `SpecError` with everything that is wrong.

    `inline` has its items run one at a time; a resume does not keep to that.
    """
    ensure_limit(limit)
    spec = specs.load(path, sets)
    assert isinstance(spec, Workload)
    if inline:
        spec = one_at_a_time(spec)
    document = {"path": os.path.abspath(path), "sets": list(sets), "limit": limit}
    return Prepared(spec, job_of(spec, limit=limit), document)


def one_at_a_time(spec: W) -> W:
    """The same workload, with one worker."""
    return spec.replaced(limits=spec.limits.replaced(concurrent=1))


def ensure_limit(limit: object) -> None:
    """`SpecError` unless this is None or a number of items that can be taken."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise SpecError(
            f"limit: expected a whole number of at least 1, found {limit!r}.",
            hint="Leave it out for all of them.",
        )


def what_runs(spec: Workload) -> str:
    """The code that a workload names, in a few words."""
    section = getattr(spec, kind_of(spec.kind).code, None)
    named = [(name, getattr(section, name)) for name in getattr(section, "exactly_one", ())]
    return ", ".join(f"{name} {value}" for name, value in named if value is not None)


def job_of(spec: Workload, *, limit: int | None = None) -> Job:
    """The job of a spec, by its kind."""
    return kind_of(spec.kind).prepare(spec, limit=limit)


def decision(job: Job, where: Machines) -> tuple[Decision, ...]:
    """What is done about `requirements:`, and why; nothing for a workload without."""
    wanted = job.packages
    if not wanted.lines:
        return ()
    if not where.embedded:
        names = ", ".join(wanted.requirements)
        why = f"each node installs what it does not have of {names}, once, before it gets work"
        return (Decision("packages", "install on each node", why),)
    from shoal.engine.workers import packages

    found = packages.find(wanted)
    names = ", ".join(found.missing)
    if not found.missing:
        return (Decision("packages", "none", "everything in requirements: is installed where Shoal runs"),)
    if found.complete:
        why = f"{names}: installed before, in {found.folder}"
        return (Decision("packages", "reuse", why),)
    why = f"{names}: not installed where Shoal runs; kept in {found.folder} for all later runs"
    return (Decision("packages", "install", why),)


def announcement(job: Job) -> str | None:
    """What a person should know who would otherwise wonder what takes so long on this machine."""
    if not job.packages.lines:
        return None
    from shoal.engine.workers import packages

    found = packages.find(job.packages)
    return None if found.complete else f"Installing {', '.join(found.missing)}"


def equip(job: Job, where: Machines) -> None:
    """Have the workload's packages on machines that are `ready`. May take minutes the first time, nothing later.

    Raises `SpecError` when a package cannot be had, or when the code imports one that nobody asked for.
    """
    if where.equipped:
        return
    try:
        _equip(job, where)
    except BaseException:
        where.close()
        raise
    where.equipped = True


def _equip(job: Job, where: Machines) -> None:
    wanted = job.packages
    if wanted.lines and not where.embedded:
        _equip_ray(job, where)
        return
    if wanted.lines:
        from shoal.engine.workers import packages

        where.python = packages.ensure(wanted).python
    missing = problems(job, where)
    if missing:
        raise several(missing)


def _equip_ray(job: Job, where: Machines) -> None:
    from shoal.engine.ray.node_packages import NodePackages
    from shoal.engine.ray.nodes import alive

    on_nodes = NodePackages(job.packages, job.asks())
    on_nodes.prepare(alive())
    where.on_nodes = on_nodes


def problems(job: Job, where: Machines) -> list[Problem]:
    """The modules that the code is certain to import and that are not there. Nothing is imported to find out.

    Not on a Ray cluster, whose nodes have what they have; nor while the packages are yet to be installed.
    """
    if not where.embedded:
        return []
    folders: list[str] = []
    if job.packages.lines:
        from shoal.engine.workers import packages

        found = packages.find(job.packages)
        if not found.complete:
            return []
        folders = found.folders
    imports = job.imports()
    return [
        Problem(f"{imports[name]}: there is no module {name!r}: it is not installed.", _hint(name, job))
        for name in _not_importable(imports, folders)
    ]


def _not_importable(modules: Iterable[str], folders: Sequence[str]) -> list[str]:
    """Which of these top-level modules are found neither in `folders` nor where this process finds its own."""
    return [name for name in modules if not (_in_folders(name, folders) or _here(name))]


def _in_folders(name: str, folders: Sequence[str]) -> bool:
    return bool(folders) and PathFinder.find_spec(name, list(folders)) is not None


def _here(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return name in sys.modules


def _hint(name: str, job: Job) -> str:
    package = KNOWN_AS.get(name, name)
    if job.packages.lines:
        return f"Add the package that has it to requirements: (is it {package}?)"
    install = "install it where Shoal runs"
    if (extra := kind_of(job.kind).extras.get(name)) is not None:
        install += f": pip install 'shoal[{extra.extra}]'"
    return f"Write requirements: [{package}] into the workload, or {install}."

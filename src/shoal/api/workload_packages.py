"""A workload's packages before its run is made: what the plan says of them, having them installed, what is missing."""

from __future__ import annotations

from shoal.api.machines import Machines
from shoal.engine import modules
from shoal.errors import Problem, several
from shoal.model import Decision
from shoal.work.job import Job
from shoal.work.kind import kind_of

KNOWN_AS = {
    "cv2": "opencv-python",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "yaml": "PyYAML",
    "bs4": "beautifulsoup4",
}
"""Packages that have another name than their module, and that people trip over most."""


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
        for name in modules.not_importable(imports, folders)
    ]


def _hint(name: str, job: Job) -> str:
    package = KNOWN_AS.get(name, name)
    if job.packages.lines:
        return f"Add the package that has it to requirements: (is it {package}?)"
    install = "install it where Shoal runs"
    if (extra := kind_of(job.kind).extras.get(name)) is not None:
        install += f": pip install 'shoal[{extra.extra}]'"
    return f"Write requirements: [{package}] into the workload, or {install}."

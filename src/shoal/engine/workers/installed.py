"""What is installed beside Shoal, and which requirements it meets. Nothing of it is imported."""

from __future__ import annotations

import os
import re
import sys
from importlib import metadata
from typing import TYPE_CHECKING

from shoal.model.packages import Packages

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def site_folders() -> list[str]:
    """Where packages of the environment that runs Shoal are, in the order in which they are looked for."""
    found = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    return list(dict.fromkeys(os.path.abspath(path) for path in found))


def inventory() -> list[str]:
    """The name and version of every package beside Shoal, without opening any of them."""
    names: set[str] = set()
    for folder in site_folders():
        try:
            entries = os.listdir(folder)
        except OSError:
            continue
        names.update(entry for entry in entries if entry.endswith((".dist-info", ".egg-info")))
    return sorted(names)


def unmet(packages: Packages) -> list[str]:
    """The requirements that the environment that runs Shoal does not meet as it is."""
    from packaging.requirements import InvalidRequirement, Requirement

    constraints: dict[str, list[Requirement]] = {}
    for line in packages.constraints:
        try:
            constraint = Requirement(_bare(line))
        except InvalidRequirement:
            continue  # An option.
        constraints.setdefault(_canonical(constraint.name), []).append(constraint)
    missing = []
    for line in packages.requirements:
        try:
            requirement = Requirement(_bare(line))
        except InvalidRequirement:
            missing.append(line)  # The address of an archive: only pip knows what is in it.
            continue
        wanted = [requirement, *constraints.get(_canonical(requirement.name), [])]
        if not all(_met(each, set()) for each in wanted):
            missing.append(line)
    return missing


def _met(requirement: Requirement, seen: set[tuple[str, str]], extra: str = "") -> bool:
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
        return True
    if requirement.url is not None:
        return False
    try:
        found = metadata.distribution(requirement.name)
    except metadata.PackageNotFoundError:
        return False
    if not requirement.specifier.contains(found.version, prereleases=True):
        return False
    return all(_has_extra(found, each, seen) for each in requirement.extras)


def _has_extra(found: metadata.Distribution, extra: str, seen: set[tuple[str, str]]) -> bool:
    """Whether everything that an extra adds is there, too."""
    from packaging.requirements import Requirement

    key = (_canonical(found.metadata["Name"]), extra)
    if key in seen:
        return True
    seen.add(key)
    return all(_met(Requirement(line), seen, extra) for line in found.requires or ())


def _bare(line: str) -> str:
    """Without the options of one requirement, such as --hash."""
    return re.sub(r"\s+--?[a-z].*$", "", line)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()

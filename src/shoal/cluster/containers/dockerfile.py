"""The image of a workload as a Dockerfile: Python, Ray, Shoal, its packages and its folder. Pure; builds nothing.

No secret and no value of the environment goes into it, and nothing in it is put together by a shell.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Sequence

from shoal.cluster.containers.container_groups import HOME, RUNS, USER_ID, WORK
from shoal.cluster.containers.documents import Document, Versions
from shoal.errors import Problem, several

DOCKERFILE = "Dockerfile"
IGNORE = f"{DOCKERFILE}.dockerignore"
"""Beside the Dockerfile, where docker looks first, so that the workload's folder stays as it is."""


def image(requirements: Sequence[str], left_out: Sequence[str], versions: Versions) -> list[Document]:
    """The Dockerfile of a workload, and what its build leaves out of the folder."""
    return [
        Document(DOCKERFILE, _dockerfile(requirements, versions)),
        Document(IGNORE, _ignore(left_out)),
    ]


def _dockerfile(requirements: Sequence[str], versions: Versions) -> str:
    files, packages = _sorted_out(requirements)
    lines = [
        "# Build it with the workload's folder as context: docker build -f Dockerfile -t NAME FOLDER",
        f"FROM python:{versions.python}-slim",
        f"RUN useradd --uid {USER_ID} --create-home --home-dir {HOME} --shell /usr/sbin/nologin shoal \\",
        f"    && install -d -o shoal -g shoal {WORK} {RUNS} /etc/shoal",
        'ENV PYTHONUNBUFFERED="1" PIP_NO_CACHE_DIR="1" PIP_DISABLE_PIP_VERSION_CHECK="1"',
        f"WORKDIR {WORK}",
        f'RUN ["pip", "install", "ray[default]=={versions.ray}"]',
        "# Where Shoal comes from: a version in your package index, or the address of a wheel.",
        f'ARG SHOAL="shoal=={versions.shoal}"',
        'RUN pip install "$SHOAL"',
    ]
    for file in files:
        lines += [f"COPY {json.dumps([file, file])}", f"RUN {json.dumps(['pip', 'install', '-r', file])}"]
    if packages:
        lines.append(f"RUN {json.dumps(['pip', 'install', *packages])}")
    lines += [f"COPY --chown={USER_ID}:{USER_ID} . .", f"USER {USER_ID}:{USER_ID}", 'CMD ["python"]']
    return "\n".join(lines) + "\n"


def _sorted_out(requirements: Sequence[str]) -> tuple[list[str], list[str]]:
    """Requirements files, and packages; raises `SpecError` for what cannot or must not go into an image."""
    files, packages, problems = [], [], []
    for line in requirements:
        if re.search(r"//[^/\s]*@", line):
            problems.append(
                Problem(
                    "requirements: an address with a password in it would stay in the image.",
                    "Give pip its credentials while building, with a secret mount or a netrc file.",
                )
            )
        elif line.startswith("-r "):
            file = posixpath.normpath(line.removeprefix("-r ").strip())
            files.append(file)
            if posixpath.isabs(file) or file.startswith(".."):
                problems.append(
                    Problem(
                        f"requirements: {file} is outside of the workload's folder, which is all that a build sees.",
                        "Put it into the folder.",
                    )
                )
        elif line.lstrip().startswith("-"):
            problems.append(
                Problem(f"requirements: {line!r} is an option, not a package.", "Put options into a file.")
            )
        else:
            packages.append(line.strip())
    if problems:
        raise several(problems)
    return files, packages


def _ignore(left_out: Sequence[str]) -> str:
    """The patterns of a shipped folder, as docker writes them: a name counts at any depth, the last one decides."""
    lines = []
    for pattern in left_out:
        clean = pattern.removeprefix("!").replace("[!", "[^").lstrip("/")
        lines.append(("!" if pattern[0] == "!" else "") + (clean if "/" in clean else f"**/{clean}"))
    return "\n".join(lines) + "\n"

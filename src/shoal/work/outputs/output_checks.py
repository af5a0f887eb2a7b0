"""What can be known to be wrong with an output before anything is started. Connects to nothing."""

from __future__ import annotations

import os

from shoal.errors import FileError, Problem, SpecError
from shoal.files import is_among, is_url
from shoal.spec.shared_sections import Input, Output
from shoal.work.outputs.layout import ERRORS, opened, part_key
from shoal.work.outputs.ownership import ensure_free


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

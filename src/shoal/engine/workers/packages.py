"""The packages of a workload on this machine: installed once into an environment of their own, then used by all runs.

The environment sees what is installed beside Shoal, too, after its own. It is known by a digest of what was asked
for and of what it was made beside; deleting its folder, or all of them, is always safe.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, NamedTuple

from shoal.engine.workers import linux, runner
from shoal.errors import SpecError
from shoal.model.node import Packages

if TYPE_CHECKING:
    from packaging.requirements import Requirement


COMPLETE = "complete"
"""The file whose presence says that everything was installed; its time is when the environment was last used."""
BESIDE = "zzz_shoal.pth"
"""The last file of its kind, so that what is beside Shoal comes after everything else."""
QUOTED_LINES = 4
WAIT_S = 3600.0
"""How long to wait for another process that installs the same packages."""
DYING = (
    "import os, sys; from shoal.engine.workers import linux; linux.die_with_parent(); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)
"""Becomes the program that its arguments name, and ends when the process that started it does."""
UNWANTED_SETTINGS = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON")
"""Settings of pip that would put packages elsewhere. All others are the user's, and count."""

_log = logging.getLogger(__name__)


class Environment(NamedTuple):
    """Where a workload's packages are, or would be. `missing` is what is not beside Shoal already."""

    folder: str
    missing: Sequence[str]

    @property
    def python(self) -> str:
        return os.path.join(self.folder, "bin", "python") if self.missing else sys.executable

    @property
    def complete(self) -> bool:
        """Whether there is nothing left to install."""
        return not self.missing or (
            os.path.exists(os.path.join(self.folder, COMPLETE)) and os.path.exists(self.python)
        )

    @property
    def folders(self) -> list[str]:
        """Where its own modules are; none when it needs none of its own."""
        return [_site(self.folder)] if self.missing and self.complete else []


def cache_folder() -> str:
    return runner.cache_folder("packages")


def find(packages: Packages) -> Environment:
    """The environment for these packages; nothing is made."""
    missing = unmet(packages)
    return Environment(os.path.join(cache_folder(), _digest(packages)), missing)


def _digest(packages: Packages) -> str:
    """Equal where an environment can be shared: a change beside Shoal may change what had to be installed."""
    parts = [
        sorted(set(packages.requirements)),
        [line for line in packages.lines if line.startswith("-")],
        sorted(set(packages.constraints)),
        [sys.version, sysconfig.get_platform(), sys.prefix],
        inventory(),
    ]
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=12).hexdigest()


def ensure(packages: Packages) -> Environment:
    """The environment, complete: installed by the first who asks, while others wait. Raises `SpecError`."""
    found = find(packages)
    if not found.missing:
        return found
    try:
        os.makedirs(os.path.dirname(found.folder), mode=0o700, exist_ok=True)
        if not found.complete:
            with _locked(found.folder) as lock:
                if not found.complete:
                    _install(packages, found, lock)
        os.utime(os.path.join(found.folder, COMPLETE))
    except OSError as error:
        raise SpecError(
            f"requirements: the packages cannot be kept in {cache_folder()}: {error.strerror or error}.",
            hint="Set XDG_CACHE_HOME to a folder that can be written.",
        ) from error
    return found


@contextmanager
def _locked(folder: str) -> Iterator[int]:
    """Hold the lock of this environment. Somebody may delete the file at any time: then it is another lock."""
    path = f"{folder}.lock"
    until = time.monotonic() + WAIT_S
    while True:
        with open(path, "w") as file:
            _wait(file, folder, until)
            try:
                same = os.stat(path).st_ino == os.fstat(file.fileno()).st_ino
            except FileNotFoundError:
                same = False
            if same:
                yield file.fileno()
                return


def _wait(file: IO[str], folder: str, until: float) -> None:
    """Until the lock is ours. Who waits is told for whom; `SpecError` when it takes too long."""
    is_told = False
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise SpecError(
                    f"requirements: another process has been installing the same packages for {WAIT_S:g} s.",
                    hint=f"What it does is in {folder}.log; end it if it hangs.",
                ) from None
        if not is_told:
            _log.warning("Another process is installing the same packages; waiting for it (%s.log).", folder)
            is_told = True
        time.sleep(0.05)


def _install(packages: Packages, environment: Environment, lock: int) -> None:
    folder = environment.folder
    if os.path.isdir(folder):
        shutil.rmtree(folder)  # What a killed install left.
    _log.info("installing %s into %s", ", ".join(environment.missing), folder)
    log_path = f"{folder}.log"
    with open(os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as log:
        begun = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        log.write(f"--- installing, {begun}: {', '.join(environment.missing)}\n")
        log.flush()
        start = log.tell()
        try:
            _build(packages, folder, log, lock)
        except subprocess.CalledProcessError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise SpecError(
                f"requirements: the packages could not be installed: {_reason(log_path, start, error)}",
                hint=f"Nothing was started. All that the installer said is in {log_path}",
            ) from None
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def _build(packages: Packages, folder: str, log: IO[str], lock: int) -> None:
    """A virtual environment in its place from the beginning (programs in it know their path), marked at the end."""
    _call([sys.executable, "-P", "-m", "venv", "--without-pip", folder], log, lock)
    with open(os.path.join(_site(folder), BESIDE), "w", encoding="utf-8") as file:
        # Not plain paths: packages that are installed as links are there by .pth files themselves.
        file.writelines(f"import site; site.addsitedir({path!r})\n" for path in site_folders())
    files = []
    for name, option, lines in (
        ("requirements.txt", "-r", packages.lines),
        ("constraints.txt", "-c", packages.constraints),
    ):
        if lines:
            path = os.path.join(folder, name)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
            files += [option, path]
    _call([*_installer(folder), *files], log, lock)
    with open(os.path.join(folder, COMPLETE), "w") as file:
        file.flush()
        os.fsync(file.fileno())


def _site(folder: str) -> str:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return os.path.join(folder, "lib", version, "site-packages")


def _installer(folder: str) -> list[str]:
    """pip where Shoal's environment has it: it knows the user's settings, and what is there already; else uv."""
    python = os.path.join(folder, "bin", "python")
    if find_spec("pip") is not None:
        quiet = ("--no-input", "--disable-pip-version-check", "--no-warn-script-location")
        return [python, "-P", "-m", "pip", "install", *quiet]
    uv = shutil.which("uv")
    if uv is None:
        raise SpecError(
            f"requirements: there is neither pip in {sys.prefix} nor uv on the PATH to install packages with.",
            hint="python -m ensurepip, or install uv.",
        )
    return [uv, "pip", "install", "--python", python]


def _call(command: Sequence[str], log: IO[str], lock: int) -> None:
    """Run it to its end. It dies with this process; until it has, it holds the lock, so nobody works beside it."""
    settings = {name: value for name, value in os.environ.items() if name not in UNWANTED_SETTINGS}
    settings |= {"PIP_USER": "0", "NO_COLOR": "1"}
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", DYING, *command],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=settings,
        pass_fds=(lock,),
        process_group=0,
    )
    try:
        status = child.wait()
    except BaseException:
        linux.kill_group(child.pid, 9)
        child.wait()
        raise
    if status != 0:
        raise subprocess.CalledProcessError(status, list(command))


def _reason(log_path: str, start: int, error: subprocess.CalledProcessError) -> str:
    """The lines in which the installer says what was wrong; where there are none, the last it said."""
    with open(log_path, "rb") as file:
        file.seek(start)
        lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    wrong = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    said = wrong or [line for line in lines if not line.startswith(("---", "WARNING: ", "[notice]"))]
    return " ".join(said[-QUOTED_LINES:]) or f"{error.cmd[0]} ended with status {error.returncode}"


def environments() -> list[str]:
    """The folders of the environments that are complete on this machine."""
    cache = cache_folder()
    try:
        names = sorted(os.listdir(cache))
    except OSError:
        return []
    return [
        os.path.join(cache, name) for name in names if os.path.exists(os.path.join(cache, name, COMPLETE))
    ]


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

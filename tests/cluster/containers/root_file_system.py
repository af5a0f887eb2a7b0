"""The root file system of an image with this Python, Ray and Shoal in it, as a tar stream: there is no registry here.

python root_file_system.py > image.tar
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

PROGRAMS = ("sh", "hostname", "cut", "cat", "head", "sleep", "env", "uname", "ps")
SKIPPED = ("test", "tests", "idlelib", "tkinter", "ensurepip", "site-packages", "__pycache__", "jars")
RAY = b"#!/usr/local/bin/python\nfrom ray.scripts.scripts import main\nmain()\n"


def packages(names: Iterable[str]) -> Iterator[metadata.Distribution]:
    """The distributions and all that they need."""
    todo, seen = list(names), set()
    while todo:
        name = re.split(r"[^A-Za-z0-9._-]", todo.pop(), maxsplit=1)[0].lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        yield found
        todo += [each for each in found.requires or [] if "extra ==" not in each]


def libraries(files: Iterable[str]) -> set[str]:
    """The shared libraries that these programs and modules load."""
    found: set[str] = set()
    for file in files:
        done = subprocess.run(["ldd", file], capture_output=True, text=True, check=False)
        found |= set(re.findall(r"(/\S+) \(0x", done.stdout))
    return found


def main() -> None:
    prefix, version = Path(sys.base_prefix), f"python{sys.version_info.major}.{sys.version_info.minor}"
    standard = Path(sysconfig.get_path("stdlib"))
    site = standard / "site-packages"
    chosen: dict[str, str] = {}
    for program in PROGRAMS:
        if path := shutil.which(program, path="/usr/bin:/bin:/usr/sbin:/sbin"):
            chosen[f"usr/bin/{program}"] = os.path.realpath(path)
    chosen[str(prefix / "bin" / version)] = os.path.realpath(prefix / "bin" / version)
    for folder, names, files in os.walk(standard):
        names[:] = [name for name in names if name not in SKIPPED]
        chosen |= {os.path.join(folder, file): os.path.join(folder, file) for file in files}
    for distribution in packages(["ray", "shoal", "setuptools"]):
        for file in distribution.files or []:
            path = str(file.locate())
            if not str(file).startswith("..") and os.path.isfile(path):
                chosen[str(site / str(file))] = path
    import shoal

    source = Path(shoal.__file__).parent
    chosen |= {str(site / path.relative_to(source.parent)): str(path) for path in source.rglob("*.py")}
    loaded = [path for path in chosen.values() if path.endswith(".so") or ".so." in path or "/bin/" in path]
    loaded += [path for path in chosen.values() if path.endswith(("/raylet", "/gcs_server"))]
    chosen |= {path: path for path in libraries(loaded) if "site-packages" not in path}
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", dereference=True) as archive:
        for folder in ("tmp", "home/shoal/runs", "home/shoal/work", "run/secrets", "etc/shoal"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, 0o777, 1000, 1000
            archive.addfile(entry)
        text(archive, "etc/passwd", b"root:x:0:0::/root:/bin/sh\nshoal:x:1000:1000::/home/shoal:/bin/sh\n")
        text(archive, "usr/local/bin/ray", RAY, 0o755)
        link(archive, "usr/local/bin/python", str(prefix / "bin" / version))
        link(archive, "bin", "usr/bin")
        if "/lib64" not in {os.path.dirname(path) for path in chosen}:
            link(archive, "lib64", "usr/lib64")
        for name, path in sorted(chosen.items()):
            archive.add(path, arcname=name.lstrip("/"), recursive=False)


def text(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))


def link(archive: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    archive.addfile(entry)


if __name__ == "__main__":
    main()

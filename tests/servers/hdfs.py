"""A real HDFS: a NameNode and a DataNode of Hadoop 2.7, whose classes come with the source archive of PySpark 2.4.

The archive (220 MB) is downloaded by pip once, and its jars are kept under `~/.cache/shoal-tests`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import pytest

from servers.processes import accepts, free_ports, retried, server

PACKAGE = "pyspark==2.4.8"
CACHE = Path.home() / ".cache" / "shoal-tests"
DOWNLOAD_S = 200
"""A test and its fixtures have 300 s; CI downloads before the tests."""
SERVER = "org.apache.hadoop.hdfs.server"
OPENED = (
    "java.base/java.lang",
    "java.base/java.util",
    "java.base/java.net",
    "java.base/sun.nio.ch",
    "java.base/java.nio",
)
LOGGING = """log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %c: %m%n
"""
_numbers = count(1)


class Hdfs(NamedTuple):
    """Where the NameNode listens."""

    url: str


class HdfsFolder(NamedTuple):
    """A folder of a test's own. `url` names it."""

    server: Hdfs
    url: str


def jars() -> Path:
    """The folder with Hadoop's classes; skips the test where they cannot be had."""
    folder = CACHE / "hadoop-2.7.3"
    if not folder.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as aside:
            extract(download(Path(aside)), Path(aside) / "jars")
            try:
                (Path(aside) / "jars").rename(folder)
            except OSError:
                if not folder.is_dir():  # Nobody else was faster: something is wrong.
                    raise
    return folder


def download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-binary", "pyspark", "--no-build-isolation", "--dest", str(folder), PACKAGE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_S, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"Hadoop cannot be had: {PACKAGE} was not downloaded within {DOWNLOAD_S}s")
    archives = list(folder.glob("pyspark-*.tar.gz"))
    if not archives:
        why = (done.stderr.strip().splitlines() or ["pip says nothing"])[-1]
        pytest.skip(f"Hadoop cannot be had: pip did not download {PACKAGE}: {why}")
    return archives[0]


def extract(archive: Path, target: Path) -> None:
    target.mkdir()
    with tarfile.open(archive) as tar:
        for member in tar:
            name = Path(member.name)
            source = tar.extractfile(member) if name.suffix == ".jar" and "deps/jars" in member.name else None
            if source is not None:
                with source, (target / name.name).open("wb") as copy:
                    shutil.copyfileobj(source, copy)


def write_config(folder: Path, name: str, values: dict[str, str]) -> None:
    lines = [
        f"<property><name>{key}</name><value>{escape(value)}</value></property>"
        for key, value in values.items()
    ]
    (folder / name).write_text("<configuration>\n" + "\n".join(lines) + "\n</configuration>\n")


@contextmanager
def running(java: str, classes: Path, folder: Path) -> Iterator[Hdfs]:
    """A NameNode and a DataNode with their data in this folder."""
    name_port, name_http, data_port, data_http, data_ipc = free_ports(5)
    conf = folder / "conf"
    for each in ("hdfs", "datanode"):  # Pages of its own that Hadoop insists on; the archive has none.
        (conf / "webapps" / each).mkdir(parents=True)
    hdfs = Hdfs(f"hdfs://127.0.0.1:{name_port}")
    write_config(conf, "core-site.xml", {"fs.defaultFS": hdfs.url, "hadoop.tmp.dir": str(folder / "tmp")})
    settings = {
        "dfs.replication": "1",
        "dfs.webhdfs.enabled": "false",
        "dfs.namenode.http-address": f"127.0.0.1:{name_http}",
        "dfs.datanode.address": f"127.0.0.1:{data_port}",
        "dfs.datanode.http.address": f"127.0.0.1:{data_http}",
        "dfs.datanode.ipc.address": f"127.0.0.1:{data_ipc}",
        "dfs.namenode.name.dir": (folder / "name").as_uri(),
        "dfs.datanode.data.dir": (folder / "data").as_uri(),
        "dfs.namenode.fs-limits.min-block-size": "1024",
        "dfs.namenode.safemode.extension": "0",
    }
    write_config(conf, "hdfs-site.xml", settings)
    (conf / "log4j.properties").write_text(LOGGING)
    command = [java, "-Xmx256m", *(f"--add-opens={each}=ALL-UNNAMED" for each in OPENED)]
    command += ["-cp", f"{conf}{os.pathsep}{classes}/*"]
    name_node = [*command, f"{SERVER}.namenode.NameNode"]
    formatting = [*name_node, "-format", "-force", "-nonInteractive"]
    subprocess.run(formatting, cwd=folder, check=True, capture_output=True, timeout=120)
    data_node = [*command, f"{SERVER}.datanode.DataNode"]
    with (
        server("namenode", name_node, folder, lambda: accepts(name_port)),
        server("datanode", data_node, folder, lambda: accepts(data_port) and can_write(hdfs)),
    ):
        yield hdfs


def can_write(hdfs: Hdfs) -> bool:
    """Whether a block finds a DataNode."""
    from hdfs_native import Client, WriteOptions

    try:
        with Client(hdfs.url).create("/ready", WriteOptions(overwrite=True)) as file:
            file.write(b"ready")
    except RuntimeError:
        return False
    return True


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """A running HDFS. Skips where there is no Java, no client, or no Hadoop to be had."""
    pytest.importorskip("hdfs_native", reason="the extra `hdfs` is not installed")
    java = shutil.which("java")
    if java is None:
        pytest.skip("there is no Java")
    classes = jars()
    with retried(lambda: running(java, classes, tmp_path_factory.mktemp("hdfs"))) as started:
        yield started


@pytest.fixture
def hdfs_folder(hdfs: Hdfs) -> HdfsFolder:
    """A folder that nobody else uses, and that does not exist yet."""
    return HdfsFolder(hdfs, f"{hdfs.url}/test-{next(_numbers)}")

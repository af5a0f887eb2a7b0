"""A real Spark: a standalone master with two workers, from the package of PySpark."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from servers.processes import accepts, free_ports, retried, server, wait_until

DEPLOY = "org.apache.spark.deploy"
WORKERS = 2


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """The address of a master with workers of one core each."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    home = os.path.dirname(found.origin)
    port, page, *pages = free_ports(2 + WORKERS)
    environment = {**os.environ, "SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1"}
    start = [os.path.join(home, "bin", "spark-class")]
    master = [*start, f"{DEPLOY}.master.Master", "--host", "127.0.0.1"]
    master += ["--port", str(port), "--webui-port", str(page)]
    worker = [*start, f"{DEPLOY}.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g"]
    worker += ["--work-dir", str(folder / "work")]
    url = f"spark://127.0.0.1:{port}"

    def at_page(number: int) -> list[str]:
        return [*worker, "--webui-port", str(pages[number]), url]

    with (
        server("master", master, folder, lambda: accepts(port) and accepts(page), environment),
        server("worker-1", at_page(0), folder, lambda: accepts(pages[0]), environment),
        server("worker-2", at_page(1), folder, lambda: accepts(pages[1]), environment),
    ):
        wait_until("Spark's workers", lambda: alive(page) == WORKERS)
        yield url


def alive(page: int) -> int:
    """How many workers the master knows."""
    with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
        return int(json.load(answer)["aliveworkers"])


@pytest.fixture(scope="session")
def spark_master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running master. For tests that are marked `spark`."""
    with retried(lambda: running(tmp_path_factory.mktemp("spark"))) as url:
        yield url

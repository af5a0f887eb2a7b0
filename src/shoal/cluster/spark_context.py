"""Spark on this machine's side: whether Java is there, and a driver's context for a master. Knows no kind of work."""

from __future__ import annotations

import os
import re
import shutil
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from shoal.cluster.agent.ray_node import address_towards
from shoal.errors import ClusterError, Problem

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by `spark-submit`: this process is the driver of an application whose master and addresses are decided."""
_LOOPBACK = "127.0.0.1"
_HOST = re.compile(r"[a-z0-9]+://(?:https?://)?([^:/,]+)(?::(\d+))?")
_ANY_PORT = "1"
_PYTHON_ERROR = re.compile(r"^([\w.]+(?:Error|Exception): (?!Caused by Traceback).+)$", re.MULTILINE)
"""What code in an executor raised, after its traceback."""
_JAVA_ERROR = re.compile(r"^: (.+)$", re.MULTILINE)


def java_problems(environment: Mapping[str, str]) -> list[Problem]:
    """Whether there is no Java here for a driver with these variables beside those of this process."""
    home = environment.get("JAVA_HOME") or os.environ.get("JAVA_HOME")
    if shutil.which("java", path=home and os.path.join(home, "bin")):
        return []
    where = f"in {home}, which JAVA_HOME names" if home else "on the PATH"
    hint = (
        "Install Java 17 or newer (on Debian and Ubuntu: apt install default-jre-headless), or set JAVA_HOME."
    )
    return [Problem(f"backend: Spark runs on Java, and there is none {where}.", hint)]


def place(master: str) -> dict[str, str]:
    """The settings for where Spark runs, and for the address of this machine that its executors reach.

    Raises `ClusterError` where no way leads to the master.
    """
    host = _HOST.match(master)
    if host is not None:
        own = address_towards(f"{host[1]}:{host[2] or _ANY_PORT}")
    elif master.startswith("local"):
        own = _LOOPBACK
    else:
        return {"spark.master": master}
    return {"spark.master": master, "spark.driver.host": own, "spark.driver.bindAddress": own}


@contextmanager
def opened(master: str, settings: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[Any]:
    """A context, which ends with the `with`; executors have these variables. Raises `ClusterError`."""
    from pyspark import SparkConf, SparkContext

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    where = {} if SUBMITTED in os.environ else place(master)
    if own := where.get("spark.driver.host"):
        os.environ.setdefault("SPARK_LOCAL_IP", own)
    try:
        conf = SparkConf().setAll(list({**where, **settings}.items()))
        context = SparkContext(conf=conf, environment=dict(environment))
    except Exception as error:
        hint = "Is Java 17 or newer there?" if own == _LOOPBACK else "Is the master up and within reach?"
        raise ClusterError(f"Spark could not be started at {master}: {reason(error)}. {hint}") from error
    try:
        yield context
    finally:
        context.stop()


def reason(error: Exception) -> str:
    """One line of an error of Spark, which comes with pages of Java; those go to stderr."""
    traceback.print_exception(error)
    text = str(error)
    found = _PYTHON_ERROR.search(text) or _JAVA_ERROR.search(text)
    line = found[1] if found else text.strip().partition("\n")[0] or type(error).__name__
    return line.strip().rstrip(".")

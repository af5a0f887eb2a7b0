"""What starts workers is loaded while the driver starts, on the same machine: it must not bring in the driver."""

import subprocess
import sys

DRIVER = {
    "yaml", "sqlite3", "dataclasses", "csv", "hashlib",
    "shoal.api", "shoal.shape", "shoal.store", "shoal.planner",
    "shoal.spec.workload", "shoal.work.job", "shoal.work.sweep.job", "shoal.work.tables.table",
}  # fmt: skip


def test_workers_load_only_what_they_run():
    code = "import sys, shoal.engine.workers.zygote, shoal.work.sweep.trial; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert DRIVER & set(done.stdout.split()) == set()

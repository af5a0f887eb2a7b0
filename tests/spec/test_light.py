"""Loading a sweep is on the way to the first trial: it must not bring in what it does not need."""

import subprocess
import sys

HEAVY = {
    "pydantic", "numpy", "pyarrow", "optuna", "openpyxl", "ray", "torch", "pandas", "rich", "click", "psutil",
    "asyncio", "logging", "pathlib", "json", "difflib", "importlib.metadata", "sqlite3", "subprocess",
    "shoal.spec.cluster", "shoal.spec.json_schema", "shoal.spec.python_nodes", "shoal.spec.overrides",
}  # fmt: skip


def test_loading_a_sweep_stays_light(tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text("kind: sweep\ntrials: {table: t.csv}\nrun: {command: 'x {a}'}\nlimits: {timeout: 30m}\n")
    code = f"""
import sys
before = set(sys.modules)
import shoal.spec
shoal.spec.load({str(path)!r})
print(*set(sys.modules) - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()


def test_every_public_name_is_there():
    import shoal.spec

    assert all(hasattr(shoal.spec, name) for name in shoal.spec.__all__)
    assert not hasattr(shoal.spec, "nonsense")
    assert callable(shoal.spec.schema)

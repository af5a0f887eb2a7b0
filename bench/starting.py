"""How soon the first trial runs after `shoal run`, and what a table of a million rows costs."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from figures import Figure
from workbench import PYTHON, SHOAL, Spread, Workbench

COLUMNS = ("number", "rate")
POLL_S = 0.02


class Sizes(NamedTuple):
    repetitions: int = 21
    warm_up: int = 2
    rows: int = 1_000_000
    most_s: float = 240.0
    """A run of the large table is stopped after this."""


QUICK = Sizes(1, 1, 2000, 60.0)


def against_python(bench: Workbench, sizes: Sizes) -> Iterator[Figure]:
    """(d) From the command to the first trial, against an interpreter that does nothing."""
    cases = {
        "CSV, function": _small(bench, "with-function", "function: trials:mark"),
        "XLSX, function": _as_xlsx(_small(bench, "with-xlsx", "function: trials:mark")),
        "CSV, command": _small(bench, "with-command", 'command: "python trials.py {number} {rate}"'),
    }
    measured: dict[str, list[float]] = {case: [] for case in cases}
    bare = []
    for repetition in range(sizes.repetitions + sizes.warm_up):
        for case, workload in cases.items():
            seconds = _until_first_trial(bench, workload)
            if repetition >= sizes.warm_up:
                measured[case].append(seconds)
        began = time.time()
        bench.call([PYTHON, "-c", "pass"], bench.folder, bench.environment())
        bare.append(time.time() - began)
    python = Spread.of(bare[sizes.warm_up :])
    for case, values in measured.items():
        took = Spread.of([seconds * 1000 for seconds in values])
        yield Figure(
            "d",
            f"`shoal run` to the first trial ({case}), against `python -c pass`",
            took.median / 1000 / python.median,
            at_most=10.0,
            how=f"{took.words('.0f', ' ms')}; python {python.median * 1000:.1f} ms",
        )


def large_table(bench: Workbench, sizes: Sizes) -> Iterator[Figure]:
    """(f) A table of a million rows."""
    rows = ((number, number / 8) for number in range(1, sizes.rows + 1))
    workload = bench.workload("large", COLUMNS, rows, "function: trials:mark")
    began = time.time()
    with _run(workload, bench.environment()) as child:
        peak, whole = _peak_bytes(child, began + sizes.most_s)
    took = time.time() - began
    end = (
        f"the whole table was run, in {took:.0f} s"
        if whole
        else f"stopped after {took:.0f} s: {_last_line(workload)}"
    )
    yield Figure(
        "f",
        f"peak memory of the driver, table of {sizes.rows} rows",
        peak / 1e6,
        " MB",
        at_most=1000.0,
        how=end,
    )
    yield Figure(
        "f",
        "`shoal run` to the first trial, the same table",
        _mark(workload) - began,
        " s",
        at_most=15.0,
        how="measured once",
    )


def _small(bench: Workbench, name: str, run: str) -> Path:
    return bench.workload(name, COLUMNS, [(number, number / 8) for number in range(1, 5)], run)


def _as_xlsx(workload: Path) -> Path:
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(list(COLUMNS))
    for number in range(1, 5):
        sheet.append([number, number / 8])
    book.save(workload.parent / "table.xlsx")
    workload.write_text(workload.read_text().replace("table.csv", "table.xlsx"))
    return workload


def _until_first_trial(bench: Workbench, workload: Path) -> float:
    environment = bench.environment(home=f"home-{workload.parent.name}")
    began = time.time()
    bench.call([SHOAL, "run", str(workload)], workload.parent, environment)
    return _mark(workload) - began


def _mark(workload: Path) -> float:
    """When the first trial ran; the mark is taken away."""
    path = workload.parent / "mark.txt"
    at = float(path.read_text())
    path.unlink()
    return at


@contextlib.contextmanager
def _run(workload: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with open(workload.parent / "output.txt", "wb") as output:
        child = subprocess.Popen(
            [SHOAL, "run", str(workload)], cwd=workload.parent, env=environment, stdout=output, stderr=output
        )
        try:
            yield child
        finally:
            if child.poll() is None:
                child.kill()
            child.wait()


def _peak_bytes(child: subprocess.Popen[bytes], until: float) -> tuple[int, bool]:
    """The most memory that the process ever held, and whether it ended by itself; it is stopped at `until`."""
    peak, stopped = 0, False
    while child.poll() is None:
        peak = max(peak, _high_water_bytes(child.pid))
        if time.time() >= until and not stopped:
            stopped = True
            child.send_signal(signal.SIGINT)
        time.sleep(POLL_S)
    if child.returncode not in (0, 3):
        raise RuntimeError(f"`shoal run` of the large table exited with {child.returncode}")
    return peak, not stopped


def _high_water_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
    except OSError:
        return 0
    return int(lines.get("VmHWM", "0 kB").split()[0]) * 1024


def _last_line(workload: Path) -> str:
    """The last thing that the run said of itself."""
    return (workload.parent / "output.txt").read_text(errors="replace").strip().rpartition("\n")[2]

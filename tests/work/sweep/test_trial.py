"""What a worker of a sweep does for one trial: commands as processes, metrics from their output, functions."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.engine.workers.runner import Failed, Work
from shoal.work.sweep.trial import BLOCK_BYTES, CommandTrial, FunctionTrial, find_metrics, number


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("SHOAL_REPORT", str(tmp_path / "reports"))
    return os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT | os.O_APPEND)


def work(log: int, params: Mapping[str, Any], texts: Mapping[str, str] | None = None) -> Work:
    return Work(1, 1, "t1", params, texts, report=lambda metrics, step: None, log_fd=log)


def echo(folder: Path) -> Path:
    script = folder / "echo.py"
    script.write_text("import json, sys\nopen(sys.argv[1], 'w').write(json.dumps(sys.argv[2:]))\n")
    return script


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1, max_size=3
    )
)
def test_any_text_arrives_as_exactly_one_argument(values: list[str]) -> None:
    from shoal.spec.command import fill, template

    names = [f"c{index}" for index in range(len(values))]
    arguments = template("prog " + " ".join(f"{{{name}}}" for name in names) + " --all={c0}!")
    filled = fill(arguments, dict(zip(names, values, strict=True)))
    assert filled == ["prog", *values, f"--all={values[0]}!"]


def test_a_command_gets_the_exact_text_of_its_cells(log: int, tmp_path: Path) -> None:
    told = tmp_path / "told"
    trial = CommandTrial(f"python {echo(tmp_path)} {told} {{a}} {{b}} x{{c}}y", {})
    trial.run(work(log, {"a": 0.1, "b": None, "c": "$(id) 'q'\n"}, {"a": "0.10"}))
    assert told.read_text() == '["0.10", "", "x$(id) \'q\'\\ny"]'


def test_python_in_a_command_is_the_interpreter_that_runs_shoal(log: int, tmp_path: Path) -> None:
    told = tmp_path / "told"
    code = "import sys; open(sys.argv[1], 'w').write(sys.prefix)"
    CommandTrial(f'python -c "{code}" {told}', {}).run(work(log, {}))
    assert told.read_text() == sys.prefix
    CommandTrial(f'sh -c "python -c \\"{code}\\" {told}"', {}).run(work(log, {}))
    assert told.read_text() == sys.prefix


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python -c 'raise SystemExit(3)'", "exited with status 3"),
        ("python -c 'import sys; sys.exit(\"no data\")'", "exited with status 1: no data"),
        ("python -c 'import os; os.kill(os.getpid(), 11)'", "killed by SIGSEGV (segmentation fault)"),
        ("python -c 'import os; os.kill(os.getpid(), 9)'", "most likely out of memory"),
        ("no-such-program --x", "command not found: no-such-program"),
    ],
    ids=["status", "last line", "segfault", "killed", "not there"],
)
def test_a_command_that_ends_badly_says_why(log: int, command: str, words: str, capfd: Any) -> None:
    os.dup2(log, 1)
    os.dup2(log, 2)
    with pytest.raises(Failed, match=re.escape(words)):
        CommandTrial(command, {}).run(work(log, {}))


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("-3", -3), ("0.50", 0.5), ("1e-3", 0.001), ("abc", "abc"), ("", ""), (None, None)],
)
def test_a_metric_is_a_number_where_it_is_one(text: str | None, value: Any) -> None:
    assert number(text) == value
    assert type(number(text)) is type(value)


def test_a_metric_of_nan_stays_nan() -> None:
    assert number("nan") != number("nan")


def metrics(log: int, patterns: Mapping[str, str]) -> dict[str, Any]:
    return find_metrics({name: re.compile(text, re.MULTILINE) for name, text in patterns.items()}, log, 0)


def test_the_last_match_counts_wherever_it_stands_in_a_long_output(log: int) -> None:
    os.write(log, b"loss: 9\naccuracy: 0.1\n")
    os.write(log, b"x" * (3 * BLOCK_BYTES))
    os.write(log, b"\naccuracy: 0.2\n\xff\xfe not utf-8\naccuracy: 0.3\n")
    assert metrics(log, {"accuracy": r"accuracy: ([0-9.]+)", "loss": "loss: ([0-9]+)", "none": "z(.)"}) == {
        "accuracy": 0.3,
        "loss": 9,
    }


@given(st.integers(0, 200))
def test_a_match_where_two_blocks_meet_is_found(shift: int) -> None:
    import tempfile

    with tempfile.TemporaryFile() as file:
        file.write(b"." * 500 + b"\naccuracy: 0.25\n" + b"." * (BLOCK_BYTES - shift))
        file.flush()
        assert metrics(file.fileno(), {"accuracy": r"accuracy: ([0-9.]+)"}) == {"accuracy": 0.25}


def test_a_pattern_without_a_group_counts_as_a_whole(log: int) -> None:
    os.write(log, b"step 12 of 20\n")
    assert metrics(log, {"seen": r"\d+ of \d+"}) == {"seen": "12 of 20"}


def test_a_function_is_found_in_a_class_or_a_module_and_must_be_callable(
    log: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "found_here.py").write_text(
        "class A:\n @staticmethod\n def f(x): return {'y': x}\nvalue = 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert FunctionTrial("found_here:A.f").run(work(log, {"x": 4})) == {"y": 4}
    with pytest.raises(TypeError, match="is a int, not a function"):
        FunctionTrial("found_here:value")

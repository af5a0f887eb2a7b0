"""The next-cell example: its data, its models and its sheet. That Shoal runs it is tested with the sweeps."""

import csv
import importlib
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import openpyxl
import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "next-cell"
MODULES = ("mobility", "samples", "markov", "optimizers", "network", "predict", "make_sheet")
RESERVED = {"item", "state", "attempt", "node", "started", "seconds", "error"}
MARGIN = 0.35  # by which every model has to beat the most frequent cell on one user of the generated data


@pytest.fixture(scope="module")
def example() -> Iterator[SimpleNamespace]:
    """The example's modules; examples are no package, so imported from their folder and then forgotten."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    finally:
        sys.path.remove(str(FOLDER))
        for name in MODULES:
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def records(example: SimpleNamespace) -> list[Any]:
    return example.mobility.generate()


@pytest.fixture(scope="module")
def one_user(example: SimpleNamespace, records: list[Any]) -> Any:
    rows = [record._asdict() for record in records if record.user_id == 5]
    return example.samples.build(example.samples._visits_of_sheet(rows), steps=3)


def sheet() -> tuple[list[str], list[tuple[Any, ...]]]:
    header, *rows = openpyxl.load_workbook(FOLDER / "experiments.xlsx").worksheets[0].values
    return [str(name) for name in header], rows


def command() -> list[str]:
    return shlex.split(yaml.safe_load((FOLDER / "sweep.yaml").read_text())["run"]["command"])


def test_generated_records_have_the_columns_of_the_sheet(records: list[Any]) -> None:
    expected = "id user_id time cell_id signaldbm dow hour day month year workday"
    assert " ".join(records[0]._fields) == expected
    assert [record.id for record in records] == list(range(1, len(records) + 1))
    assert all(-140 < record.signaldbm < -20 and 0 <= record.hour < 24 for record in records)
    assert all(record.workday == 0 for record in records if record.dow >= 5)


def test_each_user_moves_forward_in_time(records: list[Any]) -> None:
    for _, mine in groupby(records, key=lambda record: record.user_id):
        times = [record.time for record in mine]
        assert times == sorted(times)


def test_the_same_seed_gives_the_same_records_and_another_seed_others(example: SimpleNamespace) -> None:
    first, again, other = (example.mobility.generate(seed, users=2, days=7) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_cells_have_a_long_tail(records: list[Any]) -> None:
    counts = Counter(record.cell_id for record in records)
    assert len(counts) >= 1000
    assert counts.most_common(1)[0][1] / len(records) > 0.03
    assert sum(count <= 5 for count in counts.values()) > len(counts) / 3


def test_weekends_differ_from_workdays(records: list[Any]) -> None:
    def top_at_eleven(workday: int) -> int:
        at_eleven = (r.cell_id for r in records if r.user_id == 1 and r.hour == 11 and r.workday == workday)
        return Counter(at_eleven).most_common(1)[0][0]

    assert top_at_eleven(0) != top_at_eleven(1)


LATECOMER = """
import hashlib, pathlib, sys, time
import mobility

def slowly(*arguments, whole=mobility.generate(1, users=1, days=10)):
    for place, record in enumerate(whole):
        if place % 200 == 0:
            time.sleep(0.05)
        yield record

mobility.generate = slowly
print("ready", flush=True)
time.sleep(float(sys.stdin.readline()))
path = mobility.ensure_file(pathlib.Path(sys.argv[1]), seed=1, users=1, days=10)
print(hashlib.sha256(path.read_bytes()).hexdigest())
"""


def test_first_use_by_many_at_once_leaves_one_whole_file(tmp_path: Path, example: SimpleNamespace) -> None:
    """Each comes while the ones before it are still writing, and must see all of the file or none."""
    start = [sys.executable, "-c", LATECOMER, str(tmp_path)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": FOLDER}
    crowd = [subprocess.Popen(start, **pipes) for _ in range(4)]
    assert {process.stdout.readline() for process in crowd if process.stdout} == {"ready\n"}
    for place, process in enumerate(crowd):
        assert process.stdin
        process.stdin.write(f"{place * 0.06}\n")
        process.stdin.flush()
    seen = {process.communicate(timeout=60)[0] for process in crowd}
    (path,) = tmp_path.iterdir()
    with path.open(newline="") as stream:
        header, *rows = csv.reader(stream)
    assert len(seen) == 1
    assert tuple(header) == example.mobility.COLUMNS
    assert len(rows) == len(example.mobility.generate(1, users=1, days=10))


def test_a_file_that_could_not_be_written_whole_is_not_left_behind(
    tmp_path: Path, example: SimpleNamespace
) -> None:
    def broken() -> Iterator[Any]:
        yield example.mobility.generate(1, users=1, days=1)[0]
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        example.mobility._write_aside(tmp_path / "data.csv", broken())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_no_obstacle(
    tmp_path: Path, example: SimpleNamespace, records: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(example.samples, "GENERATED", tmp_path / "file" / "data")
    monkeypatch.setattr(example.mobility, "generate", lambda seed, *_: records)
    assert len(example.samples.load("all")) == len(records)


def test_a_sample_never_stays_where_it_is_and_the_parts_follow_in_time(one_user: Any) -> None:
    for part in (one_user.train, one_user.validation, one_user.test):
        known = (part.target != 0) | (part.context[:, -1] != 0)
        assert np.all((part.target != part.context[:, -1])[known])
    assert len(one_user.train) > 4 * len(one_user.test) > 0
    assert np.array_equal(one_user.train.context[-1, 1:], one_user.validation.context[0, :-1])
    assert np.all(one_user.train.target != 0)


@pytest.mark.parametrize(
    "model", [1, 2, pytest.param(3, marks=pytest.mark.long)], ids=["markov", "feed-forward", "lstm"]
)
def test_every_model_beats_the_most_frequent_cell(
    example: SimpleNamespace, one_user: Any, model: int
) -> None:
    settings = example.predict.Settings(model=model, epochs=7)
    lines: list[str] = []
    validation, test = example.predict._train(settings, one_user, lines.append)
    guess = example.predict.baselines(one_user, one_user.test)["most frequent cell"]
    assert test > guess + MARGIN
    assert validation > guess + MARGIN
    assert sum(line.startswith("epoch ") for line in lines) >= 4


@pytest.mark.parametrize("encoder", ["FeedForward", "Recurrent"])
def test_gradients_are_those_of_the_loss(example: SimpleNamespace, one_user: Any, encoder: str) -> None:
    shape = example.network.Shape(embed=5, hidden=6, activation="tanh", dropout=0.0)
    network = example.network.Network(getattr(example.network, encoder), shape, one_user, seed=1)
    network.weights.update({name: array.astype(np.float64) for name, array in network.weights.items()})
    batch = one_user.train.pick(np.arange(10))
    gradients, _ = network.gradients(batch, "crossentropy")
    for name, array in network.weights.items():
        place = np.unravel_index(np.abs(gradients[name]).argmax(), array.shape)
        around = []
        for shift in (1e-4, -2e-4):
            array[place] += shift
            around.append(network.gradients(batch, "crossentropy")[1])
        array[place] += 1e-4
        assert (around[0] - around[1]) / 2e-4 == pytest.approx(gradients[name][place], rel=1e-3), name


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop", "sgd"])
def test_every_optimizer_finds_the_bottom_of_a_bowl(example: SimpleNamespace, optimizer: str) -> None:
    weights = {"x": np.full(3, 2.0, np.float32)}
    descent = example.optimizers.Optimizer(optimizer, 0.02, 0.9, 0.99)
    for _ in range(400):
        descent.update(weights, {"x": 2 * weights["x"]})
    assert np.abs(weights["x"]).max() < 0.05


def test_the_script_ends_with_its_accuracy_and_takes_blank_options(
    tmp_path: Path, example: SimpleNamespace
) -> None:
    data = example.mobility.ensure_file(tmp_path, users=1, days=28)
    options = ["--data", str(data), "--model", "1", "--lr", "", "--optimizer", "", "--steps", "2"]
    done = subprocess.run(
        [sys.executable, "predict.py", *options], cwd=FOLDER, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"val_accuracy: 0\.\d{4}", done.stdout.splitlines()[-1])


def test_all_wrong_options_are_named_at_once(
    example: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        example.predict.main(["--model", "9", "--lr", "-1", "--dropout", "1"])
    message = capsys.readouterr().err
    assert all(name in message for name in ("model must", "lr must", "dropout must"))


def test_the_sheet_has_a_dozen_rows_and_no_reserved_column() -> None:
    header, rows = sheet()
    assert len(rows) >= 12
    assert len(set(header)) == len(header)
    assert not RESERVED & {name.lower() for name in header}


def test_the_sheet_is_the_one_that_its_script_writes(example: SimpleNamespace) -> None:
    header, rows = sheet()
    assert [header, *map(list, rows)] == example.make_sheet.rows()


def test_every_row_of_the_sheet_makes_a_valid_command(example: SimpleNamespace) -> None:
    header, rows = sheet()
    used = set(re.findall(r"\{(\w+)\}", " ".join(command())))
    assert used == set(header)
    for row in rows:
        texts = {name: "" if value is None else str(value) for name, value in zip(header, row, strict=True)}
        _, settings = example.predict._parse([word.format(**texts) for word in command()[2:]])
        assert settings.problems() == []
        assert settings.model == int(texts["MODEL"])


@pytest.mark.machine
def test_the_real_data_loads_and_is_split(example: SimpleNamespace) -> None:
    path = example.samples.find_real_data()
    if path is None:
        pytest.skip(f"no real mobility data at {example.samples.REAL_DATA} from the example's folder")
    visits = example.samples.read_file(path)
    data = example.samples.build(visits, steps=2, day_type="workday")
    assert len(visits) == 71_000
    assert len(np.unique(visits.user)) == 710
    assert visits.hour.min() == 0
    assert visits.hour.max() == 23
    assert len(data.train) > 20_000


def test_a_file_that_is_no_mobility_data_is_named(tmp_path: Path, example: SimpleNamespace) -> None:
    (tmp_path / "words.csv").write_text("word,count\na,1\n")
    with pytest.raises(example.samples.DataError, match=r"words\.csv .* count, word"):
        example.samples.load(str(tmp_path))

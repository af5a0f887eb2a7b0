"""The off-sample example: its images, its model and its files, and that Shoal runs them."""

import csv
import importlib
import io
import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from servers.seaweedfs import Bucket
from shoal import spec

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "off-sample"
MODULES = ("make_images", "score", "signs", "nothing")
WITH_TORCH = ("network", "train")
LEFT_OUT = shutil.ignore_patterns(
    "images", "out*", ".shoal", "__pycache__", "*.pt", "signs.onnx", "signs.jsonl"
)
SIZE_LIMIT_BYTES = 200_000
GOOD = 0.95  # of images that training has not seen


@pytest.fixture(scope="module")
def example() -> Iterator[SimpleNamespace]:
    """The example's modules; examples are no package, so imported from their folder and then forgotten."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    finally:
        sys.path.remove(str(FOLDER))
        for name in (*MODULES, *WITH_TORCH):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def ions(example: SimpleNamespace) -> list[Any]:
    return list(example.make_images.ions(example.make_images.SEED, 250))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The example in a folder of the test's own, as a user has it before the first command."""
    (tmp_path / ".shoal").mkdir()
    return Path(shutil.copytree(FOLDER, tmp_path / "off-sample", ignore=LEFT_OUT))


def script(folder: Path, name: str, *arguments: str, fails: int = 0) -> str:
    """What a script of the example prints."""
    done = subprocess.run(
        [sys.executable, name, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == fails, done.stderr + done.stdout
    return done.stdout + done.stderr


def shoal_run(folder: Path, *arguments: str) -> dict[str, Any]:
    """What `shoal run --json` says in the end."""
    command = [sys.executable, "-m", "shoal", "run", *arguments, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["state"] == "succeeded"
    return document


def accuracy(printed: str) -> float:
    return float(printed.rpartition("accuracy: ")[2].split()[0])


def workload(name: str, sets: Sequence[str] = ()) -> spec.Infer:
    return spec.load(FOLDER / name, sets, kind="infer")


def preparation() -> spec.ImagePreparation:
    preprocess = workload("off-sample.yaml").preprocess
    assert preprocess is not None
    assert preprocess.image is not None
    return preprocess.image


def sampled(data: bytes) -> np.ndarray[Any, Any]:
    """An image as the model takes it, without PyTorch: `grid_sample` from corner to corner, written out."""
    image = preparation()
    with Image.open(io.BytesIO(data)) as opened:
        pixels = np.asarray(opened.convert(image.mode), dtype=np.float64) / image.scale
    for axis, size in enumerate((image.height, image.width)):
        at = np.linspace(0, pixels.shape[axis] - 1, size)
        below = np.minimum(at.astype(int), pixels.shape[axis] - 2)
        share = (at - below).reshape((-1, 1) if axis == 0 else (1, -1))
        pixels = pixels.take(below, axis) * (1 - share) + pixels.take(below + 1, axis) * share
    ((mean,), (deviation,)) = image.normalize
    return ((pixels - mean) / deviation).astype(np.float32)[None]


def predicted(ions: Sequence[Any], model: Path) -> list[str]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (scores,) = session.run(None, {"images": np.stack([sampled(one.data) for one in ions])})
    return [("off", "on")[number] for number in scores.argmax(1)]


def test_an_image_depends_on_its_seed_and_number_alone(example: SimpleNamespace, ions: list[Any]) -> None:
    make = example.make_images
    assert make.ion(make.SEED, 17) == ions[17]
    assert make.ion(make.SEED + 1, 17).data != ions[17].data
    assert len({one.data for one in ions}) == len({one.name for one in ions}) == len(ions)


def test_images_are_of_both_classes_and_of_all_the_ways_to_store_them(ions: list[Any]) -> None:
    ways, sides = set(), set()
    for one in ions:
        with Image.open(io.BytesIO(one.data)) as opened:
            ways.add((opened.format, opened.mode))
            sides.update(opened.size)
    assert ways == {("PNG", "L"), ("PNG", "RGB"), ("JPEG", "L"), ("JPEG", "RGB")}
    assert min(sides) >= 60
    assert max(sides) <= 300
    assert len(sides) > 100
    assert 0.4 < sum(one.label == "on" for one in ions) / len(ions) < 0.6


def test_the_model_that_comes_with_the_example_knows_images_it_was_not_trained_on(ions: list[Any]) -> None:
    said = predicted(ions, FOLDER / "model.onnx")
    assert np.mean([one.label == label for one, label in zip(ions, said, strict=True)]) > GOOD


def test_the_model_is_small_and_takes_what_its_workload_prepares() -> None:
    model, image = FOLDER / "model.onnx", preparation()
    assert model.stat().st_size < SIZE_LIMIT_BYTES
    (taken,) = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).get_inputs()
    assert taken.shape == ["batch", image.channels, image.height, image.width]
    assert image.resize == "affine"


def test_all_workloads_of_the_ion_model_prepare_and_name_alike() -> None:
    files = ("off-sample.yaml", "off-sample-torchscript.yaml", "off-sample-s3.yaml")
    first, *others = map(workload, files)
    assert first.postprocess.labels == ("off", "on")
    for other in (*others, workload("preprocessing.yaml")):
        assert other.preprocess == first.preprocess
    for other in others:
        assert other.postprocess == first.postprocess


def test_every_file_is_a_valid_workload() -> None:
    files = sorted(path.name for path in FOLDER.glob("*.yaml"))
    assert len(files) == 6
    for file in files:
        assert spec.load(FOLDER / file).kind == ("sweep" if file == "tables.yaml" else "infer")


def test_every_trial_of_the_tables_is_a_valid_workload() -> None:
    sweep = spec.load(FOLDER / "tables.yaml", kind="sweep")
    assert (sweep.trials.repeat, sweep.whole_node) == (3, True)
    assert sweep.trials.grid is not None
    assert sweep.run.workload is not None
    for values in itertools.product(*sweep.trials.grid.values()):
        pairs = zip(sweep.trials.grid, values, strict=True)
        trial = workload(sweep.run.workload, [f"{name}={cell.text}" for name, cell in pairs])
        assert trial.tune.batch in (1, 8, 64)
        assert trial.tune.workers in (1, 2)
        assert trial.input.target.startswith("images/")


def write_parts(
    folder: Path, parts: Sequence[Sequence[tuple[str, str]]], unreadable: Sequence[str] = ()
) -> None:
    folder.mkdir()
    for number, part in enumerate(parts):
        columns = {"path": [f"images/{name}" for name, _ in part], "label": [label for _, label in part]}
        pyarrow.parquet.write_table(pyarrow.table(columns), folder / f"part-{number:06d}.parquet")
    if unreadable:
        errors = pyarrow.table({"path": [f"images/{name}" for name in unreadable]})
        pyarrow.parquet.write_table(errors, folder / "errors.parquet")


@pytest.mark.parametrize(
    ("parts", "unreadable", "counts", "code"),
    [
        ([[("a", "on"), ("b", "off")], [("c", "off")]], ["d"], "unreadable: 1, missing: 0, twice: 0", 0),
        ([[("a", "on"), ("b", "off")], [("c", "off")]], [], "unreadable: 0, missing: 1, twice: 0", 1),
        ([[("a", "on"), ("b", "off")], [("c", "off"), ("b", "off")]], ["d"], "missing: 0, twice: 1", 1),
        ([[("a", "on"), ("b", "off"), ("c", "off")]], ["d", "c"], "missing: 0, twice: 1", 1),
    ],
    ids=["each-once", "one-missing", "one-twice", "one-both-read-and-unreadable"],
)
def test_the_score_tells_what_is_missing_and_what_came_twice(
    tmp_path: Path,
    example: SimpleNamespace,
    capsys: pytest.CaptureFixture[str],
    parts: Any,
    unreadable: list[str],
    counts: str,
    code: int,
) -> None:
    write_parts(tmp_path / "out", parts, unreadable)
    (tmp_path / "truth.csv").write_text("name,label\na,on\nb,off\nc,on\nd,on\n")
    arguments = [str(tmp_path / "out"), "--truth", str(tmp_path / "truth.csv")]
    assert example.score.main(arguments) == code
    printed = capsys.readouterr().out
    assert counts in printed
    assert accuracy(printed) == pytest.approx({3: 2 / 3, 4: 3 / 4}[sum(map(len, parts))], abs=1e-4)


def test_the_score_of_nothing_is_an_error_that_says_so(
    tmp_path: Path, example: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        example.score.main([str(tmp_path / "nowhere")])
    assert "nowhere" in capsys.readouterr().err


def test_asked_for_broken_images_so_many_are_unreadable(tmp_path: Path, example: SimpleNamespace) -> None:
    to, truth = tmp_path / "images", tmp_path / "truth.csv"
    assert (
        example.make_images.main(["--count", "30", "--broken", "4", "--to", str(to), "--truth", str(truth)])
        == 0
    )

    def is_readable(path: Path) -> bool:
        try:
            with Image.open(path) as opened:
                opened.load()
        except OSError:
            return False
        return True

    with truth.open(newline="") as stream:
        assert {row["name"] for row in csv.DictReader(stream)} == {path.name for path in to.iterdir()}
    assert sum(not is_readable(path) for path in to.iterdir()) == 4


def test_shoal_gives_each_image_of_the_folder_the_label_that_the_reference_gives(
    copy: Path, example: SimpleNamespace, ions: list[Any]
) -> None:
    script(copy, "make_images.py", "--count", str(len(ions)))
    shoal_run(copy, "off-sample.yaml")
    rows, errors = example.score.read(str(copy / "out"))
    said = dict(zip((one.name for one in ions), predicted(ions, FOLDER / "model.onnx"), strict=True))
    assert {row["path"].rpartition("/")[2]: row["label"] for row in rows} == said
    assert len(rows) == len(ions)
    assert errors == []
    for row in rows:
        assert row["prob_off"] == pytest.approx(
            row["prob"] if row["label"] == "off" else 1 - row["prob"], abs=1e-5
        )
    assert accuracy(script(copy, "score.py")) > GOOD


def test_broken_images_end_in_the_errors_and_all_others_in_the_parts(
    copy: Path, example: SimpleNamespace
) -> None:
    script(copy, "make_images.py", "--count", "120", "--broken", "1")
    shoal_run(copy, "off-sample.yaml")
    rows, errors = example.score.read(str(copy / "out"))
    assert (len(rows), len(errors)) == (119, 1)
    assert "unreadable: 1, missing: 0, twice: 0" in script(copy, "score.py")


def test_images_can_be_prepared_for_a_model_that_does_nothing(copy: Path, example: SimpleNamespace) -> None:
    script(copy, "make_images.py", "--count", "40")
    shoal_run(copy, "preprocessing.yaml")
    rows, _ = example.score.read(str(copy / "out-preprocessing"))
    assert [row["prob"] for row in rows] == [0.5] * 40


def test_the_tables_measure_how_fast_each_setting_is(copy: Path) -> None:
    script(copy, "make_images.py", "--count", "60")
    document = shoal_run(copy, "tables.yaml", "--limit", "2", "--set", "trials.repeat=1")
    objective = spec.load(FOLDER / "tables.yaml", kind="sweep").objective
    assert objective is not None
    assert document["items"]["done"] == 2
    assert document["best"][objective.metric] > 0


@pytest.mark.s3
def test_shoal_reads_from_a_bucket_and_writes_into_it(copy: Path, bucket: Bucket) -> None:
    server = bucket.server.endpoint
    script(copy, "make_images.py", "--count", "80", "--to", f"{bucket.url}/images", "--endpoint", server)
    places = {
        "input.images": f"{bucket.url}/images/",
        "input.endpoint": server,
        "output.path": f"{bucket.url}/out/",
        "output.endpoint": server,
    }
    shoal_run(copy, "off-sample-s3.yaml", *(f"--set={name}={value}" for name, value in places.items()))
    printed = script(copy, "score.py", f"{bucket.url}/out", "--endpoint", server)
    assert "unreadable: 0, missing: 0, twice: 0" in printed
    assert accuracy(printed) > GOOD


@pytest.fixture
def with_torch(example: SimpleNamespace) -> SimpleNamespace:
    return SimpleNamespace(**{name: importlib.import_module(name) for name in WITH_TORCH})


@pytest.mark.torch
def test_training_prepares_images_as_grid_sample_does(with_torch: SimpleNamespace, ions: list[Any]) -> None:
    for one in ions[:20]:
        prepared = with_torch.train.prepare(one.data, preparation()).numpy()
        assert np.abs(prepared - sampled(one.data)).max() < 1e-4


@pytest.mark.torch
def test_training_again_makes_both_models_and_shoal_runs_the_torchscript_one(
    copy: Path, example: Any
) -> None:
    (copy / "model.onnx").unlink()
    assert accuracy(script(copy, "train.py", "--images", "500", "--epochs", "5")) > GOOD
    script(copy, "make_images.py", "--count", "150")
    shoal_run(copy, "off-sample-torchscript.yaml")
    shoal_run(copy, "off-sample.yaml")
    labels: list[dict[str, str]] = []
    for out in ("out-torchscript", "out"):
        assert accuracy(script(copy, "score.py", out)) > GOOD
        rows, _ = example.score.read(str(copy / out))
        labels.append({row["path"]: row["label"] for row in rows})
    assert labels[0] == labels[1]


@pytest.fixture
def photographs(example: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = example.signs.archive()
    if not path.exists():
        pytest.skip(f"no photographs at {example.signs.ARCHIVE} from the example's folder")
    monkeypatch.setenv("SIGN_DIGITS", str(path.resolve()))
    return path


@pytest.mark.machine
def test_no_person_is_among_the_photographs_to_learn_from_and_to_check_with(
    example: SimpleNamespace, photographs: Path
) -> None:
    learned, unseen = example.signs.split()
    assert (len(learned) + len(unseen), len({*learned, *unseen})) == (2062, 2062)
    assert example.signs.sign(unseen[0]) == "0"
    assert max(map(example.signs._counted, learned)) < min(map(example.signs._counted, unseen))
    assert {example.signs.sign(name) for name in unseen} == set(example.signs.SIGNS)


@pytest.mark.machine
@pytest.mark.torch
def test_signs_are_learned_and_told_by_shoal_on_people_it_has_not_seen(copy: Path, photographs: Path) -> None:
    reached = accuracy(script(copy, "signs.py", "--epochs", "8"))
    assert reached > 0.75
    shoal_run(copy, "signs.yaml")
    printed = script(copy, "score.py", "out-signs", "--column", "sign")
    assert accuracy(printed) == pytest.approx(reached, abs=0.01)


def test_without_photographs_it_says_where_they_may_be(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGN_DIGITS", str(copy / "nowhere.zip"))
    assert "SIGN_DIGITS" in script(copy, "signs.py", fails=2)

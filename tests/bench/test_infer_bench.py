"""The benchmark of inference is honest: its pictures, its hand-written loop and its checks do what they say."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from PIL import Image
from pyarrow import parquet

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(autouse=True)
def beside_the_benchmarks(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(BENCH)])


def normalised(path):
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"), np.float32) / 255
    mean, spread = np.float32((0.485, 0.456, 0.406)), np.float32((0.229, 0.224, 0.225))
    return ((pixels - mean) / spread).transpose(2, 0, 1)


def write_model(path):
    """Two classes by the mean of two channels: small, and made without torch. The weights, for checking."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = np.float32([[1.0, -1.0], [0.5, 0.2], [-1.0, 1.0]])
    shape = [TensorProto.FLOAT, ["batch", 3, 224, 224]]
    nodes = [
        helper.make_node("GlobalAveragePool", ["images"], ["means"]),
        helper.make_node("Flatten", ["means"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "means",
        [helper.make_tensor_value_info("images", *shape)],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 2])],
        [numpy_helper.from_array(weights, "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return weights


def write_part(folder, number, rows, when=None):
    folder.mkdir(exist_ok=True)
    columns = {name: [row[at] for row in rows] for at, name in enumerate(("path", "label", "prob"))}
    path = folder / f"part-{number}.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    if when is not None:
        os.utime(path, (when, when))


def test_pictures_are_the_same_for_the_same_seed_and_differ_otherwise():
    from infer_data import picture

    assert picture(3, seed=1) == picture(3, seed=1)
    assert len({picture(3, seed=1), picture(3, seed=2), picture(4, seed=1)}) == 3
    assert 10_000 <= len(picture(3, seed=1)) <= 20_000


def test_a_set_has_exactly_as_many_files_as_asked_for_in_folders_of_a_thousand(tmp_path):
    from infer_data import list_pictures, make_distinct, multiply

    distinct = make_distinct(tmp_path, 3)
    paths = list_pictures(multiply(tmp_path, distinct, 2001))
    assert len(paths) == len(set(paths)) == 2001
    assert sorted({Path(path).parent.name for path in paths}) == ["0000", "0001", "0002"]
    assert len({os.stat(path).st_ino for path in paths}) == 3


@pytest.mark.parametrize("decoder", ["pillow", "simplejpeg"])
@pytest.mark.parametrize("prefetch", [0, 1], ids=["", "decodes-ahead"])
def test_the_hand_written_loop_predicts_each_picture_once(tmp_path, decoder, prefetch):
    from infer_data import list_pictures, make_distinct, multiply

    weights = write_model(tmp_path / "model.onnx")
    files = multiply(tmp_path, make_distinct(tmp_path, 5), 13)
    plan = {
        "model": str(tmp_path / "model"),
        "files": str(files),
        "runtime": "onnxruntime",
        "processes": 2,
        "threads": 1,
        "batches": [4],
        "decoder": decoder,
        "prefetch": prefetch,
        "output": str(tmp_path / "output"),
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    command = [sys.executable, "-P", str(BENCH / "by_hand.py"), str(tmp_path / "plan.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"images": 13}
    found = {row["path"]: row for row in parquet.read_table(tmp_path / "output").to_pylist()}
    paths = list_pictures(files)
    assert sorted(found) == paths
    for path in paths:
        scores = normalised(path).mean(axis=(1, 2)) @ weights
        probabilities = np.exp(scores) / np.exp(scores).sum()
        assert found[path]["label"] == scores.argmax()
        assert found[path]["prob"] == pytest.approx(probabilities.max(), abs=1e-4)


def test_the_hand_written_loop_says_what_went_wrong(tmp_path):
    from infer_data import make_distinct, multiply

    files = multiply(tmp_path, make_distinct(tmp_path, 2), 4)
    plan = {"model": str(tmp_path / "none"), "files": str(files), "runtime": "onnxruntime"}
    plan |= {"processes": 2, "threads": 1, "batches": [2], "seconds": 0.1}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    command = [sys.executable, "-P", str(BENCH / "by_hand.py"), str(tmp_path / "plan.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "none.onnx" in json.loads(done.stdout)["error"]


def test_the_rate_after_tuning_is_that_of_the_later_parts(tmp_path):
    from by_shoal import settled_rate

    for number in range(10):  # Slow at first: 10 rows in 10 s each; then 10 rows a second.
        write_part(tmp_path, number, [("x", 0, 0.5)] * 10, when=1000 + 10 * number)
    for number in range(100):
        write_part(tmp_path, 10 + number, [("x", 0, 0.5)] * 10, when=1091 + number)
    assert settled_rate(tmp_path, otherwise=0.0) == pytest.approx(10.0, rel=1e-6)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("in/a.jpg", 1, 0.9), ("in/a.jpg", 1, 0.9)], "twice"),
        ([("in/a.jpg", 1, 0.9)], "1 different rows for 2 images"),
        ([("in/a.jpg", 1, 0.9), ("in/c.jpg", 0, 0.8)], "different rows"),
        ([("in/a.jpg", 0, 0.9), ("in/b.jpg", 0, 0.8)], "only 1 of 2 classes"),
        ([("in/a.jpg", 1, 0.9), ("in/b.jpg", 0, 0.7)], "differ by 0.1"),
    ],
    ids=["twice", "missing", "another", "class", "probability"],
)
def test_an_output_that_differs_from_the_loops_is_found(tmp_path, rows, words):
    from by_shoal import Ran, check
    from ground import Broken

    write_part(tmp_path / "theirs", 0, [("/x/a.jpg", 1, 0.9), ("/x/b.jpg", 0, 0.8)])
    write_part(tmp_path / "ours", 0, rows)
    with pytest.raises(Broken, match=words):
        check(Ran(2, 1.0, 2.0, None, tmp_path / "ours"), tmp_path / "theirs")


def test_an_output_that_agrees_with_the_loops_is_accepted(tmp_path):
    from by_shoal import Ran, check

    write_part(tmp_path / "theirs", 0, [("/x/a.jpg", 1, 0.9), ("/x/b.jpg", 0, 0.8)])
    write_part(tmp_path / "ours", 0, [("b.jpg", "0", 0.8004)])
    write_part(tmp_path / "ours", 1, [("a.jpg", "1", 0.9)])
    said = check(Ran(2, 1.0, 2.0, None, tmp_path / "ours"), tmp_path / "theirs")
    assert said.startswith("2 of 2 classes")


def test_a_benchmark_that_is_not_there_is_refused():
    command = [sys.executable, str(BENCH / "infer.py"), "--only", "a,x"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "'x'" in done.stderr


@pytest.mark.torch
@pytest.mark.long
def test_shoal_is_measured_against_the_hand_written_loop_and_a_grid(tmp_path):
    command = [sys.executable, str(BENCH / "infer.py"), "--quick", "--only", "a,d,f", "--json", "-"]
    done = subprocess.run([*command, "--folder", str(tmp_path)], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [figure["key"] for figure in document["figures"]] == ["a", "a", "a", "d", "f", "d"]
    assert document["broken"] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"label": 3, "probs": [0.25, 1.0]}, 0.0),
        ({"label": 3, "probs": [0.5, 1.0]}, 0.25),
        ({"label": 4, "probs": [0.25, 1.0]}, float("inf")),
        ({"label": 3, "probs": [0.25]}, float("inf")),
        ({"label": 3, "probs": [0.25, float("nan")]}, float("inf")),
        ({"probs": [0.25, 1.0], "label": 3}, float("inf")),
    ],
    ids=["equal", "close", "another label", "fewer", "no number", "another order"],
)
def test_results_of_two_checkouts_are_apart_by_their_fractions_and_equal_in_all_else(other, expected):
    from equal import apart

    assert apart([{"label": 3, "probs": [0.25, 1.0]}], [other]) == expected

"""`shoal export`: what it prints, what it writes, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Shoal = Callable[..., Any]
CLUSTER = "kind: cluster\nname: lab\nprovider: swarm\nimage: lab:1\nnodes: [{host: a}, {host: b}]\n"
SWEEP = "kind: sweep\nname: first\ntrials: {grid: {x: [1]}}\nrun: {command: 'true {x}'}\n"
WORDS = "kind: process\ninput: {text: lines.txt}\njob: words\noutput: words.csv\n"


@pytest.fixture(autouse=True)
def _files(tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(CLUSTER)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    (tmp_path / "words.yaml").write_text(WORDS)
    (tmp_path / "apart.yaml").write_text(WORDS.replace("words.csv", "s3://lab/words.csv"))


def test_one_file_goes_to_stdout_and_nothing_is_written(shoal: Shoal, tmp_path: Path) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    done = shoal("export", "lab.yaml", "--to", "swarm")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# lab for Docker Swarm.")
    assert "secret lab-token" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_files_are_written_once_and_never_over_others(shoal: Shoal, tmp_path: Path) -> None:
    arguments = ("export", "sweep.yaml", "--cluster", "lab.yaml", "--to", "swarm", "--out", "out")
    assert shoal(*arguments).stdout == "out/stack.yaml\nout/driver.yaml\n"
    assert shoal(*arguments).returncode == 0, "the same again changes nothing"
    (tmp_path / "out" / "driver.yaml").write_text("mine\n")
    (tmp_path / "out" / "stack.yaml").unlink()
    done = shoal(*arguments)
    assert done.returncode == 2
    assert "out/driver.yaml is there with other contents, and nothing was written" in done.stderr
    assert not (tmp_path / "out" / "stack.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("lab.yaml", "--to", "kuberai"), "Did you mean 'kuberay'?"),
        (("lab.yaml", "--to", "kfp"), "Exporting to kfp comes with pipelines, which is not there yet."),
        (("lab.yaml",), "--to"),
        (("sweep.yaml", "--to", "swarm"), "Name one with --cluster FILE."),
        (("lab.yaml", "--to", "swarm", "--cluster", "lab.yaml"), "is a cluster file already"),
        (("lab.yaml", "--to", "image"), "an image is made for a workload"),
        (("none.yaml", "--to", "image"), "none.yaml"),
        (("sweep.yaml", "--to", "spark"), "is of the kind sweep, which Spark cannot run"),
        (("words.yaml", "--to", "spark"), "words.csv would be a file in one of several containers"),
        (("apart.yaml", "--to", "spark"), "names no image for the driver and the executors"),
        (("lab.yaml", "--to", "swarm", "--out", "lab.yaml/x"), "cannot be written to"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(
    shoal: Shoal, arguments: tuple[str, ...], said: str
) -> None:
    done = shoal("export", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


def test_a_cluster_without_an_image_is_told_how_to_make_one(shoal: Shoal, tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(CLUSTER.replace("image: lab:1\n", ""))
    done = shoal("export", "lab.yaml", "--to", "swarm")
    assert done.returncode == 2
    assert "No image is given" in done.stderr
    assert "--to image" in done.stderr


def test_credentials_stay_out_of_an_image_unless_they_are_named(shoal: Shoal, tmp_path: Path) -> None:
    for name in (".env", "server.pem"):
        (tmp_path / name).write_text("secret")
    (tmp_path / ".shoalignore").write_text("!server.pem\n")
    done = shoal("export", "sweep.yaml", "--to", "image", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "Left out, as they may hold credentials: .env. " in done.stderr
    ignored = (tmp_path / "out" / "Dockerfile.dockerignore").read_text().splitlines()
    assert ignored.index("**/*.pem") < ignored.index("!**/server.pem")
    assert "**/.env" in ignored

"""What a trial finds around it: its folder, its modules, its environment, its own files. And very long tables."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest


def test_a_folder_with_modules_named_like_the_standard_librarys_works(place):
    for name in ("queue", "types", "json", "random", "selectors", "signal", "socket", "string", "token"):
        place.write(f"{name}.py", "raise SystemExit('the wrong module was imported')\n")
    place.write("mine.py", "VALUE = 7\n")
    place.write("train.py", "import queue, types, json, mine\ndef main(x): return {'y': mine.VALUE * x}\n")
    rows = place.run(place.sweep("s", "{grid: {x: [1, 2]}}", "function: train:main"))
    assert [row["y"] for row in rows] == ["7", "14"]
    module = [sys.executable, "-m", "shoal"]
    place.end(place.start_program([*module, "ls"], env={"PYTHONSAFEPATH": "1"}), 0)


def test_a_script_beside_a_module_of_its_own_named_queue_runs_as_it_does_by_hand(place):
    place.write("queue.py", "WHOSE = 'ours'\n")
    place.write("train.py", "import queue, shoal\nshoal.report(y=1)\nprint('whose', queue.WHOSE)\n")
    file = place.sweep("s", "{grid: {x: [1]}}", "python train.py", "metrics: {whose: 'whose (.*)'}")
    rows = place.run(file)
    assert (rows[0]["y"], rows[0]["whose"]) == ("1", "ours")


@pytest.mark.parametrize("run", ["function: train:main", "python train.py"], ids=["function", "command"])
def test_two_folders_with_a_train_py_each_run_at_once(place, run):
    for name in ("one", "two"):
        place.write(
            f"{name}/train.py",
            f"""
            import pathlib, shoal, time
            def main(x=None):
                pathlib.Path("here").touch()
                while not pathlib.Path("../{"two" if name == "one" else "one"}/here").exists():
                    time.sleep(0.01)
                shoal.report(who={name!r})
            if __name__ == "__main__":
                main()
            """,
        )
        file = place.sweep(name, "{grid: {x: [1]}}", run)
        (place.folder / file).rename(place.folder / name / file)
    lab = place.machine()
    drivers = [
        place.start("run", f"{name}/{name}.yaml", "--cluster", lab, "--json") for name in ("one", "two")
    ]
    for name, driver in zip(("one", "two"), drivers, strict=True):
        rows = place.table(json.loads(place.end(driver, 0).stdout)["results"])
        assert rows[0]["who"] == name


@pytest.mark.parametrize("run", ["function: show:main", "python show.py"], ids=["function", "command"])
def test_a_trial_inherits_the_environment_and_gets_what_the_file_adds(place, run):
    place.write(
        "show.py",
        """
        import os, shoal
        def main(x=None):
            names = ("OUTSIDE", "ADDED", "BOTH", "SHOAL_ITEM", "SHOAL_ATTEMPT")
            shoal.report(**{name.lower(): os.environ.get(name) for name in names})
            shoal.report(cwd=os.getcwd(), folder=os.path.isdir(os.environ["SHOAL_ITEM_DIR"]),
                         checkpoint=os.path.isdir(os.environ["SHOAL_CHECKPOINT_DIR"]))
        if __name__ == "__main__":
            main()
        """,
    )
    place.environment |= {"OUTSIDE": "here it is", "BOTH": "from outside"}
    env = "env: {ADDED: 'a b $(touch hacked)', BOTH: from the file}"
    rows = place.run(place.sweep("s", "{grid: {x: [1]}}", run, env))
    row = rows[0]
    assert (row["outside"], row["added"], row["both"]) == (
        "here it is",
        "a b $(touch hacked)",
        "from the file",
    )
    assert (row["shoal_item"], row["shoal_attempt"]) == ("t0001", "1")
    assert row["cwd"] == str(place.folder)
    assert (row["folder"], row["checkpoint"]) == ("true", "true")


def test_what_a_trial_leaves_in_its_folder_is_kept_and_can_be_fetched(place):
    place.write(
        "trial.py",
        """
        import os
        def main(n):
            folder = os.environ["SHOAL_ITEM_DIR"]
            assert os.listdir(folder) == [], "not empty at first"
            if n != 2:
                os.makedirs(os.path.join(folder, "deep", "er"))
                with open(os.path.join(folder, "deep", "er", "model.bin"), "wb") as file:
                    file.write(b"\\0" * n)
        """,
    )
    place.shoal("run", place.sweep("s", "{grid: {n: [1, 2, 3]}}", "function: trial:main"), code=0)
    run = place.runs()[0]
    out = place.shoal("get", "s", "t0003", code=0).stdout.strip()
    assert (Path(out) / "deep" / "er" / "model.bin").stat().st_size == 3
    assert Path(out).parent == place.folder
    out = place.shoal("get", "s", "--to", "all", code=0).stdout.strip()
    assert sorted(path.name for path in Path(out).iterdir()) == ["t0001", "t0003"]
    assert "left no files" in place.refused("get", "s", "t0002")
    assert "exists already" in place.refused("get", "s", "--to", "all")
    assert os.listdir(place.home / "runs" / run / "checkpoints") == []


def test_a_link_that_a_trial_leaves_is_kept_as_a_link_and_never_followed(place):
    secret = place.write("secret/key", "secret")
    place.write(
        "trial.py",
        f"""
        import os
        def main(n):
            folder = os.environ["SHOAL_ITEM_DIR"]
            os.symlink({str(secret)!r}, os.path.join(folder, "file"))
            os.symlink({str(secret.parent)!r}, os.path.join(folder, "folder"))
            os.symlink("../../..", os.path.join(folder, "up"))
        """,
    )
    place.shoal("run", place.sweep("s", "{grid: {n: [1]}}", "function: trial:main"), code=0)
    out = Path(place.shoal("get", "s", code=0).stdout.strip()) / "t0001"
    assert all((out / name).is_symlink() for name in ("file", "folder", "up"))
    place.shoal("rm", "s", code=0)
    assert secret.read_text() == "secret"
    assert place.runs() == []


def test_a_table_cannot_choose_the_id_of_an_item_or_where_its_files_go(place):
    place.write("t.jsonl", json.dumps({"id": "../../../escaped", "name": "..", "folder": "/etc"}) + "\n")
    place.write(
        "trial.py",
        """
        import os
        def main(id, name, folder):
            open(os.path.join(os.environ["SHOAL_ITEM_DIR"], "x"), "w").close()
            return {"item_id": os.environ["SHOAL_ITEM"]}
        """,
    )
    rows = place.run(place.sweep("s", "{table: t.jsonl}", "function: trial:main"))
    assert rows[0]["item_id"] == "t0001"
    kept = place.home / "runs" / place.runs()[0] / "items" / "t0001" / "x"
    assert kept.exists()
    assert not list(place.folder.parent.rglob("escaped*"))


def test_a_million_rows_start_at_once_and_take_little_memory(place):
    with open(place.folder / "t.csv", "w") as file:
        file.write("n,lr,name\n")
        file.writelines(f"{number},0.{number % 997:03d},user-{number % 50}\n" for number in range(1_000_000))
    place.write("trial.py", "def main(n, lr, name): return {'square': n * n}\n")
    process = place.start("run", place.sweep("s", "{table: t.csv}", "function: trial:main"))
    place.until(lambda: place.runs() and place.counts()["done"], process)
    process.send_signal(signal.SIGINT)
    assert 0 < place.peak_bytes(process) < 1_000_000_000
    place.end(process, 3)
    assert 0 < place.counts()["done"] < 1_000_000

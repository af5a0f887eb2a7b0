"""What a resume, a check and a copy of files do when the surroundings have changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import shoal
from shoal.api.runs import check
from shoal.api.views.lookup import get, open_run
from shoal.errors import NotFound

SWEEP = "kind: sweep\nname: s\ntrials: {table: t.csv}\nrun: {function: 'f:main'}\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".shoal").mkdir()  # So that none further up is found.
    Path("s.yaml").write_text(SWEEP)
    Path("t.csv").write_text("n\n1\n2\n3\n")
    Path("f.py").write_text("def main(n):\n    return {'m': 1 / (n - 2)}\n")


def test_a_succeeded_run_whose_table_is_gone_is_still_a_success() -> None:
    Path("f.py").write_text("def main(n):\n    return {'m': n}\n")
    run = shoal.run("s.yaml", display=False)
    Path("t.csv").unlink()
    assert shoal.resume(run.id, display=False).state == "succeeded"


def test_a_failure_whose_row_was_removed_stays_a_failure() -> None:
    run = shoal.run("s.yaml", display=False)
    Path("t.csv").write_text("n\n1\n3\n")
    again = shoal.resume(run.id, failed=True, display=False)
    assert again.state == "failed"
    assert [row["state"] for row in again.rows()] == ["done", "failed", "done"]


def test_an_objective_that_nobody_reported_is_said() -> None:
    run = shoal.run("s.yaml", sets=["objective.metric=nope", "objective.goal=max"], display=False)
    assert "no trial reported a number as 'nope'" in run.wait().notes[0]


def test_files_that_cannot_be_copied_do_not_keep_the_others_back() -> None:
    Path("f.py").write_text(
        "import os\n"
        "def main(n):\n"
        "    folder = os.environ['SHOAL_ITEM_DIR']\n"
        "    open(os.path.join(folder, 'kept'), 'w').close()\n"
        "    if n == 1:\n"
        "        os.mkfifo(os.path.join(folder, 'pipe'))\n"
    )
    run = shoal.run("s.yaml", display=False)
    copied = Path(get(run.id, to="copy"))
    assert sorted(path.name for path in copied.rglob("*")) == ["kept"] * 3 + ["t0001", "t0002", "t0003"]
    with open_run(run.id) as store:
        item = Path(store.folder, "items", "t0002")
    (item / "kept").unlink()
    item.rmdir()
    Path("elsewhere").mkdir()
    os.symlink(Path("elsewhere").resolve(), item)
    with pytest.raises(NotFound, match="is no folder any more"):
        get(run.id, "t0002", to="outside")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("run={command: 'no-such-program {n}'}", "no program 'no-such-program'"),
        ("run={function: 'queue:main'}", "standard library"),
        ("run={function: 'g:later'}", "is async"),
        ("run={function: 'g:some'}", "is a generator"),
    ],
    ids=["program", "shadowed", "async", "generator"],
)
def test_a_check_sees_what_can_never_run(change: str, words: str) -> None:
    Path("queue.py").write_text("def main(n): pass\n")
    Path("g.py").write_text("async def later(n): pass\ndef some(n):\n    yield n\n")
    with pytest.raises(shoal.SpecError, match=words):
        check("s.yaml", sets=[change])


def test_a_broken_table_does_not_hide_a_missing_module() -> None:
    Path("t.csv").unlink()
    with pytest.raises(shoal.SpecError) as error:
        check("s.yaml", sets=["run.function=nope:main"])
    assert "t.csv" in str(error.value)
    assert "no module 'nope'" in str(error.value)

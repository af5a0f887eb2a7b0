"""An output folder is one run's; what Shoal did not write there stays."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shoal.errors import SpecError
from shoal.spec.shared_sections import Output
from shoal.store.home import find_home
from shoal.work.outputs import (
    PartWriter,
    claim,
    document_of,
    ensure_ours,
    finish,
    let_go,
    owner,
    replace,
    rows,
    turns,
)
from shoal.work.outputs.layout import OWNER, opened
from shoal.work.protocols import Facts


def dead(_run: str, _home: str) -> bool:
    return False


def alive(_run: str, _home: str) -> bool:
    return True


def fill(output: Output, run: str, parts: int) -> None:
    """A finished output of this run."""
    claim(output, ".", run, "home", is_alive=dead)
    writer = PartWriter(output, ".", run)
    done = []
    for seq in range(parts):
        errors = [({"path": "bad"}, "truncated")]
        facts = writer.write(seq, 1, "c", {"path": [f"{seq}"]}, {"by": [run]}, errors, Facts(0, 0))
        done.append((seq, document_of(facts)))
    finish(output, ".", run, done)


def test_a_new_folder_becomes_ours(output: Output) -> None:
    claim(output, ".", "cats-7f3a", "the/home", is_alive=alive)
    assert json.loads(opened(output, ".").read(OWNER)) == {
        "run": "cats-7f3a",
        "home": "the/home",
        "name": "cats",
    }
    ensure_ours(output, ".", "cats-7f3a")
    claim(output, ".", "cats-7f3a", "the/home", is_alive=alive)
    assert replace(output, ".", "cats-7f3a") == []


def test_the_next_run_replaces_what_the_last_one_wrote(output: Output) -> None:
    fill(output, "a-1", 3)
    claim(output, ".", "b-2", "home", is_alive=dead)
    ensure_ours(output, ".", "b-2", home="home")
    assert [row["by"] for row in rows(output, ".")] == ["a-1"] * 3
    assert owner(output, ".") == "a-1"
    with pytest.raises(SpecError, match="what run a-1 wrote there stays only until that run writes"):
        ensure_ours(output, ".", "a-1")
    (note,) = replace(output, ".", "b-2")
    assert owner(output, ".") == "b-2"
    assert "held 3 parts of run a-1" in note
    assert [entry.key for entry in opened(output, ".").list(hidden=True)] == [OWNER]
    fill(output, "b-2", 1)
    assert [row["by"] for row in rows(output, ".")] == ["b-2"]
    with pytest.raises(SpecError, match=r"is the output of run b-2 now: what run a-1 wrote there is gone"):
        ensure_ours(output, ".", "a-1")


def test_the_output_of_a_run_that_goes_on_is_left_alone(local_output: Output) -> None:
    fill(local_output, "a-1", 1)
    asked = []

    def is_alive(run: str, home: str) -> bool:
        asked.append((run, home))
        return True

    with pytest.raises(SpecError, match="is the output of run a-1, which is running") as caught:
        claim(local_output, ".", "b-2", "home", is_alive=is_alive)
    assert "shoal stop a-1" in str(caught.value.hint)
    assert asked == [("a-1", "home")]
    assert len(list(rows(local_output, "."))) == 1


@pytest.mark.parametrize("is_owned", [True, False])
def test_a_folder_with_other_files_is_refused_and_nothing_is_removed(
    local_output: Output, is_owned: bool
) -> None:
    if is_owned:
        fill(local_output, "a-1", 1)
    folder = Path(local_output.path)
    for number in range(5):
        (folder / "photos").mkdir(parents=True, exist_ok=True)
        (folder / "photos" / f"{number}.jpg").touch()
    before = sorted(folder.rglob("*"))
    with pytest.raises(
        SpecError, match=r"holds files that are of no run: photos/\d.jpg, .* and more\."
    ) as caught:
        claim(local_output, ".", "b-2", "home", is_alive=dead)
    assert "new or empty folder" in str(caught.value.hint)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("name", ["part-000000.parquet", "errors.parquet"])
def test_parts_that_nobody_says_are_ours_are_other_files(local_output: Output, name: str) -> None:
    os.makedirs(local_output.path)
    Path(local_output.path, name).touch()
    for take in (
        lambda: claim(local_output, ".", "b-2", "home", is_alive=dead),
        lambda: ensure_ours(local_output, ".", "b-2"),
    ):
        with pytest.raises(SpecError, match=f"of no run: {name}"):
            take()


def test_hidden_files_of_others_are_not_in_the_way(local_output: Output) -> None:
    fill(local_output, "a-1", 1)
    for name in (".gitignore", ".cache/x"):
        path = Path(local_output.path, name)
        path.parent.mkdir(exist_ok=True)
        path.touch()
    claim(local_output, ".", "b-2", "home", is_alive=dead)
    replace(local_output, ".", "b-2")
    assert Path(local_output.path, ".gitignore").exists()
    assert Path(local_output.path, ".cache", "x").exists()


def test_what_a_killed_writer_left_aside_is_removed(local_output: Output) -> None:
    fill(local_output, "a-1", 1)
    aside = Path(local_output.path, ".part-000007.parquet.0123abcd.part")
    aside.touch()
    claim(local_output, ".", "b-2", "home", is_alive=dead)
    replace(local_output, ".", "b-2")
    assert not aside.exists()


def test_a_resume_makes_the_folder_ours_if_nobody_has_it(local_output: Output) -> None:
    ensure_ours(local_output, ".", "a-1", home="home")
    with pytest.raises(SpecError, match="run a-1, which is running"):
        claim(local_output, ".", "b-2", "home", is_alive=alive)


def test_an_owner_that_cannot_be_read_is_an_error_that_names_the_file(local_output: Output) -> None:
    opened(local_output, ".").write(OWNER, b"{")
    with pytest.raises(SpecError, match=r"\.shoal-output/run\.json cannot be read"):
        claim(local_output, ".", "b-2", "home", is_alive=dead)


@pytest.mark.parametrize("earlier", [0, 2])
def test_of_runs_that_begin_at_once_one_gets_the_folder(output: Output, earlier: int) -> None:
    if earlier:
        fill(output, "a-1", earlier)

    def begin(run: str) -> str | None:
        try:
            claim(output, ".", run, "home", is_alive=lambda each, _: each.startswith("b-"))
        except SpecError as error:
            return str(error)
        return None

    runs = [f"b-{number}" for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        told = dict(zip(runs, pool.map(begin, runs), strict=True))
    (winner,) = (run for run in runs if told[run] is None)
    assert all(f"run {winner}, which is running" in str(told[run]) for run in runs if run != winner)
    ensure_ours(output, ".", winner)
    replace(output, ".", winner)
    assert list(rows(output, ".")) == []


def unknown(_run: str, _home: str) -> None:
    return None


def test_the_output_of_a_run_that_cannot_be_seen_is_taken_only_once_it_has_let_go(output: Output) -> None:
    def take() -> None:
        claim(output, ".", "b-2", "home", is_alive=unknown)

    fill(output, "a-1", 1)
    with pytest.raises(SpecError, match="of run a-1 of another machine or folder") as caught:
        take()
    assert "when that run is over, remove" in str(caught.value.hint)
    let_go(output, ".", "a-1", turn=1)
    ensure_ours(output, ".", "a-1", home="another home")  # It is resumed, somewhere else.
    assert turns(output, ".", "a-1").take(2, {"driver": "the heir"})
    assert json.loads(opened(output, ".").read(OWNER))["home"] == "another home"
    with pytest.raises(SpecError, match="which may still be running"):
        take()
    let_go(output, ".", "a-1", turn=1)  # It is not the last word: the heir's would be.
    with pytest.raises(SpecError, match="which may still be running"):
        take()
    let_go(output, ".", "a-1", turn=2)
    let_go(output, ".", "a-1", turn=1)
    take()
    replace(output, ".", "b-2")
    let_go(output, ".", "a-1")
    assert [entry.key for entry in opened(output, ".").list(hidden=True)] == [OWNER]


def test_a_run_that_only_claimed_an_output_is_followed_like_others(local_output: Output) -> None:
    fill(local_output, "a-1", 2)
    claim(local_output, ".", "b-2", "home", is_alive=dead)
    claim(local_output, ".", "c-3", "home", is_alive=dead)
    (note,) = replace(local_output, ".", "c-3")
    assert "held 2 parts of run a-1" in note
    assert [entry.key for entry in opened(local_output, ".").list(hidden=True)] == [OWNER]
    with pytest.raises(SpecError, match="is the output of run c-3 now"):
        replace(local_output, ".", "b-2")


def test_the_output_is_no_home_of_runs(local_output: Output) -> None:
    fill(local_output, "a-1", 1)
    home = os.path.join(os.path.dirname(local_output.path), ".shoal")
    os.makedirs(home)
    assert find_home(local_output.path, {}) == home


def test_a_try_replaces_a_try_and_never_what_a_whole_run_wrote(local_output: Output) -> None:
    fill(local_output, "a-1", 3)
    before = sorted(Path(local_output.path).rglob("*"))
    with pytest.raises(SpecError, match=r"holds what run a-1 wrote, which had no --limit") as caught:
        claim(local_output, ".", "b-2", "home", is_alive=dead, limit=10)
    assert "--set output.path=" in str(caught.value.hint)
    assert sorted(Path(local_output.path).rglob("*")) == before
    claim(local_output, ".", "c-3", "home", is_alive=dead)
    with pytest.raises(SpecError, match="holds what run a-1 wrote"):  # c-3 has written nothing yet.
        claim(local_output, ".", "d-4", "home", is_alive=dead, limit=10)


def test_what_a_try_wrote_may_be_replaced_by_anybody(local_output: Output) -> None:
    claim(local_output, ".", "a-1", "home", is_alive=dead, limit=10)
    fill(local_output, "a-1", 1)
    ensure_ours(local_output, ".", "a-1", home="another home")
    assert json.loads(opened(local_output, ".").read(OWNER))["limit"] == 10
    claim(local_output, ".", "b-2", "home", is_alive=dead, limit=20)
    replace(local_output, ".", "b-2")
    fill(local_output, "b-2", 1)
    claim(local_output, ".", "c-3", "home", is_alive=dead)
    replace(local_output, ".", "c-3")


def test_a_try_may_have_a_folder_in_which_a_whole_run_wrote_nothing(local_output: Output) -> None:
    claim(local_output, ".", "a-1", "home", is_alive=dead)
    claim(local_output, ".", "b-2", "home", is_alive=dead, limit=10)
    replace(local_output, ".", "b-2")
    assert owner(local_output, ".") == "b-2"


def test_a_try_that_was_killed_before_it_had_its_folder_is_one_when_it_is_resumed(
    local_output: Output,
) -> None:
    ensure_ours(local_output, ".", "a-1", home="home", limit=10)
    fill(local_output, "a-1", 1)
    claim(local_output, ".", "b-2", "home", is_alive=dead, limit=10)

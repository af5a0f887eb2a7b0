"""What the promises of clusters rest on, on one bed with one `up`: tests in the order of the day of a cluster."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pytest

from clusters.desk import TRIAL, Desk, check_all_done_once, ended_on, left_on, until
from testbed import Testbed

pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-all installs it")
pytestmark = [pytest.mark.hosts, pytest.mark.ray, pytest.mark.long, pytest.mark.always]

WRONG = "f" * 64
HOSTS = ["node0", "node1", "node2"]
NODES = [{"host": host, "cpu": 2} for host in HOSTS]
LAB = "lab.yaml"
STAGE = 200
HELD = f"""
    while not os.path.exists(f"/srv/work/stage{{n // {STAGE}}}"):
        time.sleep(0.05)
"""
STAGED = TRIAL.replace("time.sleep(ms / 1000)\n", f"time.sleep(ms / 1000){HELD}")
"""So many trials at a time do not end before their stage is opened on their host: the run cannot be over too early."""


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    """Where the cluster was brought up. `guest` is another host of the same network."""
    with Testbed(["desk", "guest", *HOSTS]) as bed:
        desk = Desk(bed)
        assert desk.cluster(NODES) == LAB
        desk.shoal("cluster", "up", LAB)
        assert desk.states(LAB) == dict.fromkeys(HOSTS, "up")
        yield desk


@pytest.fixture
def guest(desk: Desk) -> Iterator[Desk]:
    """Somebody who knows all of the cluster but its token."""
    guest = Desk(desk.bed, "guest")
    guest.cluster(NODES)
    guest.host.write(f"{guest.book()}/state.json", desk.host.read(f"{desk.book()}/state.json"))
    yield guest
    guest.host.run(["rm", "-r", guest.book()])


@pytest.mark.parametrize(
    ("token", "said"),
    [(None, "The token of lab is gone"), (WRONG, "does not accept the token")],
    ids=["no", "wrong"],
)
def test_a_driver_that_knows_all_but_the_token_is_refused(guest: Desk, token: str | None, said: str) -> None:
    if token is not None:
        guest.host.write(f"{guest.book()}/token", token, mode=0o600)
    done = guest.shoal("run", guest.sleeper("short", 3, 10), "--cluster", LAB, code=2)
    assert said in done.stderr
    assert guest.runs() == []


def test_whoever_has_the_token_gets_in(desk: Desk, guest: Desk) -> None:
    """The test above would pass on a cluster that lets nobody in."""
    guest.host.write(f"{guest.book()}/token", desk.host.read(f"{desk.book()}/token"), mode=0o600)
    rows = guest.finish(guest.sleeper("welcome", 3, 10), "--cluster", LAB)
    assert {row["state"] for row in rows} == {"done"}


def test_a_detached_run_goes_on_when_the_desk_is_switched_off(desk: Desk) -> None:
    run = desk.detach(LAB, "alone", 60, 300)
    desk.host.kill()
    desk.host.boot()
    until(lambda: desk.state(run) == "succeeded", "the end of the run")
    rows = desk.rows(run)
    assert sorted(row["n"] for row in rows) == list(range(60))
    assert {row["node"] for row in rows} == set(HOSTS)
    shown = desk.json("show", run)
    assert (shown["state"], shown["counts"]["done"]) == ("succeeded", 60)
    assert "trial 7 says hello" in desk.shoal("logs", run).stdout
    item = next(row["item"] for row in rows if row["n"] == 7)
    folder = desk.shoal("get", run, item).stdout.strip()
    assert desk.host.read(f"{folder}/note") == "from 7"
    assert desk.shoal("get", run, "--to", "all").stdout.strip() == f"{desk.folder}/all"
    assert desk.host.read(f"{desk.folder}/all/{item}/note") == "from 7"
    assert desk.json("resume", run)["state"] == "succeeded", "there is nothing left to do"
    desk.shoal("rm", run)
    assert run not in desk.shoal("ls").stdout
    assert not desk.bed["node0"].run(["find", desk.bed["node0"].home, "-name", f"{run}*"]).stdout


def open_stage(bed: Testbed, number: int, hosts: list[str]) -> None:
    """Let the trials of this stage end on these hosts."""
    for host in hosts:
        bed[host].run(["touch", f"{bed[host].work}/stage{number}"])


def test_a_host_that_was_cut_off_and_one_that_is_killed_double_and_lose_nothing(desk: Desk) -> None:
    bed, count = desk.bed, 500
    for host in HOSTS:
        bed[host].run(["rm", "-f", f"{bed[host].work}/ended"])
    open_stage(bed, 0, HOSTS)
    file = desk.sweep("mixed", STAGED, {"n": list(range(count)), "ms": [200]})
    process = desk.start("run", file, "--cluster", LAB, "--json")
    until(lambda: all(ended_on(bed, host) for host in HOSTS), "a run that is under way everywhere")
    bed["node1"].cut()
    time.sleep(5)  # This is what happens to it, not a wait for something.
    bed["node1"].mend()
    open_stage(bed, 1, HOSTS)
    until(lambda: desk.done("mixed") > STAGE + 20, "a run that goes on")
    bed["node2"].kill()
    open_stage(bed, 2, ["node0", "node1"])
    desk.end(process)
    rows = desk.rows(desk.run_of("mixed"))
    check_all_done_once(rows, count)
    csv = desk.read(f".shoal/runs/{desk.run_of('mixed')}/results.csv")
    assert len(csv.splitlines()) == count + 1
    assert min(Counter(row["node"] for row in rows)[host] for host in HOSTS) > 0
    twice = [n for n, times in ended_on(bed, "node0").items() if times > 1]
    assert not twice, f"done twice on a host that was never lost: {[rows[n] for n in twice]}"
    assert desk.states(LAB) == {"node0": "up", "node1": "up", "node2": "lost"}


def test_down_leaves_nothing_on_any_host_and_may_be_repeated(desk: Desk) -> None:
    desk.bed.reset()
    for host in HOSTS:
        stages = [f"{desk.bed[host].work}/stage{number}" for number in range(3)]
        desk.bed[host].run(["rm", "-f", f"{desk.bed[host].work}/ended", *stages])
    desk.shoal("cluster", "down", LAB)
    profiles = f"{desk.bed['node0'].home}/.local/share/shoal/lab-"  # Of detached runs: what the next ones learn from.
    assert [line for line in left_on(desk.bed, "node0") if not line.startswith(profiles)] == []
    for host in HOSTS[1:]:
        assert left_on(desk.bed, host) == []
    kept = [line for line in left_on(desk.bed, "desk") if not line.startswith(desk.folder)]
    assert all("/.local/state/shoal/clusters/lab-" in line and "token" not in line for line in kept), kept
    assert set(desk.states(LAB).values()) == {"down"}
    again = desk.shoal("cluster", "down", LAB)
    assert "not up" in again.stderr

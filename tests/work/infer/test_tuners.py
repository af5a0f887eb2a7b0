"""What the driver asks its tuners: about nodes that work, and of runtimes that have shown there that they agree."""

from __future__ import annotations

import pytest

from shoal.model import Item, Need, Node
from shoal.model.advice import Advice, Heard, Measured
from shoal.spec import Tune
from shoal.work.infer.item_fields import ADVICE, COMPARE, COUNT, LIST
from shoal.work.infer.tuners import Tuning

GIB = 1 << 30


def item(seq, rows):
    return Item(seq, f"i{seq}", {COUNT: rows, LIST: {"files": ["x"] * rows}})


def tuning(nodes, runtimes=("as-given",), tune=None, learned=None, left=None):
    need = Need(cpu=1, labels={"tier": "work"})
    return Tuning(tune or Tune(), runtimes, need, learned or {}, nodes=lambda: nodes, left=lambda: left)


def work(made, host, seq, rate=1000.0):
    """One item, done as it was advised."""
    rows = made.rows()
    made.made(item(seq, rows))
    sent = made.sent(item(seq, rows), 1, host)
    advice = Advice.read(sent.params[ADVICE])
    setting = advice.steps[-1].setting
    made.told(sent, Heard((Measured(setting, advice.workers, rows, rows / rate, rows / rate, 1 << 28),)))
    return sent


def test_items_grow_though_the_first_node_can_hold_no_worker():
    head = Node("head", 1, 4 * GIB)
    worker = Node("worker", 2, 8 * GIB, labels={"tier": "work"})
    made = tuning([head, worker])
    made.rows()  # Before any worker is there.
    for seq in range(1, 40):
        made.active("worker", 2)
        work(made, "worker", seq)
    assert made.rows() > 500
    assert len(made.learned()) == 1


def test_nodes_that_are_gone_are_not_counted_on():
    nodes = [Node(name, 2, 8 * GIB, labels={"tier": "work"}) for name in ("a", "b")]
    alive = list(nodes)
    made = tuning(alive, left=10_000)
    for host in ("a", "b"):
        made.active(host, 2)
    for seq in range(1, 20):
        work(made, "a", seq)
    both = made.remaining_s()
    alive.pop()
    assert made.remaining_s() == 2 * both


def test_a_runtime_has_to_agree_on_each_kind_of_node():
    small, large = (Node(f"n{cpu}", cpu, 8 * GIB, labels={"tier": "work"}) for cpu in (2, 8))
    made = tuning([small, large], runtimes=("openvino",))
    for host in ("n2", "n8"):
        made.active(host, 2)
    first = made.sent(item(1, 8), 1, "n2")
    assert first.params[COMPARE] == ["openvino"]
    made.told(first, Heard(differences={"openvino": 1e-6}))
    assert made.sent(item(2, 8), 1, "n2").params[COMPARE] == []
    assert made.sent(item(3, 8), 2, "n8").params[COMPARE] == ["openvino"]


def test_a_runtime_that_somebody_chose_is_not_compared():
    node = Node("n", 2, 8 * GIB, labels={"tier": "work"})
    made = tuning([node], runtimes=("openvino",), tune=Tune(runtime="openvino"))
    made.active("n", 2)
    assert made.sent(item(1, 8), 1, "n").params[COMPARE] == []


def test_what_waits_is_what_has_not_ended():
    node = Node("n", 1, 8 * GIB, labels={"tier": "work"})
    made = tuning([node], left=0)
    made.active("n", 1)
    for seq in range(1, 20):
        work(made, "n", seq)
    assert made.remaining_s() == 0
    made.made(item(20, 500))
    assert made.remaining_s() > 0


def test_nothing_is_tried_on_an_item_that_is_gone_through_with_care():
    made = tuning([Node("a", 1, 8 * GIB, labels={"tier": "work"})], ("as-given", "openvino"), left=100_000)
    for seq in range(1, 4):
        made.active("a", 1)
        work(made, "a", seq)
    for _ in range(3):
        made.active("a", 1)
        careful = made.sent(item(4, 64)._replace(used=2), 1, "a")
        advice = Advice.read(careful.params[ADVICE])
        assert [step.setting.runtime for step in advice.steps] == ["as-given"]
        assert careful.params[COMPARE] == []
        made.lost(1, "crash")
    [document] = made.learned().values()
    assert document["memory"]["largest"] == {}


def test_the_time_left_counts_the_workers_that_are_left():
    made = tuning([Node("a", 2, 8 * GIB, labels={"tier": "work"})], left=100_000)
    for seq in range(1, 20):
        made.active("a", 2)
        work(made, "a", seq)
    both = made.remaining_s()
    made.active("a", 1)
    assert made.remaining_s() == pytest.approx(2 * both, rel=0.01)


def test_what_nodes_do_together_is_watched_and_remembered(monkeypatch):
    nodes = [Node(name, 2, 8 * GIB, labels={"tier": "work"}) for name in ("a", "b")]
    clock = [0.0]
    monkeypatch.setattr("shoal.work.infer.tuners.now", lambda: clock[0])
    made = tuning(nodes)
    for host in ("a", "b"):
        made.active(host, 1)
    for seq in range(1, 60):
        sent = work(made, "ab"[seq % 2], seq)
        clock[0] += sent.params[COUNT] / 2000
    found = made.learned()["2cpu-8gib"]
    assert found["nodes"] == 2
    assert found["by_nodes"] == {"2": pytest.approx(2000, rel=0.1)}
    failed = made.sent(item(60, 10**6), 1, "a")
    made.told(failed, Heard())
    assert made.learned()["2cpu-8gib"]["by_nodes"]["2"] <= found["by_nodes"]["2"], "it did not get done"
    again = tuning(nodes[:1], learned={"2cpu-8gib": found})
    again.active("a", 1)
    work(again, "a", 1)
    later = again.learned()["2cpu-8gib"]
    assert (later["nodes"], later["by_nodes"]) == (1, found["by_nodes"])


def test_curves_are_of_the_nodes_that_worked():
    node = Node("n", 1, 8 * GIB, labels={"tier": "work"})
    made = tuning([node], learned={"64cpu-512gib": {"points": [], "chosen": {"runtime": "as-given"}}})
    made.active("n", 1)
    for seq in range(1, 20):
        work(made, "n", seq)
    (kept,) = made.curves().values()
    assert list(made.curves()) == ["1cpu-8gib"]
    assert kept["chosen"]["runtime"] == "as-given"
    assert sum(point["rows"] for point in kept["points"]) > 0
    assert kept["scaling"] == [[1, 1000.0]]


def test_a_session_with_nothing_left_to_do_keeps_the_curves_of_those_before_it():
    before = {"1cpu-8gib": {"points": [{"batch": 8, "rows": 5}], "chosen": {"runtime": "as-given"}}}
    assert tuning([], learned=before).curves() == before

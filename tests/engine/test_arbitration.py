"""Who may take what, who gives back, who stands in line: decisions about tables of claims."""

from __future__ import annotations

from itertools import count

import pytest

from shoal.engine import arbitration
from shoal.engine.claims import TURN_S, Ask, Claim, Hold, Table
from shoal.model import Need, Node, Place

FOUR = [Node("a", cpu=4, memory_bytes=1 << 34)]


class Shared:
    """A table, and drivers that all use what they get at once."""

    def __init__(self, *nodes: Node, patience_s: float = 3.0, **weights: float) -> None:
        self.table = Table(nodes or FOUR, patience_s=patience_s)
        for name in "abc":
            self.table.claims[name] = Claim(weights.get(name, 1.0))
        self.numbers = count(1)
        self.asked = count(1)
        self.now = 0.0

    def ask(self, name: str, *needs: Need, together: bool = False, lasts_s: float | None = None) -> Ask:
        self.now += 0.001
        ask = Ask(next(self.asked), needs or (Need(),), self.now, together, lasts_s)
        self.table.ask(name, ask)
        return ask

    def settle(self) -> tuple[list[Ask], list[tuple[str, Hold]]]:
        """What is granted to whom came first, and what is to be given back."""
        claims = self.table.claims.items()
        waiting = [
            (name, ask) for name, claim in claims for ask in (*claim.asks.values(), *claim.line.values())
        ]
        waiting.sort(key=lambda entry: entry[1].since)
        granted = []
        for name, ask, places in arbitration.grants(self.table, waiting, self.numbers, self.now):
            granted.append(ask)
            for place in places:
                self.table.hold(name, self.table.claims[name].holds[place.id]._replace(used=True))
        return granted, arbitration.recalls(self.table)

    def give_back(self) -> list[str]:
        """All that was asked for is given back; whose it was."""
        self.settle()
        claims = self.table.claims.items()
        asked = [(name, place) for name, claim in claims for place in claim.leaving]
        for name, place in asked:
            self.table.drop(name, place)
        return [name for name, _ in asked]

    def fill(self, name: str, workers: int, need: Need = Need()) -> None:  # noqa: B008
        for _ in range(workers):
            self.ask(name, need)
        self.settle()

    def holds(self) -> dict[str, int]:
        return {name: len(claim.holds) for name, claim in self.table.claims.items() if claim.holds}


@pytest.mark.parametrize(
    ("weights", "shares"),
    [({}, {"a": 4, "b": 4}), ({"b": 3.0}, {"a": 2, "b": 6}), ({"a": 0.1}, {"a": 1, "b": 7})],
    ids=str,
)
def test_two_runs_share_by_their_weights(weights: dict[str, float], shares: dict[str, int]) -> None:
    shared = Shared(Node("a", 8, 1 << 34), **weights)
    shared.fill("a", 8)
    shared.fill("b", 8)
    while shared.give_back():
        pass
    shared.settle()
    assert shared.holds() == shares


def test_a_run_is_measured_by_the_resource_of_which_it_has_most() -> None:
    node = Node("a", cpu=16, memory_bytes=1 << 34, gpu=4)
    shared = Shared(node)
    shared.fill("a", 4, Need(cpu=1, gpu=1))
    shared.fill("b", 1, Need(cpu=1, gpu=1))
    assert shared.give_back() == ["a"]
    shared.settle()
    assert shared.holds() == {"a": 3, "b": 1}
    shared.fill("c", 12)
    assert shared.holds()["c"] == 12, "processors are of no use to those that wait for a GPU"


def test_what_no_share_is_large_enough_for_does_not_stand_idle() -> None:
    shared = Shared(Node("a", 3, 1 << 34))
    shared.fill("a", 1)
    shared.fill("b", 1)
    shared.fill("a", 2)
    shared.fill("b", 2)
    assert sum(shared.holds().values()) == 3


def test_a_need_that_is_larger_than_a_share_gets_its_first_worker() -> None:
    shared = Shared()
    shared.fill("a", 4)
    large = shared.ask("b", Need(cpu=3))
    assert shared.give_back() == ["a"] * 3
    granted, _ = shared.settle()
    assert granted == [large]


def test_one_that_waits_for_another_node_hinders_nobody() -> None:
    shared = Shared(Node("a", 2, 1 << 34), Node("b", 2, 1 << 34))
    shared.fill("a", 2, Need(node="b"))
    shared.fill("a", 1, Need(node="a"))
    shared.fill("b", 2, Need(node="b"))
    shared.fill("a", 1, Need(node="a"))
    assert shared.holds()["a"] == 4


def test_patience_is_for_one_worker_of_a_run_that_has_none() -> None:
    shared = Shared()
    shared.fill("a", 4)
    shared.table.claims["a"] = Claim(1.0, [hold._replace(used=False) for hold in holds_of(shared, "a")])
    two, one = shared.ask("b", Need(), Need()), shared.ask("c", Need())
    assert shared.settle() == ([], [])
    shared.now += 3.0
    granted, _ = shared.settle()
    assert granted == [one]
    assert two.id in shared.table.claims["b"].asks


def holds_of(shared: Shared, name: str) -> list[Hold]:
    return list(shared.table.claims[name].holds.values())


def test_the_place_that_is_asked_for_is_on_a_node_where_it_helps() -> None:
    shared = Shared(Node("a", 2, 1 << 34), Node("b", 2, 1 << 34))
    shared.fill("a", 4)
    shared.ask("b", Need(node="a"))
    _, [(name, hold)] = shared.settle()
    assert (name, hold.place) == ("a", Place(3, "a", Need(), ()))


def test_patience_takes_nothing_of_what_is_held_firmly_or_kept() -> None:
    shared = Shared()
    shared.ask("a", *[Need()] * 3, together=True)
    shared.settle()
    shared.fill("b", 1)
    one = shared.ask("c")
    shared.now += 3.0
    granted, _ = shared.settle()
    assert granted == [one], "it shares the processor of the pool"
    shared = Shared()
    shared.ask("a", *[Need()] * 4, together=True)
    shared.settle()
    shared.ask("c")
    shared.now += 3.0
    assert shared.settle() == ([], [])


def test_nobody_leaves_for_the_first_in_line_while_what_is_held_firmly_is_in_its_way() -> None:
    shared = Shared()
    shared.ask("a", *[Need()] * 3, together=True)
    shared.settle()
    shared.fill("b", 1)
    shared.ask("c", *[Need()] * 4, together=True)
    assert shared.settle() == ([], [])
    for hold in holds_of(shared, "a"):
        shared.table.drop("a", hold.place.id)
    assert shared.give_back() == ["b"]


def test_workers_leave_for_the_first_in_line_where_the_fewest_runs_lose_their_last() -> None:
    shared = Shared(Node("a", 2, 1 << 34), Node("b", 2, 1 << 34))
    shared.fill("a", 1, Need(node="a"))
    shared.fill("b", 1, Need(node="a"))
    shared.fill("b", 2, Need(node="b"))
    shared.ask("c", Need(), Need(), together=True)
    _, asked = shared.settle()
    assert [(name, hold.place.host) for name, hold in asked] == [("b", "b"), ("b", "b")]


def test_one_in_line_that_no_nodes_could_hold_holds_up_nobody() -> None:
    shared = Shared()
    shared.ask("a", *[Need()] * 5, together=True)
    behind = shared.ask("b", *[Need()] * 4, together=True)
    granted, _ = shared.settle()
    assert granted == [behind]


def test_what_is_kept_is_lent_until_the_first_in_line_could_start_and_not_beyond() -> None:
    shared = Shared()
    shared.ask("a", together=True, lasts_s=10.0)
    shared.ask("a", together=True, lasts_s=60.0)
    shared.ask("b", *[Need()] * 3, together=True)
    shared.settle()
    short, long = shared.ask("c", lasts_s=5.0), shared.ask("c", lasts_s=20.0)
    granted, asked = shared.settle()
    assert (granted, asked) == ([short], []), "one of the two is gone after 10 seconds, and then it starts"
    [hold] = holds_of(shared, "c")
    assert hold.place.lent
    assert hold.leaving
    shared.table.withdraw("c", long.id)
    shared.now += 9.0
    shared.ask("c", lasts_s=5.0)
    assert shared.settle() == ([], [])


def test_nothing_is_lent_while_somebody_in_the_way_may_go_at_any_moment() -> None:
    shared = Shared()
    shared.ask("a", together=True, lasts_s=60.0)
    shared.ask("a", together=True)
    shared.ask("b", *[Need()] * 3, together=True)
    shared.ask("c", lasts_s=1.0)
    shared.settle()
    assert shared.holds() == {"a": 2}


def test_a_run_without_a_worker_takes_its_turn_behind_those_that_came_within_a_while() -> None:
    shared = Shared()
    shared.ask("a", *[Need()] * 4, together=True)
    shared.settle()
    alone = shared.ask("b")
    shared.now += TURN_S - 1
    before = shared.ask("c", *[Need()] * 4, together=True)
    shared.now += 2
    behind = shared.ask("a", *[Need()] * 4, together=True)
    order = []
    while len(order) < 3:
        for name, claim in shared.table.claims.items():
            for place in list(claim.holds):
                shared.table.drop(name, place)
        granted, asked = shared.settle()
        assert asked == []
        order += granted
        assert all(hold.place.lent for hold in holds_of(shared, "b"))
    assert order == [before, alone, behind]

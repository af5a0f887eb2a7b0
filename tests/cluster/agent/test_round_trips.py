"""Round trips from this host: the arithmetic with given times, the reality on loopback."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from shoal.cluster.agent import round_trips
from shoal.cluster.agent.round_trips import EchoNotPermittedError, Target, latency, measure
from shoal.cluster.agent_calls import ThisMachine

V4 = Target(socket.AF_INET, ("192.0.2.1", 22), 22)
V6 = Target(socket.AF_INET6, ("2001:db8::1", 22, 0, 0), 22)


def given(*answers: float | Exception) -> Callable[[Target, float], float]:
    """Answers, or what happens instead, one after the other."""
    left = list(answers)

    def round_trip_s(target: Target, timeout_s: float) -> float:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return round_trip_s


def v4(host: str, port: int | None) -> list[Target]:
    return [V4]


def test_minimum_median_and_spread_are_those_of_the_samples() -> None:
    found = measure("a:22", round_trip_s=given(0.03, 0.02, 0.05, 0.021, 0.04), resolve=v4)
    assert (found.samples, found.minimum_s, found.median_s) == (5, 0.02, 0.03)
    assert found.spread_s == pytest.approx(0.03)
    assert (found.probe, found.error) == ("a:22", "")


def test_a_sample_without_an_answer_does_not_count_and_is_told() -> None:
    found = measure("a:22", round_trip_s=given(0.02, TimeoutError(), 0.03, 0.02, TimeoutError()), resolve=v4)
    assert (found.samples, found.minimum_s) == (3, 0.02)
    assert found.error == "no answer in 2 of 5 tries"


def test_without_any_answer_there_are_no_seconds() -> None:
    unreachable = OSError(113, "No route to host")
    found = measure("a:22", round_trip_s=given(*[unreachable] * 5), resolve=v4)
    assert (found.samples, found.minimum_s, found.spread_s) == (0, None, None)
    assert found.error == "a:22: no route to host, tried 5 times"


def test_the_next_address_of_a_name_is_tried_where_the_first_does_not_answer() -> None:
    tried: list[str] = []

    def only_v4(target: Target, timeout_s: float) -> float:
        tried.append(target.address[0])
        if target.family == socket.AF_INET6:
            raise TimeoutError
        return 0.02

    found = measure("a:22", round_trip_s=only_v4, resolve=lambda host, port: [V6, V4])
    assert tried == ["2001:db8::1", *["192.0.2.1"] * 5]
    assert (found.samples, found.error) == (5, "")


def test_samples_stop_when_the_time_is_up() -> None:
    clock = [0.0]
    asked_s: list[float] = []

    def slow(target: Target, timeout_s: float) -> float:
        asked_s.append(timeout_s)
        clock[0] += timeout_s
        raise TimeoutError

    found = measure("a:22", limit_s=2.0, round_trip_s=slow, resolve=v4, now=lambda: clock[0])
    assert sum(asked_s) == pytest.approx(2.0)
    assert max(asked_s) < 1.0, "an answer to a packet that was sent again would count"
    assert found.error == "a:22: no answer, tried 3 times"


def test_where_no_echo_may_be_sent_the_error_says_what_to_do() -> None:
    found = measure("a", round_trip_s=given(EchoNotPermittedError()), resolve=v4)
    assert "give the probe a port that is open, such as a:22" in found.error


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed() -> int:
    """A port of loopback that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that answers nobody: its queue is full, so the kernel drops whoever knocks."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(server.getsockname())
        yield int(server.getsockname()[1])
        for each in waiting:
            each.close()


def test_loopback_is_near_whether_somebody_listens_or_not(listening: int, closed: int) -> None:
    began = time.monotonic()
    found = latency({"open": f"127.0.0.1:{listening}", "shut": f"127.0.0.1:{closed}"})
    each_took_s = (time.monotonic() - began) / 5
    for each in found.values():
        assert each["samples"] == 5
        assert 0 < each["minimum_s"] < each_took_s
        assert each["minimum_s"] <= each["median_s"] <= each["minimum_s"] + each["spread_s"]
        assert each["error"] == ""


def test_what_never_answers_costs_bounded_time_and_holds_up_no_other(silent: int, listening: int) -> None:
    began = time.monotonic()
    probes = {f"silent-{number}": f"127.0.0.1:{silent}" for number in range(8)}
    found = latency({**probes, "open": f"127.0.0.1:{listening}"}, limit_s=1.0)
    assert time.monotonic() - began < 6, "one after the other, they would have taken eight seconds"
    assert found["open"]["samples"] == 5
    for location in probes:
        assert found[location]["minimum_s"] is None
        assert "no answer" in found[location]["error"]


def test_a_lookup_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    enough = threading.Event()

    def hang(*_: object, **__: object) -> None:
        enough.wait(30)
        raise socket.gaierror(-3, "try again")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    began = time.monotonic()
    found = latency({"a": "slow.example:22"}, limit_s=0.2)
    enough.set()
    assert time.monotonic() - began < 5
    assert "cannot be looked up" in found["a"]["error"]


def test_a_name_that_nobody_knows_is_told() -> None:
    assert "nobody knows" in latency({"a": "nosuch.invalid:22"})["a"]["error"]


@pytest.mark.root
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_a_host_without_a_port_is_sent_an_echo(host: str) -> None:
    if host == "[::1]" and not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("this kernel has no IPv6")
    began = time.monotonic()
    found = latency({"a": host})["a"]
    assert found["samples"] == 5, found["error"]
    assert 0 < found["minimum_s"] < (time.monotonic() - began) / 5


def test_only_the_reply_to_the_very_request_is_one() -> None:
    mark = bytes(16)
    assert round_trips.is_reply(bytes(8) + mark, mark, is_v6=False)
    assert round_trips.is_reply(bytes([0x45]) + bytes(19) + bytes(8) + mark, mark, is_v6=False)
    assert round_trips.is_reply(bytes([129]) + bytes(7) + mark, mark, is_v6=True)
    assert not round_trips.is_reply(bytes([8]) + bytes(7) + mark, mark, is_v6=False), (
        "the request itself, on loopback"
    )
    assert not round_trips.is_reply(bytes(8) + b"x" * 16, mark, is_v6=False), "somebody else's"
    assert not round_trips.is_reply(b"", mark, is_v6=False)


def test_the_agent_of_a_host_answers(listening: int) -> None:
    request = {"do": "latency", "probes": {"a": f"127.0.0.1:{listening}"}, "samples": 3}
    began = time.monotonic()
    found = ThisMachine().ask("any", request)
    assert found["a"]["samples"] == 3
    assert found["a"]["minimum_s"] < (time.monotonic() - began) / 3

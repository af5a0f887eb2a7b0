"""The displays: what they show of given moments, and that nothing they meet disturbs a run."""

from __future__ import annotations

import io
import sys

import pytest

from shoal import words
from shoal.api.display import Silent, board, display_for_python, live, notebook
from shoal.api.display.board import Best, Board, Estimate, Units
from shoal.cli.foreground import FAILURES_SAID, PlainDisplay
from shoal.model import Item, Outcome
from shoal.shape.base import Ended, Progress, Running
from shoal.work.infer.kind import KIND


def item(number, **params):
    return Item(number, f"t{number:04d}", params or {"lr": 0.1})


def ended(number, state="done", error=None, **metrics):
    return Ended(item(number), "node1", 0.0, Outcome(state, metrics, error, 1.5))


def moment(now=100.0, done=3, failed=0, running=(), left=10.0, rate=2.0):
    counts = {"done": done, "failed": failed}
    going = [Running(item(number), "node1", now - 2.0) for number in running]
    return Progress(now, counts, 4, going, 2, rate, left, 1.0)


@pytest.fixture
def shown():
    found = Board("demo-1a2b", 10, objective=("score", "max"))
    found.moment(moment(failed=1, running=[7, 8]))
    found.durable([ended(1, score=0.5), ended(2, score=0.9), ended(3, score=float("nan"))])
    found.durable([ended(4, "failed", "exited with status 3: <b>[red]boom\x1b[0m")])
    return found


def test_one_line_says_how_far_it_is(shown):
    assert shown.how_far() == (
        "4/10 ended, 1 failed, 2 running, 2.0/s, about 10s left; best score 0.9 by t0002 (lr=0.1)"
    )


def test_what_earlier_sessions_did_counts():
    found = Board("demo", 10, before={"done": 5}, objective=("loss", "min"), best=Best(0.2, "t0001", {}))
    found.moment(moment(done=3))
    found.durable([ended(9, loss=0.3)])
    assert found.of_total == "8/10"
    assert found.best_in_words() == "loss 0.2 by t0001"
    found.durable([ended(10, loss=0.1)])
    assert found.best_in_words() == "loss 0.1 by t0010 (lr=0.1)"


def test_a_total_that_is_unknown_is_not_shown():
    found = Board("demo", None)
    found.moment(moment(left=None, rate=0.0))
    assert found.how_far() == "3 ended"


def test_an_inference_shows_inputs_and_how_many_there_are_once_they_are_listed():
    found = Board("demo", None, units=Units(KIND))
    found.moment(moment(left=None, rate=0.0))
    found.durable([ended(1, rows=1000, errors=24)])
    assert (found.of_total, found.share) == ("1,024 inputs", None)
    found.moment(moment(left=None, rate=0.0)._replace(left=3072))
    assert (found.of_total, found.share) == ("1,024/4,096 inputs", 0.25)


def test_an_inference_that_is_resumed_counts_the_inputs_of_earlier_sessions():
    found = Board("demo", None, before={"done": 7}, units=Units(KIND, 15_000))
    found.moment(moment(left=None, rate=0.0)._replace(left=5000))
    assert (found.of_total, found.share) == ("15,000/20,000 inputs", 0.75)
    found.durable([ended(8, rows=990, errors=10)])
    found.moment(moment(now=110.0, left=None, rate=0.0)._replace(left=4000))
    assert found.of_total == "16,000/20,000 inputs"
    assert found.pace() == "100/s", "what was done before does not make it faster"


def test_counts_may_say_what_they_count():
    assert words.counts({"done": 7}, of="item") == "7 items done"
    assert words.counts({"done": 1, "failed": 2}, of="item") == "1 item done, 2 failed"
    assert words.counts({"failed": 1}, of="item") == "1 item failed"
    assert words.counts({}, "nothing", of="item") == "nothing"


def test_the_estimate_settles():
    estimate = Estimate()
    shown = []
    for step in range(200):
        now = step * 0.1
        noise = 10.0 if step % 2 else -10.0
        estimate.tell(now, 60.0 - now + noise)
        shown.append(estimate.left_s(now) + now)
    assert max(shown[150:]) - min(shown[150:]) < 1.0
    assert abs(shown[-1] - 60.0) < 2.5


def test_plain_lines_come_every_few_seconds_and_failures_at_once(shown):
    said = []
    display = PlainDisplay(shown, said.append)
    for step in range(100):
        display.moment(moment(now=step * 0.1))
    assert len(said) == 1
    display.durable([ended(5, "failed", "boom")])
    assert said[-1] == "failed: t0005 on node1 after 1.5s: boom"
    shown.note = "Stopping"
    display.moment(moment(now=10.0))
    assert "Stopping" in said


def test_a_flood_of_failures_is_counted_instead_of_printed(shown):
    said = []
    display = PlainDisplay(shown, said.append)
    display.durable([ended(number, "failed", "boom") for number in range(1, 1001)])
    display.close()
    assert len(said) == FAILURES_SAID + 1
    assert said[-1] == "failed: 990 more"


def test_a_listener_that_is_gone_is_not_an_error(shown):
    def say(_):
        raise BrokenPipeError

    display = PlainDisplay(shown, say)
    display.durable([ended(5, "failed", "boom"), ended(6, "failed", "boom")])
    display.close()


def test_the_picture_on_a_terminal_has_everything(shown):
    shown.note = "Stopping: wait."
    text = drawn(shown)
    for part in ("demo-1a2b", "40%", "4/10", "about 10s left", "2 running on 2 workers, 1 failed", "t0007"):
        assert part in text
    for part in (
        "node1",
        "2.0s",
        "lr=0.1",
        "failed t0004 on node1: exited with status 3: <b>[red]boom",
        "Stopping",
    ):
        assert part in text
    assert "best score 0.9 by t0002" in text
    assert "\x1b[0m" not in text


def test_the_picture_names_only_a_few_of_many_running():
    found = Board("demo", 100)
    found.moment(moment(running=range(1, 31)))
    text = drawn(found)
    assert "30 running" in text
    assert "and 22 more" in text
    assert text.count("node1") == live.RUNNING_SHOWN


def drawn(found):
    from rich.console import Console

    file = io.StringIO()
    Console(file=file, width=100, color_system=None).print(live.picture(found))
    return file.getvalue()


def test_a_live_display_draws_nothing_at_first_and_wipes_itself(shown, monkeypatch):
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    display = live.LiveDisplay(shown)
    display.moment(moment(now=0.0))
    display.moment(moment(now=0.1))
    assert screen.getvalue() == ""
    display.moment(moment(now=0.3))
    assert "demo-1a2b" in screen.getvalue()
    display.close()
    display.close()
    assert screen.getvalue().endswith("\x1b[2K")


def test_a_terminal_that_goes_away_does_not_disturb_the_run(shown, monkeypatch):
    class Gone(io.StringIO):
        def write(self, text):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stderr", Gone())
    display = live.LiveDisplay(shown)
    for step in range(10):
        display.moment(moment(now=float(step)))
    display.close()


def test_html_escapes_what_came_from_outside(shown):
    page = notebook.as_html(shown)
    assert "&lt;b&gt;[red]boom" in page
    assert "<b>[red]" not in page
    assert "width:40.0%" in page


def test_a_program_that_nobody_watches_gets_no_display():
    assert isinstance(display_for_python(None), Silent)


def test_states_that_are_shown_as_ended_are_final():
    assert "stopped" not in board.FINAL

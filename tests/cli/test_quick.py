"""`run` is read without click where that is safe: then both must understand the same."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.cli.dispatch import RunRequest, read_run
from shoal.cli.run_and_resume import run_command

NAMES = ("file", "cluster", "sets", "limit", "as_json", "inline", "plan")


def by_click(arguments: list[str]) -> RunRequest | None:
    try:
        context = run_command.make_context("run", arguments[1:])
    except click.ClickException:
        return None
    return RunRequest(*(context.params[name] for name in NAMES))


@pytest.mark.parametrize(
    ("arguments", "request_"),
    [
        (["run", "a.yaml"], RunRequest("a.yaml")),
        (["run", "a.yaml", "--json"], RunRequest("a.yaml", as_json=True)),
        (["run", "--inline", "a.yaml"], RunRequest("a.yaml", inline=True)),
        (["run", "--plan=p.json", "a.yaml"], RunRequest("a.yaml", plan="p.json")),
        (["run", "--limit", "3", "a.yaml"], RunRequest("a.yaml", limit=3)),
        (["run", "--cluster=c.yaml", "a.yaml"], RunRequest("a.yaml", "c.yaml")),
        (["run", "a", "--set", "x=1", "--set=y=2=3"], RunRequest("a", sets=("x=1", "y=2=3"))),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usual_requests_are_read_quickly(arguments, request_):
    assert read_run(arguments) == request_
    assert by_click(arguments) == request_


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["resume", "x"],
        ["run"],
        ["run", "a", "b"],
        ["run", "a", "--help"],
        ["run", "a", "--limit"],
        ["run", "a", "--limit", "0"],
        ["run", "a", "--limit", "１"],
        ["run", "a", "--detach"],
        ["run", "--", "a"],
        ["run", "a", "--set", "-x"],
        ["run", "a", "--lim", "3"],
    ],
    ids=" ".join,
)
def test_everything_else_is_left_to_click(arguments):
    assert read_run(arguments) is None


@given(
    st.lists(
        st.sampled_from(
            [
                "a.yaml",
                "--json",
                "--inline",
                "--limit",
                "--limit=2",
                "7",
                "--set",
                "--set=k=v",
                "k=v",
                "--cluster",
                "-x",
                "--",
                "",
            ]
        ),
        max_size=6,
    )
)
def test_what_is_read_quickly_is_what_click_reads(rest):
    quick = read_run(["run", *rest])
    if quick is not None:
        assert quick == by_click(["run", *rest])

"""Commands: split like a shell does, then filled in, and never parsed again."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.spec.command import Cell, fill, placeholders, template


@pytest.mark.parametrize(
    ("command", "values", "arguments"),
    [
        ("python train.py --lr {LR}", {"LR": "0.10"}, ["python", "train.py", "--lr", "0.10"]),
        ("x --data={D}/{E}.csv", {"D": "a b", "E": "c"}, ["x", "--data=a b/c.csv"]),
        ("x '{A} and {A}'", {"A": "1"}, ["x", "1 and 1"]),
        ("x {{A}} {{}} {{{A}}}", {"A": "1"}, ["x", "{A}", "{}", "{1}"]),
        ("x {learning rate} {user's}", {"learning rate": "1", "user's": "2"}, ["x", "1", "2"]),
        ("x {A}", {"A": None}, ["x", ""]),
        ("x pre{A}post", {"A": None}, ["x", "prepost"]),
        ("x '' \"\"", {}, ["x", "", ""]),
        ("x {A}", {"A": Cell(7, "007")}, ["x", "007"]),
        ("x {A} {B}", {"A": True, "B": 1e-5}, ["x", "true", "1e-05"]),
        ("a\n  b \\\n c", {}, ["a", "b", "c"]),
        ("{prog} x", {"prog": "/bin/my prog"}, ["/bin/my prog", "x"]),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_command_is_split_and_then_filled(command, values, arguments):
    assert fill(template(command), values) == arguments


@pytest.mark.parametrize(
    "value",
    [
        "a b",
        "'",
        '"',
        "$(rm -rf /)",
        "`x`",
        "line\nbreak",
        "{B}",
        "{{",
        "}",
        "\\",
        "é\U0001f600",
        "--flag",
        "; ls",
        "\00\0",
    ],
    ids=repr,
)
def test_a_value_arrives_as_exactly_one_argument(value):
    assert fill(template("x {A} '{A}'"), {"A": value, "B": "no"}) == ["x", value, value]


@given(st.text(), st.text())
def test_any_text_is_filled_in_unchanged(first, second):
    assert fill(template('run {a} "p{b}s"'), {"a": first, "b": second}) == ["run", first, f"p{second}s"]


@given(st.lists(st.text(st.characters(exclude_characters="{}\0", exclude_categories=["Cs"])), min_size=1))
def test_a_command_without_braces_is_split_as_shlex_does(words):
    command = shlex.join(words)
    assert fill(template(command), {}) == shlex.split(command)


def test_placeholders_come_in_order_and_once():
    assert placeholders("x {b} {a} {b} {{c}} '{d e}'") == ["b", "a", "d e"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("echo 'a", "no closing quotation"),
        ("echo a\\", "no escaped character"),
        ("echo {a", "a stray '{'"),
        ("echo a}", "a stray '}'"),
        ("echo {a{b}}", "a stray '{'"),
        ("echo {}", "names no column"),
        ("echo { }", "names no column"),
        ("   ", "only blanks"),
        ("a\0b", "NUL"),
    ],
    ids=repr,
)
def test_a_command_that_cannot_be_split_says_why(command, message):
    with pytest.raises(ValueError, match=message):
        template(command)


@given(st.text())
def test_any_command_is_split_or_refused_with_a_value_error(command):
    try:
        names = placeholders(command)
    except ValueError:
        return
    assert fill(template(command), dict.fromkeys(names, "v"))


def test_a_column_that_is_not_there_is_a_key_error():
    with pytest.raises(KeyError):
        fill(template("x {A}"), {})

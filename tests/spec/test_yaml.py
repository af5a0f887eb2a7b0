"""YAML 1.2 as it is read: what scalars mean, and what a file may not hold."""

import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import SpecError
from shoal.spec import yaml_reader as loader_module
from shoal.spec.nodes import Problems, resolve


def plain(node):
    """The tree as Python data."""
    if isinstance(node.value, dict):
        return {key: plain(item) for key, item in node.value.items()}
    return [plain(item) for item in node.value] if isinstance(node.value, list) else node.value


def read(text):
    problems = Problems("file.yaml")
    root = loader_module.compose(text, problems, origin="file.yaml")
    problems.raise_any()
    return root


@pytest.fixture(params=[pytest.param("compiled", marks=pytest.mark.machine), "pure"])
def parser(request, monkeypatch):
    """Both of PyYAML's parsers: the one in C is not everywhere."""
    loader = getattr(yaml, "CSafeLoader", None) if request.param == "compiled" else yaml.SafeLoader
    if loader is None:
        pytest.skip("PyYAML was built without libyaml")
    monkeypatch.setattr(loader_module, "_LOADER", loader)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("true", True),
        ("False", False),
        ("on", "on"),
        ("off", "off"),
        ("yes", "yes"),
        ("no", "no"),
        ("y", "y"),
        ("1e-5", 1e-5),
        ("1E5", 1e5),
        ("1.", 1.0),
        (".5", 0.5),
        ("-.5e+3", -500.0),
        ("010", 10),
        ("007", 7),
        ("-3", -3),
        ("+3", 3),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("12:30:45", "12:30:45"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T10:00:00Z", "2024-01-01T10:00:00Z"),
        ("null", None),
        ("~", None),
        ("", None),
        ("nil", "nil"),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("inf", "inf"),
        ("nan", "nan"),
        ("1e", "1e"),
        ("e5", "e5"),
        ("-", "-"),
        (".", "."),
        ("1.2.3", "1.2.3"),
        ("0x", "0x"),
        ("٣", "٣"),
        ("=", "="),
        ("9" * 5000, "9" * 5000),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_plain_scalar_follows_the_core_rules_of_yaml_1_2(written, meant):
    found = resolve(written)
    assert found == meant
    assert type(found) is type(meant)


def test_dot_nan_is_not_a_number():
    assert math.isnan(resolve(".nan"))


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("labels: [off, on]", {"labels": ["off", "on"]}),
        ("a: '007'", {"a": "007"}),
        ('a: "true"', {"a": "true"}),
        ("a: !!str 007", {"a": "007"}),
        ("a: ! 007", {"a": "007"}),
        ("a: !!int '3'", {"a": 3}),
        ("a: |\n  1\n", {"a": "1\n"}),
        ("a:\nb:\n  - 1\n  - x", {"a": None, "b": [1, "x"]}),
        ("1: a\ntrue: b\n~: c", {"1": "a", "true": "b", "~": "c"}),
        ("base: &b {cpu: 1}\nother: *b", {"base": {"cpu": 1}, "other": {"cpu": 1}}),
        ("%YAML 1.2\n---\na: 1\n...\n", {"a": 1}),
        ("a: 1\r\nb: 2\r\n", {"a": 1, "b": 2}),
        ('a: "\\u00e9 \U0001f600"', {"a": "é \U0001f600"}),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_document_becomes_a_tree(text, meant):
    assert plain(read(text)) == meant


@pytest.mark.usefixtures("parser")
def test_the_exact_text_of_a_scalar_is_kept():
    items = read("[0.10, 1e-5, 007, 'x', 0x1F]").value
    assert [item.text for item in items] == ["0.10", "1e-5", "007", "x", "0x1F"]


@pytest.mark.usefixtures("parser")
def test_values_stand_on_the_line_of_their_key_and_items_on_their_own():
    root = read("a: 1\n\nb:\n  c:\n    - 1\n    - 2\nd: [1,\n 2]\ne: &x 1\nf: *x\n")
    assert {key: node.line for key, node in root.value.items()} == {"a": 1, "b": 3, "d": 7, "e": 9, "f": 10}
    assert [node.line for node in root.value["b"].value["c"].value] == [5, 6]
    assert [node.line for node in root.value["d"].value] == [7, 8]


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "file.yaml:3: the key 'a' is given twice, first on line 1"),
        ("a: 1\n---\nb: 2", "file.yaml:2: expected one document, found a second one"),
        ("a: !!python/object/apply:os.system [ls]", "file.yaml:1: the tag '!!python/object/apply:os.system'"),
        ("a: !secret x", "the tag '!secret' is not allowed"),
        ("a: !!int x", "tagged !!int, which 'x' is not"),
        ("a:\n\tb: 1", "file.yaml:2: a tab where YAML only takes spaces"),
        ("a: 1\n b: 2", "file.yaml:2: not valid YAML"),
        ("a: 'x", "not valid YAML"),
        ("a: b: c", "not valid YAML: mapping values are not allowed"),
        ("a: \x07", "a control character"),
        ('a: "\\0"', "a NUL or half a character"),
        ("a: *nowhere", "the alias *nowhere has no anchor"),
        ("a: &x [*x]", "the alias *x is inside of what it stands for"),
        ("[a, b]: 1", "expected a name before the colon"),
        ("a: " + "[" * 60 + "]" * 60, "nested more than 50 levels deep"),
    ],
    ids=lambda value: value[:30],
)
def test_what_a_file_may_not_hold_is_named_with_its_line(text, message):
    with pytest.raises(SpecError) as caught:
        read(text)
    assert message in str(caught.value)


@pytest.mark.usefixtures("parser")
def test_an_alias_bomb_is_refused_quickly():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    with pytest.raises(SpecError, match="aliases stand for more than 10,000 values"):
        read("\n".join(lines))


def test_very_deep_nesting_is_a_problem_and_not_a_crash():
    for text in ("[" * 100_000, "{a: " * 20_000, "- " * 20_000):
        with pytest.raises(SpecError):
            read(text)


@given(st.integers(-(10**300), 10**300))
def test_whole_numbers_are_read_as_they_are_written(number):
    assert resolve(str(number)) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_read_as_they_are_written(number):
    assert resolve(repr(number)) == number


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)


@given(
    st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
)
def test_python_data_is_the_same_after_it_was_written_and_read(data):
    from shoal.spec.python_nodes import from_python, to_text

    problems = Problems()
    root = from_python(data, problems)
    if len(problems) or root.value is None:
        return
    again = read(to_text(root))
    assert plain(again) == plain(root)

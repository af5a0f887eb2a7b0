"""Files, texts and Python data: how they are found and read, and how problems are told."""

import contextlib
import copy
import pathlib
import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal import spec
from shoal.errors import NotFound, SpecError
from shoal.spec import Sweep
from shoal.spec.command import Cell

MINIMAL = "kind: sweep\ntrials: {table: t.csv}\nrun: {command: x}\n"


def test_one_problem_is_the_message_and_its_hint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("sweep.yaml").write_text(MINIMAL + "limts: {}\n")
    with pytest.raises(SpecError) as caught:
        spec.load("sweep.yaml")
    assert str(caught.value) == "sweep.yaml:4: limts: unknown key"
    assert caught.value.hint == "Did you mean 'limits'?"


def test_several_problems_are_counted_and_listed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("sweep.yaml").write_text(MINIMAL + "limts: {}\nenv: 3\n")
    with pytest.raises(SpecError) as caught:
        spec.load("sweep.yaml", ["trials.repeat=x"])
    assert str(caught.value).splitlines() == [
        "3 problems in sweep.yaml",
        "  sweep.yaml:4: limts: unknown key. Did you mean 'limits'?",
        "  sweep.yaml:5: env: expected a mapping of environment variables, found 3",
        "  --set trials.repeat=x: expected a whole number of at least 1, found 'x'",
    ]
    assert len(caught.value.problems) == 3


def test_a_flood_of_problems_is_cut_in_the_message_and_whole_in_the_error(load):
    with pytest.raises(SpecError) as caught:
        load(MINIMAL + "".join(f"unknown{i}: 1\n" for i in range(100)))
    assert str(caught.value).endswith("  and 75 more")
    assert len(caught.value.problems) == 100


def test_a_problem_is_one_printable_line_whatever_is_in_a_name(problems):
    found = problems(MINIMAL + 'env: {"a\\n\\e[31m": [1]}\n"x\\ny": 1\n', "a\nb=3")
    assert len(found) == 3
    assert all(problem.isprintable() for problem in found)


def test_a_file_that_is_not_there_is_answered_with_the_nearest_name(tmp_path):
    (tmp_path / "sweep.yaml").write_text(MINIMAL)
    with pytest.raises(NotFound, match="There is no file") as caught:
        spec.load(tmp_path / "swep.yaml")
    assert caught.value.hint == "Did you mean 'sweep.yaml'?"


@pytest.mark.parametrize("path", ["nowhere/x.yaml", "sweep.yaml/x.yaml", "a\0b", ""], ids=repr)
def test_a_path_that_leads_nowhere_is_not_found(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweep.yaml").write_text(MINIMAL)
    with pytest.raises(NotFound, match="There is no file"):
        spec.load(path)


def test_a_folder_is_not_a_file_and_what_is_in_it_is_named(tmp_path):
    (tmp_path / "sweep.yaml").write_text(MINIMAL)
    with pytest.raises(NotFound, match="is a folder") as caught:
        spec.load(tmp_path)
    assert caught.value.hint == "Choose from: sweep.yaml."


@pytest.mark.user
def test_a_file_that_may_not_be_read_is_a_problem(tmp_path):
    (tmp_path / "sweep.yaml").write_text(MINIMAL)
    (tmp_path / "sweep.yaml").chmod(0)
    with pytest.raises(SpecError, match="cannot be read: Permission denied"):
        spec.load(tmp_path / "sweep.yaml")


def test_a_file_without_an_end_is_not_read_to_it():
    with pytest.raises(SpecError, match="larger than 8 MiB"):
        spec.load("/dev/zero")


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (b"", "the file is empty", "kind: sweep"),
        (b"# only a comment\n", "the file is empty", "kind: sweep"),
        (b"~", "the file is empty", "kind: sweep"),
        (b"a: 1\nb: \xff", ":2: not UTF-8 text, found the byte 0xff", "Save it as UTF-8."),
        ("kind: sweep".encode("utf-16"), ":1: not UTF-8 text", "Save it as UTF-8."),
        (b"PK\x03\x04\xff\xfe", "not UTF-8 text", "This is an Excel sheet"),
        (b"- kind\n", "expected keys such as kind", None),
        (b"kind", "expected keys such as kind", None),
        (b"name: x", "kind: missing", "Start with kind: sweep"),
        (b"kind: swep", "kind: unknown kind 'swep'", "Did you mean 'sweep'?"),
        (b"kind: zzz", "kind: unknown kind 'zzz'", "Choose from: infer, process, sweep."),
        (b"kind: [sweep]", "kind: expected one of sweep, infer, process, found a list", None),
        (b"kind: cluster", "kind: expected a workload, found 'cluster'", "--cluster"),
    ],
    ids=lambda value: repr(value)[:25],
)
def test_a_file_that_is_no_workload_says_why(tmp_path, content, message, hint):
    (tmp_path / "sweep.yaml").write_bytes(content)
    with pytest.raises(SpecError) as caught:
        spec.load(tmp_path / "sweep.yaml")
    assert message in str(caught.value)
    assert (hint or "") in (caught.value.hint or "")


def test_a_workload_is_not_a_cluster(load):
    with pytest.raises(SpecError, match="kind: expected 'cluster', found 'sweep'"):
        load(MINIMAL, kind="cluster")


def test_a_byte_order_mark_and_windows_lines_do_no_harm(tmp_path):
    (tmp_path / "sweep.yaml").write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())
    assert spec.load(tmp_path / "sweep.yaml").name == "sweep"


def test_the_text_that_a_run_keeps_loads_as_the_same_workload(load, tmp_path):
    first = load(MINIMAL, "trials.repeat=3")
    again = spec.loads(first.source, folder=first.folder, label="sweep.yaml", sets=first.sets)
    assert again == first


def test_python_data_is_read_by_the_same_rules(tmp_path):
    data = {
        "kind": "sweep",
        "trials": {"grid": {"lr": (0.1, 1e-5), "n": range(2), "p": [pathlib.Path("a/b"), None, True]}},
        "run": {"command": "x {lr}"},
    }
    sweep = spec.parse(data, folder=tmp_path, sets=["trials.repeat=2"])
    assert isinstance(sweep, Sweep)
    assert (sweep.name, sweep.folder, sweep.trials.repeat) == ("sweep", str(tmp_path), 2)
    assert sweep.trials.grid == {
        "lr": (Cell(0.1, "0.1"), Cell(1e-5, "1e-05")),
        "n": (Cell(0, "0"), Cell(1, "1")),
        "p": (Cell("a/b", "a/b"), Cell(None, ""), Cell(True, "true")),
    }
    again = spec.loads(sweep.source, folder=tmp_path, label="sweep.yaml", sets=sweep.sets)
    assert again.replaced(source=sweep.source) == sweep


def test_numpy_scalars_are_values_and_arrays_are_not(tmp_path):
    import numpy

    data = {
        "kind": "sweep",
        "trials": {"grid": {"n": [numpy.int64(3), numpy.float32(0.5)]}},
        "run": {"command": "x"},
    }
    assert spec.parse(data, folder=tmp_path).trials.grid == {"n": (Cell(3, "3"), Cell(0.5, "0.5"))}
    data["trials"] = {"grid": {"n": numpy.arange(3)}}
    with pytest.raises(SpecError, match=r"trials\.grid\.n: .*found a value of type ndarray"):
        spec.parse(data, folder=tmp_path)


def test_problems_of_python_data_name_the_path_only(tmp_path):
    with pytest.raises(SpecError) as caught:
        spec.parse({"kind": "sweep", "trials": {"table": "t", "repeat": 0}, "rum": {}}, folder=tmp_path)
    assert [problem.message for problem in caught.value.problems] == [
        "rum: unknown key",
        "trials.repeat: expected a whole number of at least 1, found 0",
        "run: missing, expected a mapping with one of command, function, workload",
    ]
    assert str(caught.value).startswith("3 problems in the workload\n")


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        ({1: "a", "1": "b"}, "env: the key '1' is given twice"),
        ({(1, 2): "a"}, "env: expected a name, found (1, 2)"),
        ({"a": "\0"}, "env.a: text with a NUL"),
        ({"\ud800": "a"}, "env: text with a NUL or half a character"),
        ({"a": 10**5000}, "env.a: a number that is too large"),
        ({"a": b"bytes"}, "found a value of type bytes"),
    ],
    ids=["twice", "tuple", "nul", "half", "huge", "bytes"],
)
def test_python_data_that_no_file_could_hold_is_refused(tmp_path, env, problem):
    data = {"kind": "sweep", "trials": {"table": "t"}, "run": {"command": "x"}, "env": env}
    with pytest.raises(SpecError) as caught:
        spec.parse(data, folder=tmp_path)
    assert problem in str(caught.value)


def test_data_that_holds_itself_is_a_problem(tmp_path):
    data = {"kind": "sweep"}
    data["env"] = data
    with pytest.raises(SpecError, match="levels deep"):
        spec.parse(data, folder=tmp_path)


def test_a_spec_is_frozen_comparable_picklable_and_can_be_replaced(load):
    sweep = load(MINIMAL)
    with pytest.raises(AttributeError):
        sweep.name = "y"
    with pytest.raises(AttributeError):
        del sweep.name
    assert pickle.loads(pickle.dumps(sweep)) == sweep == copy.deepcopy(sweep)
    assert sweep.replaced(name="y") != sweep
    assert sweep.replaced(name="y").trials.table == "t.csv"
    assert hash(sweep.limits) == hash(spec.Limits())
    assert "table='t.csv'" in repr(sweep)


@pytest.mark.parametrize("wrong", [{"nme": "x"}, {"name": "x"}], ids=["unknown", "missing"])
def test_a_spec_made_by_hand_needs_its_fields(wrong):
    with pytest.raises(TypeError):
        Sweep(**wrong)


WORDS = st.sampled_from(
    [
        "kind",
        "sweep",
        "cluster",
        "trials",
        "grid",
        "search",
        "table",
        "count",
        "run",
        "command",
        "log",
        "int",
        "nodes",
    ]
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), WORDS)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(), inner, max_size=5),
    max_leaves=25,
)
SECTIONS = (
    "trials",
    "run",
    "metrics",
    "objective",
    "resources",
    "placement",
    "near",
    "limits",
    "env",
    "tags",
    "image",
)
CLUSTER = ("provider", "nodes", "locations", "storage", "scale", "address")


@given(st.dictionaries(st.sampled_from((*SECTIONS, "requirements", "name")) | st.text(), TREES))
def test_any_mapping_is_a_workload_or_a_spec_error(data):
    with contextlib.suppress(SpecError):
        assert spec.parse({**data, "kind": "sweep"}, folder=".")


@given(st.dictionaries(st.sampled_from(CLUSTER) | st.text(), TREES))
def test_any_mapping_is_a_cluster_or_a_spec_error(data):
    with contextlib.suppress(SpecError):
        assert spec.parse({**data, "kind": "cluster"}, folder=".", kind="cluster")


@given(content=st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_as_a_file_are_a_workload_or_a_spec_error(tmp_path, content):
    (tmp_path / "sweep.yaml").write_bytes(content)
    with pytest.raises(SpecError):
        spec.load(tmp_path / "sweep.yaml")


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_with_a_few_wrong_characters_is_a_workload_or_a_spec_error(tmp_path, data):
    text = list(MINIMAL + "env: {A: 1}\nlimits: {timeout: 30m}\n")
    for _ in range(data.draw(st.integers(1, 4))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(
            st.sampled_from("{}[]:-&*!|>'\"%@`#, \n\tx0~")
        )
    (tmp_path / "sweep.yaml").write_text("".join(text))
    with contextlib.suppress(SpecError):
        assert spec.load(tmp_path / "sweep.yaml", kind="any")


@given(sets=st.lists(st.text() | st.builds("{}={}".format, WORDS, st.text()), max_size=3))
def test_any_override_is_taken_or_a_spec_error(sets):
    with contextlib.suppress(SpecError):
        spec.loads(MINIMAL, folder=".", sets=sets)

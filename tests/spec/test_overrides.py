"""`--set`: values given beside the file."""

import pytest

from shoal.spec.command import Cell


@pytest.mark.parametrize(
    ("override", "read", "value"),
    [
        ("trials.repeat=3", lambda sweep: sweep.trials.repeat, 3),
        ("limits.timeout=30m", lambda sweep: sweep.limits.timeout_s, 1800),
        ("limits={timeout: 1h, retries: 2}", lambda sweep: sweep.limits.retries, 2),
        ("run.command=python x.py --a=b: c # d", lambda sweep: sweep.run.command, "python x.py --a=b: c # d"),
        ("run.command='{a} x'", lambda sweep: sweep.run.command, "{a} x"),
        ("env.PATH=*", lambda sweep: sweep.env, {"PATH": "*"}),
        ("env.N=007", lambda sweep: sweep.env, {"N": "007"}),
        ("env.E=", lambda sweep: sweep.env, {"E": ""}),
        ('env."a.b"=1', lambda sweep: sweep.env, {"a.b": "1"}),
        ("near=home", lambda sweep: sweep.placement.near, "home"),
        ("tags=[a, b]", lambda sweep: sweep.tags, ("a", "b")),
        ("metrics.acc=acc: ([0-9]+)", lambda sweep: sweep.metrics, {"acc": "acc: ([0-9]+)"}),
        ("name=null", lambda sweep: sweep.name, "sweep"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_is_set_by_its_path(load, override, read, value):
    sweep = load(sweep_text(), override)
    assert read(sweep) == value
    assert sweep.sets == (override,)


def sweep_text(more=""):
    return f"kind: sweep\nname: x\ntrials: {{table: t.csv}}\nrun: {{command: y}}\n{more}"


def test_the_last_of_two_for_one_path_counts(load):
    assert load(sweep_text(), "trials.repeat=3", "trials.repeat=4").trials.repeat == 4


def test_an_entry_of_a_list_is_set_or_appended_by_its_index(load):
    text = "kind: cluster\nprovider: ssh\nnodes:\n  - {host: a}\n"
    cluster = load(text, "nodes.0.cpu=4", "nodes.1.host=b", kind="cluster")
    assert [(node.host, node.cpu) for node in cluster.nodes] == [("a", 4), ("b", None)]


def test_an_anchor_that_is_overridden_in_one_place_stays_in_the_other(load):
    text = "kind: cluster\nprovider: ssh\nnodes: [{host: a, labels: &l {tier: x}}, {host: b, labels: *l}]\n"
    cluster = load(text, "nodes.0.labels.tier=y", kind="cluster")
    assert [node.labels for node in cluster.nodes] == [{"tier": "y"}, {"tier": "x"}]


def test_one_way_of_trials_is_exchanged_for_another(load):
    sweep = load(sweep_text(), "trials.table=null", "trials.grid.lr=[0.10]")
    assert sweep.trials.grid == {"lr": (Cell(0.1, "0.10"),)}


def test_a_second_way_of_trials_is_refused_and_the_way_out_named(problems):
    assert problems(sweep_text(), "trials.grid={lr: [1]}") == [
        "--set trials.grid={lr: [1]}: cannot be given together with table (sweep.yaml:3) | "
        "Add --set trials.table=null to take that one out."
    ]


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("trials.repeat=x", "--set trials.repeat=x: expected a whole number of at least 1, found 'x'"),
        ("limits={timeout: x}", "--set limits={timeout: x}: limits.timeout: expected a duration"),
        ("trials.repeet=3", "--set trials.repeet=3: unknown key | Did you mean 'repeat'?"),
        ("trails.repeat=3", "--set trails.repeat=3: trails: unknown key | Did you mean 'trials'?"),
        ("name.x=3", "--set name.x=3: name is 'x', so it has no 'x'"),
        ("tags.5=a", "--set tags.5=a: tags has no entry 5, the last is 0"),
        ("tags.first=a", "--set tags.first=a: tags is a list: expected a number after it, found 'first'"),
        ("trials.repeat", "--set trials.repeat: expected PATH=VALUE"),
        ("=3", "--set =3: expected PATH=VALUE"),
        ("a..b=3", "--set a..b=3: expected PATH=VALUE"),
        ("", "--set : expected PATH=VALUE"),
        ("tags=[a", "--set tags=[a: not valid YAML"),
        ("run.command={a} x", "--set run.command={a} x: not valid YAML"),
        ("tags=[!!python/name:os.system x]", "is not allowed"),
        ("env.A=\udcff", "a NUL or half a character"),
        ("kind=swep", "--set kind=swep: unknown kind 'swep' | Did you mean 'sweep'?"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_an_override_that_cannot_be_is_named_as_it_was_given(problems, override, problem):
    found = problems(sweep_text("tags: [a]\n"), override)
    assert len(found) == 1, found
    assert problem in found[0]

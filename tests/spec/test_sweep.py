"""Sweep files: what they become, and what is said about those that are wrong."""

import pytest

from shoal.spec import Limits, Objective, Placement, Resources, SearchRange, Sweep, Workload
from shoal.spec.command import Cell

FULL = """
    kind: sweep
    name: next-cell
    trials:
      table: experiments.xlsx
      repeat: 2
    run:
      command: python train.py --data {DS} --lr {LR}
    metrics:
      accuracy: 'val_accuracy: ([0-9.]+)'
    objective: {metric: accuracy, goal: max}
    resources: {cpu: 0.5, gpu: 1, memory: 4GiB}
    placement: {labels: {tier: cloud, rack: 7}, node: node0}
    near: home-edge
    limits: {timeout: 30m, retries: 1, concurrent: 8, failures: 3, stop_after: 9}
    env: {A: 007, B: true, C: "x y", D: , E: 1e-5}
    requirements: [numpy>=1.26, torch]
    tags: [baseline, 2024]
"""


def test_a_full_file_becomes_a_frozen_value(load, tmp_path):
    sweep = load(FULL)
    assert isinstance(sweep, Sweep)
    assert isinstance(sweep, Workload)
    assert (sweep.kind, sweep.name, sweep.folder) == ("sweep", "next-cell", str(tmp_path))
    assert (sweep.trials.table, sweep.trials.repeat, sweep.trials.sampler) == ("experiments.xlsx", 2, None)
    assert sweep.run.command == "python train.py --data {DS} --lr {LR}"
    assert sweep.metrics == {"accuracy": "val_accuracy: ([0-9.]+)"}
    assert sweep.objective == Objective(metric="accuracy", goal="max")
    assert sweep.resources == Resources(cpu=0.5, gpu=1, memory_bytes=4 << 30)
    assert sweep.placement == Placement(labels={"tier": "cloud", "rack": "7"}, near="home-edge", node="node0")
    assert sweep.limits == Limits(timeout_s=1800.0, retries=1, concurrent=8, failures=3, stop_after=9)
    assert sweep.env == {"A": "007", "B": "true", "C": "x y", "D": "", "E": "1e-5"}
    assert sweep.requirements == ("numpy>=1.26", "torch")
    assert sweep.tags == ("baseline", "2024")
    assert sweep.source.startswith("\nkind: sweep")


def test_what_is_not_given_has_sensible_defaults(load):
    sweep = load()
    assert sweep.resources == Resources(cpu=1, gpu=0, memory_bytes=None)
    assert sweep.limits == Limits(timeout_s=None, retries=0, concurrent=None, failures=0, stop_after=None)
    assert (sweep.trials.repeat, sweep.trials.pruner, sweep.trials.seed) == (1, "none", None)
    assert (sweep.env, sweep.tags, sweep.image, sweep.objective) == ({}, (), None, None)


def test_a_key_without_a_value_counts_as_not_given(load):
    sweep = load("kind: sweep\ntrials: {table: t.csv, grid: }\nrun: {command: x}\nlimits:\nnear:\n")
    assert sweep.limits == Limits()
    assert sweep.placement.near is None


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("My Sweep (2).yaml", "my-sweep--2-"),
        ("sweep.yaml", "sweep"),
        ("ÄÖ.yaml", "sweep"),
        (".hidden.yml", "hidden"),
        ("a.b.yaml", "a.b"),
        ("x" * 100 + ".yaml", "x" * 63),
    ],
    ids=lambda value: value[:20],
)
def test_a_file_without_a_name_is_called_like_the_file(load, file, name):
    assert load("kind: sweep\ntrials: {table: t.csv}\nrun: {command: x}", file=file).name == name


def test_a_grid_keeps_types_and_exact_texts(load):
    sweep = load(
        """
        kind: sweep
        trials: {grid: {lr: [0.10, 1e-5], id: [007, "007"], on: [true, off, null]}}
        run: {function: "train:main"}
        """
    )
    assert sweep.trials.grid == {
        "lr": (Cell(0.1, "0.10"), Cell(1e-5, "1e-5")),
        "id": (Cell(7, "007"), Cell("007", "007")),
        "on": (Cell(True, "true"), Cell("off", "off"), Cell(None, "")),
    }


def test_a_search_has_ranges(load):
    sweep = load(
        """
        kind: sweep
        trials:
          search:
            lr: {log: [1e-5, 0.1]}
            layers: {int: [1, 4]}
            drop: {float: [0, 0.5]}
            mom: {uniform: [0.5, 0.5]}
            opt: {choice: [adam, sgd]}
          count: 50
          pruner: asha
          seed: 7
        run: {function: "pkg.train:Trainer.main"}
        objective: {metric: loss, goal: min}
        """
    )
    assert sweep.trials.search == {
        "lr": SearchRange("log", 1e-5, 0.1),
        "layers": SearchRange("int", 1, 4),
        "drop": SearchRange("float", 0, 0.5),
        "mom": SearchRange("float", 0.5, 0.5),
        "opt": SearchRange("choice", choices=(Cell("adam", "adam"), Cell("sgd", "sgd"))),
    }
    assert (sweep.trials.count, sweep.trials.sampler, sweep.trials.pruner) == (50, "tpe", "asha")


def test_a_search_without_an_objective_draws_at_random(load):
    text = "kind: sweep\ntrials: {search: {a: {int: [1, 2]}}, count: 3}\nrun: {command: 'x {a}'}"
    assert load(text).trials.sampler == "random"


@pytest.mark.parametrize(
    ("given", "kept"), [("req.txt", ("-r req.txt",)), ("[a, b]", ("a", "b")), ("", ())], ids=repr
)
def test_requirements_are_lines_of_a_requirements_file(load, given, kept):
    text = f"kind: sweep\ntrials: {{table: t.csv}}\nrun: {{command: x}}\nrequirements: {given}"
    assert load(text).requirements == kept


def test_every_problem_is_reported_at_once_in_order(problems):
    assert problems(
        """\
        kind: sweep
        name: Next Cell
        trails: {}
        trials:
          table: a.csv
          grid: {lr: [1]}
          repeat: many
        run: {comand: x}
        objective: {metric: 3, goal: maximum}
        limits: {timeout: soon, concurrent: 0, retries: "1"}
        """
    ) == [
        "sweep.yaml:2: name: expected a name of lower-case letters, digits, '.', '_' and '-', "
        "at most 63 long, found 'Next Cell'",
        "sweep.yaml:3: trails: unknown key | Did you mean 'trials'?",
        "sweep.yaml:6: trials.grid: cannot be given together with table (sweep.yaml:5) | "
        "Keep one of table, grid, search.",
        "sweep.yaml:7: trials.repeat: expected a whole number of at least 1, found 'many'",
        "sweep.yaml:8: run.comand: unknown key | Did you mean 'command'?",
        "sweep.yaml:8: run: expected one of command, function, workload, found none of them",
        "sweep.yaml:9: objective.metric: expected the name of a metric, found 3 | Write '3' in quotes.",
        "sweep.yaml:9: objective.goal: expected one of max, min, found 'maximum' | Did you mean 'max'?",
        "sweep.yaml:10: limits.timeout: expected a duration such as 90s, 30m, 2h or 1h30m, found 'soon'",
        "sweep.yaml:10: limits.retries: expected a whole number of at least 0, found '1' | "
        "Remove the quotes.",
        "sweep.yaml:10: limits.concurrent: expected a whole number of at least 1, found 0",
    ]


@pytest.mark.parametrize(
    ("trials", "problem"),
    [
        ("{}", "trials: expected one of table, grid, search, found none of them"),
        ("[a]", "trials: expected a mapping with one of table, grid, search, found a list"),
        ("{table: 7}", "trials.table: expected the path of a table, found 7 | Write '7' in quotes."),
        ("{table: ' '}", "trials.table: expected the path of a table, found ' '"),
        ("{grid: {}}", "trials.grid: expected a mapping of parameters to lists"),
        (
            "{grid: {lr: 1}}",
            "trials.grid.lr: expected a list of values such as [0.1, 0.01], found 1 | Write [1].",
        ),
        (
            "{grid: {lr: []}}",
            "trials.grid.lr: expected a list of values such as [0.1, 0.01], found an empty list",
        ),
        (
            "{grid: {lr: [[1]]}}",
            "trials.grid.lr.0: expected text, a number, true, false or null, found a list",
        ),
        ("{grid: {state: [1]}}", "trials.grid.state: this name is reserved"),
        ("{grid: {' ': [1]}}", "trials.grid: ' ' cannot be a name here"),
        ("{search: {a: {int: [1, 2]}}}", "trials.count: missing, search needs it"),
        ("{table: t, count: 3}", "trials.count: only goes with search, which is not given"),
        ("{table: t, sampler: random}", "trials.sampler: only goes with search"),
        ("{table: t, pruner: asha}", "trials.pruner: only goes with search"),
        (
            "{count: 1, search: {a: {int: [2, 1]}}}",
            "trials.search.a.int: low <= high must hold, found [2, 1]",
        ),
        (
            "{count: 1, search: {a: {log: [0, 1]}}}",
            "trials.search.a.log.0: expected a number above 0, found 0",
        ),
        (
            "{count: 1, search: {a: {int: [1.5, 2]}}}",
            "trials.search.a.int.0: expected a whole number, found 1.5",
        ),
        ("{count: 1, search: {a: {int: [1]}}}", "expected [low, high] such as [1, 4], found 1 values"),
        ("{count: 1, search: {a: {int: 5}}}", "expected [low, high] such as [1, 4], found 5"),
        ("{count: 1, search: {a: {float: [0, .inf]}}}", "float.1: expected a number, found .inf"),
        ("{count: 1, search: {a: {logg: [1, 2]}}}", "a.logg: unknown kind of range | Did you mean 'log'?"),
        ("{count: 1, search: {a: {choice: []}}}", "a.choice: expected a list of values such as [adam, sgd]"),
        ("{count: 1, search: {a: [1, 2]}}", "trials.search.a: expected a range such as"),
        ("{count: 1, search: {a: {int: [1, 2], log: [1, 2]}}}", "trials.search.a: expected a range such as"),
        (
            "{count: 1, sampler: tpe, search: {a: {int: [1, 2]}}}",
            "trials.sampler: tpe needs an objective | Add",
        ),
        (
            "{count: 1, pruner: median, search: {a: {int: [1, 2]}}}",
            "trials.pruner: median needs an objective",
        ),
        (
            "{count: 1, sampler: tpee, search: {a: {int: [1, 2]}}}",
            "expected one of tpe, random, grid, found 'tpee' | Did",
        ),
        ("{table: t, repeat: 0}", "expected a whole number of at least 1, found 0"),
        ("{table: t, repeat: 1e300}", "expected a whole number of at least 1, found one that is too large"),
        ("{table: t, repeat: 1.5}", "expected a whole number of at least 1, found 1.5"),
        ("{table: t, repeat: true}", "expected a whole number of at least 1, found true"),
        ("{table: t, seed: -1}", "expected a whole number from 0 to 4294967295, found -1"),
    ],
    ids=lambda value: value[:40],
)
def test_trials_that_cannot_be_are_refused(problems, trials, problem):
    found = problems(f"kind: sweep\ntrials: {trials}\nrun: {{command: x}}\n")
    assert len(found) == 1, found
    assert found[0].startswith("sweep.yaml:2: ")
    assert problem in found[0]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("run: {}", "run: expected one of command, function, workload, found none"),
        (
            "run: {command: x, function: 'a:b'}",
            "run.function: cannot be given together with command (sweep.yaml:3)",
        ),
        (
            'run: {command: "echo \'x"}',
            "run.command: cannot be split like a shell does: no closing quotation",
        ),
        ("run: {command: 'echo {a'}", "run.command: a stray '{'"),
        ("run: {function: train.main}", "expected a function such as train:main, found 'train.main'"),
        ("run: {function: 'os; x:y'}", "expected a function such as train:main"),
        (
            "run: python x.py",
            "run: expected a mapping with one of command, function, workload, found 'python x.py'",
        ),
        (
            "run: {command: x}\nmetrics: {a: '('}",
            "metrics.a: not a regular expression: missing ), unterminated",
        ),
        ("run: {command: x}\nmetrics: {a: 'x{99999999999}'}", "metrics.a: not a regular expression"),
        ("run: {command: x}\nobjective: {metric: a}", "objective.goal: missing, expected one of max, min"),
        ("run: {command: x}\nresources: {cpu: 0}", "resources.cpu: expected a number above 0, found 0"),
        (
            "run: {command: x}\nresources: {gpu: -1}",
            "resources.gpu: expected a number of at least 0, found -1",
        ),
        (
            "run: {command: x}\nresources: {gpu: 1.5}",
            "resources.gpu: expected a whole number or a fraction below 1",
        ),
        ("run: {command: x}\nresources: {memory: 4G}", "found '4G': write GiB (1024) or GB (1000)"),
        ("run: {command: x}\nresources: {memory: 0}", "resources.memory: expected a size above 0"),
        (
            "run: {command: x}\nresources: {memory_bytes: 1}",
            "resources.memory_bytes: unknown key | Did you mean 'memory'?",
        ),
        ("run: {command: x}\nlimits: {timeout: 0s}", "limits.timeout: expected a duration above 0"),
        ("run: {command: x}\nlimits: {timeout: [1]}", "limits.timeout: expected a duration above 0"),
        ("run: {command: x}\nenv: {A: [1]}", "env.A: expected text or a number, found a list"),
        ("run: {command: x}\nenv: {'A=B': 1}", "env: 'A=B' cannot be a name here"),
        ("run: {command: x}\nenv: [A]", "env: expected a mapping of environment variables, found a list"),
        ("run: {command: x}\ntags: a", "tags: expected a list of tags, found 'a' | Write [a]."),
        ("run: {command: x}\nname: -x", "name: expected a name of lower-case letters"),
        ("run: {command: x}\nname: 7", "Write '7' in quotes."),
        (
            "run: {command: x}\nrequirements: {}",
            "expected a requirements file or a list of packages, found an empty",
        ),
        (
            "run: {command: x}\nrequirements: [numpy, 'numpy >> 3']",
            "sweep.yaml:4: requirements.1: expected a package such as numpy>=1.26, found 'numpy >> 3' (",
        ),
        (
            "run: {command: x}\nrequirements: [--index-url https://x.org]",
            "requirements.0: expected a package such as numpy>=1.26, found an option | Options of pip belong in a",
        ),
        (
            "run: {command: x}\nrequirements: ['a @ https://me:secret@x.org/a.whl']",
            "requirements.0: a user name or password cannot stand here | Keep it where pip looks",
        ),
        ("run: {command: x}\nrequirements: [./a.whl]", "requirements.0: expected a package such as"),
        ("run: {command: x}\nrequirements: a\nimage: b", "image: cannot be given together with requirements"),
        (
            "run: {command: x}\nplacement: {near: a}\nnear: b",
            "near: given twice, here and as placement.near (sweep",
        ),
        (
            "run: {command: x}\nplacement: 3\nnear: b",
            "placement: expected a mapping with keys of labels, near, node",
        ),
        ("run: {command: x}\n<<: {a: 1}", "<<: unknown key"),
    ],
    ids=lambda value: value[-40:],
)
def test_values_that_cannot_be_are_refused(problems, line, problem):
    found = problems(f"kind: sweep\ntrials: {{table: t.csv}}\n{line}\n")
    assert len(found) == 1, found
    assert problem in found[0]


def test_missing_sections_are_named(problems):
    assert problems("kind: sweep\n") == [
        "sweep.yaml: trials: missing, expected a mapping with one of table, grid, search",
        "sweep.yaml: run: missing, expected a mapping with one of command, function, workload",
    ]


def test_a_long_value_is_shortened_in_its_problem(problems):
    [problem] = problems(f"kind: sweep\ntrials: {{table: t, repeat: {'x' * 5000}}}\nrun: {{command: x}}")
    assert len(problem) < 250

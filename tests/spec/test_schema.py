"""The JSON schema: valid, complete, and of one mind with the loader."""

import json

import pytest
from jsonschema import Draft202012Validator

from shoal import spec
from shoal.errors import NotFound, SpecError
from shoal.spec.loading import loads
from shoal.spec.problems import Problems
from shoal.spec.yaml_nodes import compose

BASE = "kind: sweep\ntrials: {table: t.csv}\nrun: {command: x}\n"
SEARCH = "kind: sweep\nrun: {command: x}\ntrials: {count: 3, search: {a: %s}}\n"
LOCAL = "kind: cluster\nprovider: local\n"

ACCEPTED = [
    BASE,
    BASE + "name: a.b-c_1\nnear: x\nlimits:\ntags: [a, 1]\nimage: null",
    BASE + "resources: {cpu: 0.5, gpu: 1, memory: 4GiB}\nlimits: {timeout: 1h30m, retries: 0, stop_after: 3}",
    BASE + "resources: {memory: 4096}\nlimits: {timeout: 1.5, concurrent: 1e1}\nenv: {A: 1, B: , C: true}",
    BASE + "requirements: r.txt\nmetrics: {acc: 'a=(.*)'}\nobjective: {metric: acc, goal: max}",
    BASE + "requirements: [numpy]\nplacement: {labels: {a: b, c: 1}, near: x, node: y}",
    "kind: sweep\ntrials: {grid: {a: [1, x, null, true]}, repeat: 3, table: }\nrun: {function: 'a.b:c'}",
    SEARCH % "{log: [1e-5, 0.1]}",
    SEARCH % "{int: [1, 4]}",
    SEARCH % "{uniform: [0, 1]}",
    SEARCH % "{choice: [a, 1]}",
    LOCAL,
    LOCAL
    + "nodes: [{host: a, head: true, cpu: 2, memory: 1GiB, labels: {x: y}}]\nscale: {max: 3, idle: 60s}",
    LOCAL + "locations: {a: {probe: 'x:22'}, b: {a: 20ms, c: 0}}\nstorage: s3://a/b",
    "kind: cluster\nprovider: ray\naddress: auto",
]
REFUSED = [
    "name: x\ntrials: {table: t.csv}\nrun: {command: x}",
    "kind: swep\ntrials: {table: t.csv}\nrun: {command: x}",
    "kind: sweep\ntrials: {table: t.csv}",
    "kind: sweep\ntrials: {}\nrun: {command: x}",
    "kind: sweep\ntrials: {table: a, grid: {b: [1]}}\nrun: {command: x}",
    "kind: sweep\ntrials: {table: a, count: 3}\nrun: {command: x}",
    "kind: sweep\ntrials: {search: {a: {int: [1, 2]}}}\nrun: {command: x}",
    "kind: sweep\ntrials: {grid: {}}\nrun: {command: x}",
    "kind: sweep\ntrials: {grid: {a: []}}\nrun: {command: x}",
    "kind: sweep\ntrials: {grid: {a: 1}}\nrun: {command: x}",
    "kind: sweep\ntrials: {grid: {state: [1]}}\nrun: {command: x}",
    "kind: sweep\ntrials: {table: a, repeat: 0}\nrun: {command: x}",
    "kind: sweep\ntrials: {table: a, repeat: 1.5}\nrun: {command: x}",
    "kind: sweep\ntrials: {table: a}\nrun: {command: x, function: 'a:b'}",
    "kind: sweep\ntrials: {table: a}\nrun: {function: a}",
    SEARCH % "{log: [0, 1]}",
    SEARCH % "{int: [1]}",
    SEARCH % "{int: [1, 2], log: [1, 2]}",
    SEARCH % "[1, 2]",
    BASE + "name: Not Good",
    BASE + "name: 7",
    BASE + "unknown: 1",
    BASE + "limits: {timeout: soon}",
    BASE + "limits: {timeout: 0}",
    BASE + "resources: {memory: 4G}",
    BASE + "resources: {cpu: 0}",
    BASE + "env: {A: [1]}",
    BASE + "env: {'A=B': 1}",
    BASE + "requirements: x\nimage: y",
    BASE + "objective: {metric: a, goal: best}",
    "kind: cluster\nnodes: []",
    LOCAL + "nodes: [{cpu: 1}]",
    LOCAL + "nodes: [{host: a, head: yes}]",
    LOCAL + "locations: {a: {}}",
    LOCAL + "scale: {min: 1}",
]


def plain(node):
    if isinstance(node.value, dict):
        return {key: plain(item) for key, item in node.value.items()}
    return [plain(item) for item in node.value] if isinstance(node.value, list) else node.value


def agree(text):
    """Whether the schema and the loader accept a text."""
    kind = "cluster" if "kind: cluster" in text else "sweep"
    data = plain(compose(text, Problems(), origin=""))
    try:
        loads(text, folder=".", label="x.yaml", kind=kind)
    except SpecError:
        loaded = False
    else:
        loaded = True
    return Draft202012Validator(spec.schema(kind)).is_valid(data), loaded


@pytest.mark.parametrize("text", ACCEPTED, ids=lambda text: text[-40:])
def test_what_the_loader_takes_the_schema_takes(text):
    assert agree(text) == (True, True)


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[-40:])
def test_what_the_loader_refuses_the_schema_refuses(text):
    assert agree(text) == (False, False)


def described(schema, path=""):
    """Every key of a schema, by path, with its description."""
    for name, part in schema.get("properties", {}).items():
        yield f"{path}{name}", part.get("description", "")
        yield from described(part, f"{path}{name}.")
        if isinstance(part.get("items"), dict):
            yield from described(part["items"], f"{path}{name}.")


@pytest.mark.parametrize("kind", spec.KINDS)
def test_a_schema_is_valid_json_and_describes_every_key(kind):
    schema = json.loads(json.dumps(spec.schema(kind)))
    Draft202012Validator.check_schema(schema)
    keys = dict(described(schema))
    assert {"kind", "name"} <= set(keys)
    assert [path for path, text in keys.items() if not text.endswith(".")] == []


def test_the_schema_of_a_sweep_knows_nested_keys_and_short_forms():
    keys = dict(described(spec.schema("sweep")))
    assert {"trials.search", "run.command", "limits.timeout", "resources.memory", "near"} <= set(keys)


def test_a_schema_of_no_kind_is_not_found():
    with pytest.raises(NotFound, match="Unknown kind 'swep'") as caught:
        spec.schema("swep")
    assert caught.value.hint == "Did you mean 'sweep'?"


def test_asking_twice_gives_the_same():
    assert spec.schema("sweep") == spec.schema("sweep")

"""The JSON schema: valid, complete, and of one mind with the loader."""

import json

import pytest
from jsonschema import Draft202012Validator

from shoal import spec
from shoal.errors import NotFound, SpecError
from shoal.kinds import KINDS
from shoal.spec.nodes import Problems
from shoal.spec.yaml_reader import compose, loads

BASE = "kind: sweep\ntrials: {table: t.csv}\nrun: {command: x}\n"
SEARCH = "kind: sweep\nrun: {command: x}\ntrials: {count: 3, search: {a: %s}}\n"
LOCAL = "kind: cluster\nprovider: local\n"
INFER = "kind: infer\ninput: {text: a}\nmodel: {function: 'mine:P'}\noutput: out/\n"
IMAGES = "kind: infer\ninput: {images: a}\nmodel: {onnx: m.onnx}\noutput: out/\npreprocess: {image: %s}\n"

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
    INFER,
    INFER + "preprocess:\npostprocess:\ntune:\nruntime:\nlimits:\nresources:",
    INFER + "tune: auto\nruntime: as-given\nlimits: {errors: 1%, failures: 3}\nresources: {cpu: 2, gpu: 0.5}",
    INFER
    + "tune: {batch: 8, workers: 2, threads: 1, item: 10, runtime: auto}\nlimits: {errors: 0.01, retries: 0}",
    INFER
    + "postprocess: {softmax: true, labels: [off, 1], prob_of: off, top: 2}\npreprocess: {function: 'a:b'}",
    IMAGES % "{size: 8}",
    IMAGES % "{size: [8, 9], mode: L, resize: shorter, resize_to: 9, normalize: half, decode: scaled}",
    IMAGES % "{size: 8, normalize: {mean: [0, 0, 0], std: 1}, scale: 1.5, filter: box, most_pixels: 99}",
    "kind: infer\ninput: {parquet: a, column: [x, y], key: id}\nmodel: {torchscript: m.pt}\noutput: {path: a}",
    "kind: infer\ninput: {jsonl: 's3://b/x', endpoint: e}\nmodel: {onnx: m, precision: float16}\n"
    "output: {path: 's3://b/y', endpoint: e, preserve_order: true, json: [answer, more]}",
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
    "kind: infer\nmodel: {function: 'a:b'}\noutput: out/",
    "kind: infer\ninput: {text: a}\nmodel: {function: 'a:b'}",
    "kind: infer\ninput: {}\nmodel: {function: 'a:b'}\noutput: out/",
    "kind: infer\ninput: {text: a, images: b}\nmodel: {function: 'a:b'}\noutput: out/",
    "kind: infer\ninput: {parquet: a, column: []}\nmodel: {function: 'a:b'}\noutput: out/",
    "kind: infer\ninput: {text: a}\nmodel: {function: a}\noutput: out/",
    "kind: infer\ninput: {text: a}\nmodel: {function: 'a:b', onnx: c}\noutput: out/",
    "kind: infer\ninput: {text: a}\nmodel: {function: 'a:b', device: tpu}\noutput: out/",
    "kind: infer\ninput: {text: a}\nmodel: {function: 'a:b'}\noutput: 7",
    "kind: infer\ninput: {text: a}\nmodel: {function: 'a:b'}\noutput: {preserve_order: true}",
    "kind: infer\ninput: {text: a}\nmodel: {function: 'a:b'}\noutput: {path: a, x: 1}",
    INFER + "tune: fast",
    INFER + "tune: {batch: 0}",
    INFER + "tune: {runtime: fast}",
    INFER + "runtime: fast",
    INFER + "preprocess: {}",
    INFER + "preprocess: {function: 'a:b', image: {size: 8}}",
    IMAGES % "{}",
    IMAGES % "{size: 0}",
    IMAGES % "{size: 8, resize: x}",
    IMAGES % "{size: 8, normalize: imagnet}",
    IMAGES % "{size: 8, normalize: {mean: 0}}",
    IMAGES % "{size: 8, normalize: {mean: 0, std: 0}}",
    INFER + "postprocess: {labels: off}",
    INFER + "postprocess: {labels: []}",
    INFER + "postprocess: {softmax: 1}",
    INFER + "postprocess: {top: 0}",
    INFER + "limits: {errors: few}",
    INFER + "limits: {errors: 2}",
    INFER + "limits: {errors: -0.1}",
    INFER + "limits: {retries: -1}",
    INFER + "limits: {stop_after: 0}",
    INFER + "resources: {gpu: -1}",
]


def plain(node):
    if isinstance(node.value, dict):
        return {key: plain(item) for key, item in node.value.items()}
    return [plain(item) for item in node.value] if isinstance(node.value, list) else node.value


def agree(text):
    """Whether the schema and the loader accept a text."""
    kind = next((each for each in KINDS if f"kind: {each}\n" in text), "sweep")
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
        for form in (part, part.get("items"), *part.get("anyOf", ())):
            yield from described(form, f"{path}{name}.") if isinstance(form, dict) else ()


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_valid_json_and_describes_every_key(kind):
    schema = json.loads(json.dumps(spec.schema(kind)))
    Draft202012Validator.check_schema(schema)
    keys = dict(described(schema))
    assert {"kind", "name"} <= set(keys)
    assert [path for path, text in keys.items() if not text.endswith(".")] == []


def test_the_schema_of_a_sweep_knows_nested_keys_and_short_forms():
    keys = dict(described(spec.schema("sweep")))
    assert {"trials.search", "run.command", "limits.timeout", "resources.memory", "near"} <= set(keys)


def test_the_schema_of_an_inference_knows_nested_keys_and_short_forms():
    schema = spec.schema("infer")
    keys = dict(described(schema))
    assert {"input.images", "model.onnx", "limits.errors", "resources.memory", "runtime", "near"} <= set(keys)
    assert keys["near"] == "Short for placement: {near: ...}."
    assert {"output.path", "tune.batch", "preprocess.image.size", "preprocess.image.normalize.mean"} <= set(
        keys
    )
    assert {"type": "string", "pattern": r"\S"} in schema["properties"]["output"]["anyOf"]
    assert {"enum": ["auto"]} in schema["properties"]["tune"]["anyOf"]


def test_a_schema_of_no_kind_is_not_found():
    with pytest.raises(NotFound, match="Unknown kind 'swep'") as caught:
        spec.schema("swep")
    assert caught.value.hint == "Did you mean 'sweep'?"


def test_asking_twice_gives_the_same():
    assert spec.schema("sweep") == spec.schema("sweep")

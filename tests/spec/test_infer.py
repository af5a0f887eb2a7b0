"""Inference files: what they become, and what is said about those that are wrong."""

import pytest

from shoal.spec import (
    ImagePreparation,
    Infer,
    Input,
    ModelFile,
    Output,
    Placement,
    Postprocess,
    Preprocess,
    Tune,
    Workload,
)
from shoal.spec.infer import InferLimits, InferResources

FILE = "infer.yaml"
FULL = """
    kind: infer
    name: off-sample
    input:
      parquet: data/*.parquet
      endpoint: http://127.0.0.1:9000
      column: image
      key: [id, split]
    model: {torchscript: model.pt, device: cuda, precision: float16}
    preprocess:
      image:
        size: [224, 192]
        mode: L
        resize: shorter
        resize_to: 256
        filter: lanczos
        scale: 127.5
        normalize: {mean: 0.5, std: [0.25]}
        decode: scaled
        most_pixels: 1e6
    postprocess: {softmax: true, labels: [off, 1], top: 2, prob_of: off}
    output: {path: "s3://ions/out", endpoint: "http://127.0.0.1:9001", preserve_order: true}
    tune: {batch: 8, workers: 2, threads: 1, item: 1000, runtime: frozen}
    resources: {cpu: 2, gpu: 0.5, memory: 4GiB}
    placement: {labels: {tier: cloud, rack: 7}, node: node0}
    near: home-edge
    limits: {errors: 1%, timeout: 30m, retries: 1, concurrent: 8, failures: 2, stop_after: 9}
    env: {A: 007}
    requirements: [torch]
    tags: [baseline, 2024]
"""


def text(**sections):
    """A file with each section on a line of its own: kind 1, input 2, model 3, output 4, then those that are given."""
    known = {"input": "{text: a.txt}", "model": "{function: 'mine:Predictor'}", "output": "out/"}
    lines = {"kind": "infer"} | known | sections
    return "".join(f"{name}: {value}\n" for name, value in lines.items())


@pytest.fixture
def infer(load):
    return lambda *sets, **sections: load(text(**sections), *sets, file=FILE)


@pytest.fixture
def refused(problems):
    """The one problem there is, without the name of the file."""

    def refused(*sets, **sections):
        found = problems(text(**sections), *sets, file=FILE)
        assert len(found) == 1, found
        return found[0].removeprefix(f"{FILE}:")

    return refused


def test_a_full_file_becomes_a_frozen_value(load, tmp_path):
    infer = load(FULL, file=FILE)
    assert isinstance(infer, Infer)
    assert isinstance(infer, Workload)
    assert (infer.kind, infer.name, infer.folder) == ("infer", "off-sample", str(tmp_path))
    assert infer.input == Input(
        parquet="data/*.parquet",
        endpoint="http://127.0.0.1:9000",
        column=("image",),
        key=("id", "split"),
    )
    assert infer.model == ModelFile(torchscript="model.pt", device="cuda", precision="float16")
    assert infer.preprocess == Preprocess(
        image=ImagePreparation(
            size=(224, 192),
            mode="L",
            resize="shorter",
            resize_to=256,
            filter="lanczos",
            scale=127.5,
            normalize=((0.5,), (0.25,)),
            decode="scaled",
            most_pixels=1_000_000,
        )
    )
    assert infer.postprocess == Postprocess(softmax=True, labels=("off", "1"), top=2, prob_of=("off",))
    assert infer.output == Output(path="s3://ions/out", endpoint="http://127.0.0.1:9001", preserve_order=True)
    assert infer.tune == Tune(batch=8, workers=2, threads=1, item=1000, runtime="frozen")
    assert infer.resources == InferResources(cpu=2, gpu=0.5, memory_bytes=4 << 30)
    assert infer.placement == Placement(labels={"tier": "cloud", "rack": "7"}, near="home-edge", node="node0")
    assert infer.limits == InferLimits(
        errors=0.01, timeout_s=1800.0, retries=1, concurrent=8, failures=2, stop_after=9
    )
    assert (infer.env, infer.requirements, infer.tags) == ({"A": "007"}, ("torch",), ("baseline", "2024"))


def test_what_is_not_given_has_sensible_defaults(infer):
    found = infer()
    assert (found.name, found.input.kind, found.input.target) == ("infer", "text", "a.txt")
    assert (found.input.endpoint, found.input.column, found.input.key) == (None, (), ())
    assert (found.model.kind, found.model.device, found.model.precision) == ("function", "auto", "float32")
    assert found.preprocess is None
    assert found.postprocess == Postprocess(softmax=False, labels=(), top=None, prob_of=(), function=None)
    assert found.output == Output(path="out/", endpoint=None, preserve_order=False)
    assert found.tune == Tune(batch=None, workers=None, threads=None, item=None, runtime="auto")
    assert found.resources == InferResources(cpu=None, gpu=None, memory_bytes=None)
    assert found.limits == InferLimits(
        errors=0.0, timeout_s=None, retries=8, concurrent=None, failures=0, stop_after=3
    )


def test_an_image_is_stretched_and_divided_by_255_unless_the_file_says_otherwise(infer):
    image = infer(input="{images: in}", preprocess="{image: {size: 8}}").preprocess.image
    assert (image.size, image.height, image.width, image.mode, image.channels) == ((8,), 8, 8, "RGB", 3)
    assert (image.resize, image.resize_to, image.filter, image.scale) == ("stretch", None, "bilinear", 255)
    assert (image.normalize, image.decode, image.most_pixels) == (((0.0,), (1.0,)), "exact", 89_478_485)


def test_keys_without_a_value_count_as_not_given(infer):
    empty = dict.fromkeys(("preprocess", "postprocess", "tune", "runtime", "resources", "limits"), "")
    assert infer(**empty) == Infer(**infer().__dict__ | {"source": infer(**empty).source})


@pytest.mark.parametrize("kind", ["images", "parquet", "jsonl", "text"])
def test_an_input_knows_its_kind_and_where_it_is(infer, kind):
    found = infer(input=f"{{{kind}: 's3://b/x'}}").input
    assert (found.kind, found.target) == (kind, "s3://b/x")


@pytest.mark.parametrize(
    ("kind", "name"), [("onnx", "m.onnx"), ("torchscript", "m.pt"), ("function", "mine.deep:Net.best")]
)
def test_a_model_knows_its_kind(infer, kind, name):
    found = infer(input="{parquet: a}", model=f"{{{kind}: '{name}'}}").model
    assert (found.kind, getattr(found, kind)) == (kind, name)


@pytest.mark.parametrize(
    ("given", "size", "height", "width"), [("8", (8,), 8, 8), ("[8]", (8,), 8, 8), ("[8, 9]", (8, 9), 8, 9)]
)
def test_a_size_is_one_number_or_a_height_and_a_width(infer, given, size, height, width):
    image = infer(input="{images: in}", preprocess=f"{{image: {{size: {given}}}}}").preprocess.image
    assert (image.size, image.height, image.width) == (size, height, width)


@pytest.mark.parametrize(
    ("given", "normalize"),
    [
        ("imagenet", ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))),
        ("half", ((0.5,), (0.5,))),
        ("none", ((0.0,), (1.0,))),
        ("{mean: 1, std: 2}", ((1.0,), (2.0,))),
        ("{mean: [1, 2, 3], std: 2}", ((1.0, 2.0, 3.0), (2.0,))),
    ],
)
def test_a_normalization_is_a_name_or_numbers(infer, given, normalize):
    preprocess = f"{{image: {{size: 8, normalize: {given}}}}}"
    assert infer(input="{images: in}", preprocess=preprocess).preprocess.image.normalize == normalize


def test_labels_are_words_as_they_are_written(infer):
    found = infer(postprocess="{labels: [off, on, yes, 007, 1.50, true], prob_of: [on, 007]}").postprocess
    assert found.labels == ("off", "on", "yes", "007", "1.50", "true")
    assert found.prob_of == ("on", "007")


def test_an_output_is_a_path_or_a_mapping(infer):
    assert infer(output="out/").output == infer(output="{path: out/}").output == Output(path="out/")


@pytest.mark.parametrize(
    ("tune", "runtime", "means"),
    [
        ("auto", "", Tune()),
        ("{}", "", Tune()),
        ("{batch: 8}", "", Tune(batch=8)),
        ("", "openvino", Tune(runtime="openvino")),
        ("auto", "openvino", Tune(runtime="openvino")),
        ("{batch: 8}", "openvino", Tune(batch=8, runtime="openvino")),
        ("{runtime: openvino}", "openvino", Tune(runtime="openvino")),
        ("{runtime: openvino}", "", Tune(runtime="openvino")),
    ],
)
def test_a_runtime_may_stand_in_tune_or_by_itself(infer, tune, runtime, means):
    found = infer(input="{parquet: a}", model="{onnx: m.onnx}", tune=tune, runtime=runtime)
    assert (found.tune, found.runtime) == (means, None)


@pytest.mark.parametrize(
    ("given", "share"),
    [
        ("1%", 0.01),
        ("0.01", 0.01),
        ("0", 0),
        ("0%", 0),
        ("100%", 1),
        ("1", 1),
        ("2.5 %", 0.025),
        ("'0.1'", 0.1),
    ],
)
def test_errors_are_a_share(infer, given, share):
    assert infer(limits=f"{{errors: {given}}}").limits.errors == pytest.approx(share)


@pytest.mark.parametrize(
    ("limits", "stop_after"),
    [
        ("{}", 3),
        ("{failures: 0}", 3),
        ("{failures: 2}", 3),
        ("{failures: 3}", 4),
        ("{failures: 50}", 51),
        ("{failures: 50, stop_after: }", 51),
        ("{failures: 50, stop_after: 2}", 2),
        ("{stop_after: 7}", 7),
    ],
)
def test_failures_that_are_allowed_do_not_end_a_run_unless_the_file_says_so(infer, limits, stop_after):
    assert infer(limits=limits).limits.stop_after == stop_after


# --set


@pytest.mark.parametrize(
    ("written", "override", "means"),
    [
        ("out/", "output.path=x/", Output(path="x/")),
        ("out/", "output=x/", Output(path="x/")),
        ("out/", "output.preserve_order=true", Output(path="out/", preserve_order=True)),
        ("auto", "output.preserve_order=true", Output(path="auto", preserve_order=True)),
        ("{path: out/, endpoint: e}", "output.path=x/", Output(path="x/", endpoint="e")),
        ("{path: out/, endpoint: e}", "output=x/", Output(path="x/")),
        ("", "output.path=x/", Output(path="x/")),
        ("{path: out/, json: answer}", "output.path=x/", Output(path="x/", json=("answer",))),
        ("out/", "output.json=[a, b]", Output(path="out/", json=("a", "b"))),
    ],
)
def test_an_output_is_set_by_its_path_however_the_file_writes_it(infer, written, override, means):
    assert infer(override, output=written).output == means


def test_what_is_set_of_an_output_is_checked_as_in_a_file(refused):
    assert refused("output.pth=x/") == "--set output.pth=x/: unknown key | Did you mean 'path'?"
    assert refused("output.path.x=1") == "--set output.path.x=1: output.path is 'out/', so it has no 'x'"


def test_one_thing_that_is_set_leaves_the_rest_to_be_tuned(infer):
    assert infer("tune.batch=8", tune="auto").tune == Tune(batch=8)


# What is refused. Sections are on these lines: input 2, model 3, output 4, what else is given from 5 on.


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("{}", "2: input: expected one of images, parquet, jsonl, text, found none of them"),
        (
            "photos/",
            "2: input: expected a mapping with one of images, parquet, jsonl, text, found 'photos/'",
        ),
        (
            "{text: a, images: b}",
            "2: input.images: cannot be given together with text (infer.yaml:2) | "
            "Keep one of images, parquet, jsonl, text.",
        ),
        (
            "{text: 7}",
            "2: input.text: expected a path, a pattern or a URL, found 7 | Write '7' in quotes.",
        ),
        ("{text: a, colum: b}", "2: input.colum: unknown key | Did you mean 'column'?"),
        ("{text: a, column: b}", "2: input.column: only goes with parquet and jsonl: text has no columns"),
        ("{images: a, key: b}", "2: input.key: only goes with parquet and jsonl: images has no columns"),
        (
            "{parquet: a, column: []}",
            "2: input.column: expected the name of a column, or a list of them, found an empty list",
        ),
        (
            "{parquet: a, key: [x, 3]}",
            "2: input.key.1: expected the name of a column, found 3 | Write '3' in quotes.",
        ),
    ],
)
def test_inputs_that_cannot_be_are_refused(refused, given, problem):
    assert refused(input=given) == problem


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("{}", "3: model: expected one of onnx, torchscript, function, found none of them"),
        ("m.onnx", "3: model: expected a mapping with one of onnx, torchscript, function, found 'm.onnx'"),
        (
            "{onnx: a, torchscript: b}",
            "3: model.torchscript: cannot be given together with onnx (infer.yaml:3) | "
            "Keep one of onnx, torchscript, function.",
        ),
        (
            "{function: mine.Predictor}",
            "3: model.function: expected a function or class such as mine:Predictor, found 'mine.Predictor'",
        ),
        (
            "{function: 'mine:P', device: cude}",
            "3: model.device: expected one of auto, cpu, cuda, found 'cude' | Did you mean 'cuda'?",
        ),
        (
            "{onnx: m.onnx, precision: int8}",
            "3: model.precision: expected one of float32, float16, bfloat16, found 'int8'",
        ),
    ],
)
def test_models_that_cannot_be_are_refused(refused, given, problem):
    assert refused(model=given) == problem


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("{}", "preprocess: expected one of image, function, found none of them"),
        (
            "{image: {}}",
            "preprocess.image.size: missing, expected a number of pixels, or [height, width]",
        ),
        (
            "{image: {size: [1, 2, 3]}}",
            "preprocess.image.size: expected one number, or a height and a width, found 3 numbers",
        ),
        ("{image: {size: 0}}", "preprocess.image.size: expected a whole number from 1 to 65535, found 0"),
        ("{image: {size: 8, mode: CMYK}}", "preprocess.image.mode: expected one of RGB, L, found 'CMYK'"),
        (
            "{image: {size: 8, resize: strech}}",
            "preprocess.image.resize: expected one of stretch, shorter, affine, none, found 'strech' | "
            "Did you mean 'stretch'?",
        ),
        (
            "{image: {size: 8, resize_to: 9}}",
            "preprocess.image.resize_to: only goes with resize: shorter, found stretch | "
            "Add resize: shorter, or leave out resize_to.",
        ),
        (
            "{image: {size: 8, resize_to: 9, resize: shortr}}",
            "preprocess.image.resize: expected one of stretch, shorter, affine, none, found 'shortr' | "
            "Did you mean 'shorter'?",
        ),
        (
            "{image: {size: 8, filter: area}}",
            "preprocess.image.filter: expected one of nearest, bilinear, bicubic, lanczos, box, hamming, "
            "found 'area'",
        ),
        ("{image: {size: 8, scale: 0}}", "preprocess.image.scale: expected a number above 0, found 0"),
        (
            "{image: {size: 8, normalize: imagnet}}",
            "preprocess.image.normalize: expected one of imagenet, half, none, or {mean: [...], std: [...]}, "
            "found 'imagnet'",
        ),
        (
            "{image: {size: 8, normalize: {mean: 0}}}",
            "preprocess.image.normalize: expected one of imagenet, half, none, or {mean: [...], std: [...]}, "
            "found a mapping",
        ),
        (
            "{image: {size: 8, normalize: {mean: 0, std: 0}}}",
            "preprocess.image.normalize.std: expected a number above 0, found 0",
        ),
        (
            "{image: {size: 8, mode: L, normalize: imagenet}}",
            "preprocess.image.normalize: has 3 channels, and mode: L has 1 | "
            "Give one number each, or mode: RGB.",
        ),
        (
            "{image: {size: 8, normalize: {mean: 0, std: [1, 1]}}}",
            "preprocess.image.normalize: has 2 channels, and mode: RGB has 3 | "
            "Give one number each, or one for each channel.",
        ),
        (
            "{image: {size: 8, decode: fast}}",
            "preprocess.image.decode: expected one of exact, scaled, found 'fast'",
        ),
        (
            "{function: prepare}",
            "preprocess.function: expected a function or class such as mine:Predictor, found 'prepare'",
        ),
    ],
)
def test_preparations_that_cannot_be_are_refused(refused, given, problem):
    assert refused(input="{images: a}", preprocess=given) == f"5: {problem}"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            "{function: 'mine:finish', softmax: true, top: 3}",
            "postprocess.function: cannot be given together with softmax and top | "
            "Keep one or the other: the function gives its columns itself.",
        ),
        (
            "{labels: [off, on, off]}",
            "postprocess.labels: 'off' stands there twice | Name each class of the model once, in its order.",
        ),
        (
            "{labels: [a, b, a, a]}",
            "postprocess.labels: 'a' stands there 3 times | Name each class of the model once, in its order.",
        ),
        (
            "{labels: off}",
            "postprocess.labels: expected a list of labels such as [off, on], found 'off' | Write [off].",
        ),
        (
            "{labels: off, prob_of: off}",
            "postprocess.labels: expected a list of labels such as [off, on], found 'off' | Write [off].",
        ),
        (
            "{softmax: true, prob_of: 1}",
            "postprocess.prob_of: without labels, no class is called '1' | "
            "Add labels: [...], the name of each class of the model, in its order.",
        ),
        (
            "{labels: [off, on], prob_of: of}",
            "postprocess.prob_of: 'of' is none of the labels | Did you mean 'off'?",
        ),
        (
            "{labels: [cat, dog], prob_of: [dog, zebra]}",
            "postprocess.prob_of: 'zebra' is none of the labels | Choose from: cat, dog.",
        ),
        (
            "{labels: [a, b, c, d, e, f, g, h, i, j, k], prob_of: zebra}",
            "postprocess.prob_of: 'zebra' is none of the labels | There are 11 labels, from 'a' to 'k'.",
        ),
        ("{top: 0}", "postprocess.top: expected a whole number of at least 1, found 0"),
        ("{softmax: yes}", "postprocess.softmax: expected true or false, found 'yes'"),
    ],
)
def test_endings_that_cannot_be_are_refused(refused, given, problem):
    assert refused(postprocess=given) == f"5: {problem}"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("7", "output: expected a folder or a URL, or {path: ..., preserve_order: true}, found 7"),
        ("[out]", "output: expected a folder or a URL, or {path: ..., preserve_order: true}, found a list"),
        ("{preserve_order: true}", "output.path: missing, expected a folder or a URL"),
        (
            "{path: a, preserve_order: maybe}",
            "output.preserve_order: expected true or false, found 'maybe'",
        ),
        (
            "{path: a, json: []}",
            "output.json: expected the name of a column, or a list of them, found an empty list",
        ),
        ("{path: a, json: {b: c}}", "output.json: expected the name of a column, found a mapping"),
        (
            "{path: a, folder: b}",
            "output.folder: unknown key | Choose from: endpoint, json, path, preserve_order.",
        ),
    ],
)
def test_outputs_that_cannot_be_are_refused(refused, given, problem):
    assert refused(output=given) == f"4: {problem}"


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        (
            {"tune": "fast"},
            "5: tune: expected auto, or a mapping such as {batch: 8, workers: 2, threads: 1}, found 'fast'",
        ),
        ({"tune": "{batch: 0}"}, "5: tune.batch: expected a whole number from 1 to 1000000, found 0"),
        ({"tune": "{workers: 0}"}, "5: tune.workers: expected a whole number of at least 1, found 0"),
        ({"tune": "{item: 1.5}"}, "5: tune.item: expected a whole number of at least 1, found 1.5"),
        ({"tune": "{batchs: 8}"}, "5: tune.batchs: unknown key | Did you mean 'batch'?"),
        (
            {"tune": "{runtime: opnvino}"},
            "5: tune.runtime: expected one of auto, as-given, frozen, onnxruntime, openvino, "
            "found 'opnvino' | Did you mean 'openvino'?",
        ),
        (
            {"runtime": "tensorrt"},
            "5: runtime: expected one of auto, as-given, frozen, onnxruntime, openvino, found 'tensorrt'",
        ),
        (
            {"tune": "{runtime: openvino}"},
            "5: tune: a model that is a function can only be run as-given, found openvino | "
            "Leave out runtime.",
        ),
        (
            {"runtime": "frozen"},
            "5: runtime: a model that is a function can only be run as-given, found frozen | "
            "Leave out runtime.",
        ),
        (
            {"input": "{parquet: a}", "model": "{onnx: m.onnx}", "runtime": "frozen"},
            "5: runtime: frozen is a way to run TorchScript, and the model is ONNX | "
            "Leave out runtime, or choose from: as-given, onnxruntime, openvino.",
        ),
        (
            {
                "input": "{parquet: a}",
                "model": "{torchscript: m.pt}",
                "tune": "{runtime: openvino}",
                "runtime": "frozen",
            },
            "6: runtime: given twice, here as frozen and as tune.runtime: openvino | Leave out one of them.",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(refused, sections, problem):
    assert refused(**sections) == problem


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        (
            {"model": "{onnx: m.onnx}", "input": "{images: a}"},
            " preprocess: missing: the model needs arrays, not images | "
            "Add preprocess: {image: {size: 224}}, with the size that the model takes.",
        ),
        (
            {"model": "{torchscript: m.pt}"},
            " preprocess: missing: the model needs arrays, not text | "
            "Add preprocess: {function: mine:prepare}.",
        ),
        (
            {"preprocess": "{image: {size: 8}}"},
            "5: preprocess: a line of text is no image | "
            "Use preprocess: {function: mine:prepare}, or input: {images: ...}.",
        ),
        (
            {"input": "{parquet: a}", "preprocess": "{image: {size: 8}}"},
            "2: input: preprocess.image needs the one column that holds the images | Add column: NAME.",
        ),
        (
            {"model": "{function: 'mine:P', device: cuda}", "resources": "{gpu: 0}"},
            "5: resources: gpu is 0, and model.device is cuda | Leave out gpu, or set model.device to cpu.",
        ),
    ],
)
def test_sections_that_do_not_go_together_are_refused(refused, sections, problem):
    assert refused(**sections) == problem


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        (
            {"resources": "{gpu: 1.5}"},
            "resources.gpu: expected a whole number or a fraction below 1, found 1.5",
        ),
        ({"resources": "{gpu: -1}"}, "resources.gpu: expected a number of at least 0, found -1"),
        ({"resources": "{cpu: 0}"}, "resources.cpu: expected a number above 0, found 0"),
        (
            {"resources": "{memory: 4G}"},
            "resources.memory: expected a size such as 512MiB, 4GiB or 1.5GB, found '4G': "
            "write GiB (1024) or GB (1000)",
        ),
        (
            {"limits": "{errors: 101%}"},
            "limits.errors: expected a share such as 1% or 0.01, at most 100%, found '101%'",
        ),
        (
            {"limits": "{errors: 2}"},
            "limits.errors: expected a share such as 1% or 0.01, at most 100%, found 2",
        ),
        ({"limits": "{errors: -1%}"}, "limits.errors: expected a share such as 1% or 0.01, found '-1%'"),
        ({"limits": "{errors: few}"}, "limits.errors: expected a share such as 1% or 0.01, found 'few'"),
        ({"limits": "{errors: [1]}"}, "limits.errors: expected a share such as 1%, found a list"),
        ({"limits": "{errors: true}"}, "limits.errors: expected a share such as 1% or 0.01, found true"),
        ({"limits": "{retries: -1}"}, "limits.retries: expected a whole number of at least 0, found -1"),
        (
            {"limits": "{failures: many}"},
            "limits.failures: expected a whole number of at least 0, found 'many'",
        ),
        ({"limits": "{stop_after: 0}"}, "limits.stop_after: expected a whole number of at least 1, found 0"),
        (
            {"limits": "{error: 1%}"},
            "limits.error: unknown key | Did you mean 'errors'?",
        ),
        ({"ouput": "out/"}, "ouput: unknown key | Did you mean 'output'?"),
    ],
)
def test_resources_and_limits_that_cannot_be_are_refused(refused, sections, problem):
    assert refused(**sections) == f"5: {problem}"


def test_missing_sections_are_named(problems):
    assert problems("kind: infer\n", file=FILE) == [
        "infer.yaml: input: missing, expected a mapping with one of images, parquet, jsonl, text",
        "infer.yaml: model: missing, expected a mapping with one of onnx, torchscript, function",
        "infer.yaml: output: missing, expected a folder or a URL, or {path: ..., preserve_order: true}",
    ]


def test_every_problem_is_reported_at_once_in_order(problems):
    found = problems(
        """\
        kind: infer
        name: Off Sample
        input:
          images: in/
          column: x
        model:
          onnx: m.onnx
          device: gpus
        preprocess:
          image:
            size: 0
            resize: strech
        postprocess:
          labels: [off, off]
        output:
          pth: out/
        tune:
          batch: none
        limits:
          errors: few
        """,
        "limits.retries=few",
        file=FILE,
    )
    assert [each.split(": ")[:2] for each in found] == [
        ["infer.yaml:2", "name"],
        ["infer.yaml:5", "input.column"],
        ["infer.yaml:8", "model.device"],
        ["infer.yaml:11", "preprocess.image.size"],
        ["infer.yaml:12", "preprocess.image.resize"],
        ["infer.yaml:14", "postprocess.labels"],
        ["infer.yaml:15", "output.path"],
        ["infer.yaml:16", "output.pth"],
        ["infer.yaml:18", "tune.batch"],
        ["infer.yaml:20", "limits.errors"],
        ["--set limits.retries=few", "expected a whole number of at least 0, found 'few'"],
    ]

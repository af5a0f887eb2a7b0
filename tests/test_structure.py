"""The shape of the code base: what the house style asks for and no linter checks."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import shoal
import shoal.errors
from needs import MODULES as EXTRA_MODULES
from shoal.errors import Problem, ShoalError, SpecError
from shoal.kinds import KINDS, workloads

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "shoal"
MODULES = sorted(SOURCE.rglob("*.py"))
PACKAGES = sorted(path.parent.relative_to(SOURCE) for path in SOURCE.rglob("*/__init__.py"))
LONGEST = 400
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc"}

TESTS_OF_THE_WHOLE = {"bench", "clusters", "corpus", "docs", "examples", "faults", "servers", "testbed"}
"""Folders of tests that mirror no package: they test programs, pages, and everything together (`clusters`: Shoal on
clusters of real hosts and Ray nodes, from the command line down; `corpus`: runs of earlier versions)."""
TESTED_ELSEWHERE = {"cluster", "model", "testing"}
"""Packages without a folder of tests: values and small readers that the tests of others use all the time."""

THE_WORLD = {"environ", "getenv", "getcwd", "urandom", "fork", "posix_spawn", "system", "popen"}
"""Of `os`: what only some layers may touch. Imports of `time`, `random`, `subprocess` are import-linter's to find."""
MAY_TOUCH_THE_WORLD = ("engine/", "cluster/", "cli/", "testing/", "files/")
"""Runs in a worker only, and sets up the environment of the user's program there."""

EXTRAS = {module: marker for marker, module in EXTRA_MODULES.items()} | {"openvino": "torch"}


def name(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def problems(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    if not ast.get_docstring(tree_of(path)):
        yield "no docstring"
    if text.count("\n") > LONGEST:
        yield "too long: split it by idea"
    if path.stem in VAGUE:
        yield "name the idea"


def test_a_module_opens_with_what_it_is_and_is_not_too_long() -> None:
    assert [f"{name(path)}: {each}" for path in MODULES for each in problems(path)] == []


def test_only_some_layers_touch_the_environment_and_the_clock() -> None:
    others = [path for path in MODULES if not name(path).startswith(MAY_TOUCH_THE_WORLD)]
    found = {name(path): sorted(world(tree_of(path))) for path in others}
    assert {path: uses for path, uses in found.items() if uses} == {}


def world(tree: ast.AST) -> Iterator[str]:
    """What a module does that depends on where and when it runs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "os" and node.attr in THE_WORLD:
                yield f"line {node.lineno}: os.{node.attr}"
            if node.value.id in ("datetime", "date") and node.attr in ("now", "utcnow", "today"):
                yield f"line {node.lineno}: {node.value.id}.{node.attr}"


NAMES_A_KIND = {
    "kinds.py": "the table of kinds",
    "spec/__init__.py": "names of sections, for those who read files",
    "api/functions.py": "functions and rows are a sweep",
    "work/models/openvino_runtime.py": "`infer` is a method of OpenVINO",
}
"""Modules outside of the kinds that may name one."""


def test_nobody_asks_which_kind_of_work_it_is() -> None:
    others = [path for path in MODULES if name(path) not in NAMES_A_KIND]
    found = {name(path): list(kinds_named(tree_of(path), foreign_kinds(path))) for path in others}
    assert {path: uses for path, uses in found.items() if uses} == {}


def foreign_kinds(path: Path) -> list[str]:
    return [kind for kind in workloads() if not name(path).startswith((f"work/{kind}/", f"spec/{kind}.py"))]


def kinds_named(tree: ast.AST, kinds: list[str]) -> Iterator[str]:
    """Where a module depends on what kind of work something is: let the kind say it, in a method of `Kind`."""
    sections = {KINDS[kind].section.partition(":")[2] for kind in kinds}
    packages = tuple(f"shoal.{layer}.{kind}" for layer in ("work", "spec") for kind in kinds)
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if text in kinds or text.startswith(packages):
                yield f"line {node.lineno}: {text!r}"
            case ast.Attribute(attr=attribute) if attribute in kinds:
                yield f"line {node.lineno}: .{attribute}"
            case ast.ImportFrom(module=str(module), names=names):
                imported = sections & {each.name for each in names} if module == "shoal.spec" else ()
                if imported or module.startswith(packages):
                    yield f"line {node.lineno}: import from {module}"
            case ast.Import(names=names) if any(each.name.startswith(packages) for each in names):
                yield f"line {node.lineno}: import"


def test_nobody_asks_which_provider_a_cluster_has() -> None:
    others = [path for path in MODULES if not name(path).startswith(("cluster/", "spec/"))]
    found = {name(path): list(providers_asked(tree_of(path))) for path in others}
    assert {path: uses for path, uses in found.items() if uses} == {}


def providers_asked(tree: ast.AST) -> Iterator[str]:
    """Comparisons with the name of a provider, and looks at its class: let it say what it can do, in `Provider`."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(
                left=left, ops=[ast.Eq() | ast.NotEq() | ast.In() | ast.NotIn()], comparators=[right]
            ):
                if any(re.search(r"\bprovider$", ast.unparse(side)) for side in (left, right)):
                    yield f"line {node.lineno}: {ast.unparse(node)}"
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kind]) if "Provider" in ast.unparse(kind):
                yield f"line {node.lineno}: {ast.unparse(node)}"


def test_every_public_name_is_there() -> None:
    assert sorted(shoal.__all__) == dir(shoal)
    for each in shoal.__all__:
        assert getattr(shoal, each) is not None
    assert not hasattr(shoal, "nonsense")


def all_errors(of: type[ShoalError] = ShoalError) -> Iterator[type[ShoalError]]:
    yield of
    for each in of.__subclasses__():
        yield from all_errors(each)


@pytest.mark.parametrize("kind", list(all_errors()), ids=lambda kind: kind.__name__)
def test_an_error_crosses_processes_with_its_hint(kind: type[ShoalError]) -> None:
    error = kind("It broke.", hint="Mend it.")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.hint) == (kind, "It broke.", "Mend it.")
    assert again.exit_code in (1, 2, 3)


def test_the_problems_of_an_error_cross_processes() -> None:
    error = SpecError("Two problems.", problems=[Problem("a", "b"), Problem("c")])
    assert pickle.loads(pickle.dumps(error)).problems == (("a", "b"), ("c", None))


def test_the_tree_of_errors_is_drawn_as_it_is() -> None:
    drawn = re.findall(r"^[│├└─ ]*(\w+) .*exit (\d)$", shoal.errors.__doc__ or "", re.MULTILINE)
    defined = {kind.__name__: kind.exit_code for kind in all_errors() if kind is not ShoalError}
    assert {each: int(code) for each, code in drawn} == defined


def unmarked_skips(tree: ast.Module) -> Iterator[str]:
    """Skips that no marker tells of: a `skipif`, or an `importorskip` that is not of the module's own marker."""
    marks = [ast.unparse(each) for each in tree.body if ast.unparse(each).startswith("pytestmark")]
    of_module = {id(call) for each in tree.body if not hasattr(each, "body") for call in ast.walk(each)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "skipif":
            yield f"line {node.lineno}: skipif: add a marker to tests/needs.py instead"
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "importorskip":
            module = ast.literal_eval(node.args[0])
            marker = EXTRAS.get(module)
            if id(node) not in of_module or f"pytest.mark.{marker}" not in "".join(marks):
                yield f"line {node.lineno}: {module} is wanted, and the module has no marker `{marker}`"


def test_what_skips_for_want_of_something_has_a_marker_for_it() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): list(unmarked_skips(tree_of(path)))
        for path in (ROOT / "tests").rglob("*.py")
        if "servers" not in path.parts
    }
    assert {path: skips for path, skips in found.items() if skips} == {}


def test_the_tests_mirror_the_source() -> None:
    tests = {path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")}
    known = {Path(), *PACKAGES, *map(Path, TESTS_OF_THE_WHOLE)}
    assert tests <= known, "a folder of tests that mirrors no package"
    tested = {path.parts[0] for path in tests if path.parts}
    assert {path.parts[0] for path in PACKAGES} - tested <= TESTED_ELSEWHERE, "a package without tests"


def test_the_architecture_page_names_every_package_and_nothing_else() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| `([\w/.]+)` \|", page, re.MULTILINE)
    packages = [f"{path.as_posix()}/" for path in PACKAGES]
    modules = [path.name for path in SOURCE.glob("*.py") if not path.name.startswith("__")]
    assert sorted(lines) == sorted([*packages, *modules])
    for mentioned in re.findall(r"`([a-z_]+(?:/[a-z_.]+)+)`", page):
        assert any((base / mentioned).exists() for base in (SOURCE, ROOT)), f"there is no {mentioned}"


def test_the_command_line_page_has_every_command() -> None:
    from shoal.cli import COMMANDS

    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^## `shoal (\w+)", page, re.MULTILINE)) == sorted(COMMANDS)


def test_the_changelog_has_the_version() -> None:
    first = re.search(
        r"^## \[?([0-9][\w.]*)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert first is not None
    assert first[1] == shoal.__version__

"""What a user may ask for: workload and cluster files to frozen, checked values. Nothing is started here.

The hot path of `shoal run` goes through this package, so it stays light: kinds are loaded when they are used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from shoal.spec.command import RESERVED, Cell

if TYPE_CHECKING:
    from shoal.spec.cluster import Cluster, ClusterNode, Location, Scale
    from shoal.spec.infer import Infer, Postprocess, Preprocess, Tune
    from shoal.spec.shared_sections import ImagePreparation, Input, ModelFile, Output
    from shoal.spec.sweep import Objective, Run, SearchRange, Sweep, Trials
    from shoal.spec.workload import Limits, Placement, Resources, Spec, Workload
    from shoal.spec.yaml_reader import ANY

StrPath: TypeAlias = "str | os.PathLike[str]"

_LATE = {
    **dict.fromkeys(("Cluster", "ClusterNode", "Location", "Scale"), "cluster"),
    "ANY": "yaml_reader",
    **dict.fromkeys(("Limits", "Placement", "Resources", "Spec", "Workload"), "workload"),
    **dict.fromkeys(("Objective", "Run", "Sweep", "Trials"), "sweep"),
    **dict.fromkeys(
        ("ImagePreparation", "Infer", "Input", "ModelFile", "Output", "Postprocess", "Preprocess", "Tune"),
        "infer",
    ),
    "SearchRange": "sweep",
}

__all__ = [
    "ANY",
    "RESERVED",
    "Cell",
    "Cluster",
    "ClusterNode",
    "ImagePreparation",
    "Infer",
    "Input",
    "Limits",
    "Location",
    "ModelFile",
    "Objective",
    "Output",
    "Placement",
    "Postprocess",
    "Preprocess",
    "Resources",
    "Run",
    "Scale",
    "SearchRange",
    "Spec",
    "Sweep",
    "Trials",
    "Tune",
    "Workload",
    "load",
    "loads",
    "parse",
    "schema",
]


@overload
def load(path: StrPath, sets: Sequence[str] = (), *, kind: None = None) -> Workload: ...
@overload
def load(path: StrPath, sets: Sequence[str] = (), *, kind: Literal["cluster"]) -> Cluster: ...
@overload
def load(path: StrPath, sets: Sequence[str] = (), *, kind: str | None) -> Spec: ...
def load(path: StrPath, sets: Sequence[str] = (), *, kind: str | None = None) -> Spec:
    """The workload in a file, with `--set` overrides; with `kind`, a file of that kind (`"any"`: any).

    Raises SpecError with every problem there is; NotFound, which is one, when there is no such file.
    """
    from shoal.spec import yaml_reader

    return yaml_reader.load(path, sets, kind=kind)


@overload
def loads(
    text: str, *, folder: StrPath, label: str = ..., sets: Sequence[str] = (), kind: None = None
) -> Workload: ...
@overload
def loads(
    text: str, *, folder: StrPath, label: str = ..., sets: Sequence[str] = (), kind: str | None
) -> Spec: ...
def loads(
    text: str,
    *,
    folder: StrPath,
    label: str = "workload.yaml",
    sets: Sequence[str] = (),
    kind: str | None = None,
) -> Spec:
    """The same from the text of a file, such as a run keeps; `label` is what problems call it."""
    from shoal.spec import yaml_reader

    return yaml_reader.loads(text, folder=os.fspath(folder), label=label, sets=sets, kind=kind)


@overload
def parse(
    data: Mapping[str, Any], *, folder: StrPath, sets: Sequence[str] = (), kind: None = None
) -> Workload: ...
@overload
def parse(
    data: Mapping[str, Any], *, folder: StrPath, sets: Sequence[str] = (), kind: str | None
) -> Spec: ...
def parse(
    data: Mapping[str, Any], *, folder: StrPath, sets: Sequence[str] = (), kind: str | None = None
) -> Spec:
    """The same from Python data. Its `source` is text that gives the same workload when loaded."""
    from shoal.spec import yaml_reader

    return yaml_reader.parse(data, folder=os.fspath(folder), sets=sets, kind=kind)


def schema(kind: str) -> dict[str, Any]:
    """The JSON schema of a kind; NotFound with the nearest name when there is no such kind."""
    from shoal.errors import unknown
    from shoal.kinds import KINDS
    from shoal.spec.json_schema import file_schema
    from shoal.spec.yaml_reader import section_of

    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    return file_schema(kind, section_of(kind))


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_LATE[name]}", __name__), name)

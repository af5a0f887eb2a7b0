"""Cluster files of containers, and the schemas that their documents have to fit."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest

SCHEMAS = Path(__file__).parent / "schemas"
"""The schemas of KubeRay's resources, as `NAME.ray.io.v1.json.gz`."""
PLURALS = {"RayCluster": "rayclusters", "RayJob": "rayjobs"}
KUBERNETES = "1.34"


def crd_schema(kind: str) -> dict[str, Any]:
    path = SCHEMAS / f"{PLURALS[kind]}.ray.io.v1.json.gz"
    schema: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return schema


def strict(schema: Any) -> Any:
    """The schema as an API server applies it, but that unknown fields, which it would drop, are errors."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: strict(value) for name, value in schema.items()}
    if found.get("x-kubernetes-int-or-string"):
        found.pop("type", None)
        found["type"] = ["integer", "string"]
    closed = isinstance(found.get("properties"), dict) and not found.get(
        "x-kubernetes-preserve-unknown-fields"
    )
    if closed and "additionalProperties" not in found:
        found["additionalProperties"] = False
    return found


def validator_of(kind: str) -> jsonschema.Draft7Validator:
    schema = copy.deepcopy(crd_schema(kind))
    schema["properties"]["metadata"] = {"type": "object"}
    return jsonschema.Draft7Validator(strict(schema))


class Schemas:
    """KubeRay's schemas, for tests that need them as values."""

    plain = staticmethod(crd_schema)

    @staticmethod
    def strict(kind: str) -> dict[str, Any]:
        schema: dict[str, Any] = validator_of(kind).schema
        return schema


@pytest.fixture(scope="session")
def crd_schemas() -> Schemas:
    return Schemas()


@pytest.fixture(scope="session")
def validate() -> Callable[[dict[str, Any]], None]:
    """Fails where a document does not fit its schema: KubeRay's own, or that of Kubernetes."""
    validators: dict[str, jsonschema.Draft7Validator] = {}

    def check(document: dict[str, Any]) -> None:
        kind = document["kind"]
        if kind in PLURALS:
            if kind not in validators:
                validators[kind] = validator_of(kind)
            errors = [
                f"{error.json_path}: {error.message}" for error in validators[kind].iter_errors(document)
            ]
            assert errors == []
        else:
            kubernetes_validate.validate(document, KUBERNETES, strict=True)

    return check

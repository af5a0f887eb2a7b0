"""What the file format has and no engine can give so far: refused, rather than left out in silence."""

from __future__ import annotations

from shoal.errors import Problem
from shoal.spec import Workload


def not_yet(spec: Workload) -> list[Problem]:
    asked = {
        "image": (spec.image, "Leave it out: work runs with the Python that runs Shoal."),
        "placement.near": (spec.placement.near, "Place by labels: or node: instead."),
    }
    return [Problem(f"{key}: not possible yet.", hint) for key, (value, hint) in asked.items() if value]

"""The section `kind: toy` of a workload file."""

from __future__ import annotations

from shoal.spec.readers import Choice, ListOf, Plain
from shoal.spec.sections import key, section
from shoal.spec.workload import Workload


@section
class Toy(Workload):
    """Greetings, each said to one."""

    kind: str = key(Choice("toy"), "What this file describes.", default="toy")
    greet: tuple[str, ...] = key(ListOf(Plain(), "a list of names"), "Who is greeted.")

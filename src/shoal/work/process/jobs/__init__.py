"""The jobs that are built in, by name; each in a module of its own, or with those that are like it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from shoal.errors import SpecError, nearest, unknown
from shoal.work.process.jobs.base import Job

JOBS = {
    "words": "words:Words",
    "tags": "tags:Tags",
    "servers": "headers:Servers",
    "addresses": "headers:Addresses",
    "links": "links:Links",
    "types": "headers:Types",
    "text": "page_text:PageText",
}
OPTIONS = {("addresses", "hosts"): "headers:AddressHosts"}
"""Jobs that are another class when an option of theirs is true."""


def built_in(name: str, options: Mapping[str, Any]) -> Job:
    """The job with this name. `NotFound` or `SpecError` where there is no such job, or none with these options."""
    if name not in JOBS:
        raise unknown("job", name, JOBS)
    found = JOBS[name]
    for option, value in options.items():
        if (name, option) not in OPTIONS:
            known = [each for job, each in OPTIONS if job == name]
            raise SpecError(f"The job {name!r} has no option {option!r}.", hint=nearest(option, known))
        if not isinstance(value, bool):
            raise SpecError(f"The option {option!r} of the job {name!r} is true or false, not {value!r}.")
        found = OPTIONS[name, option] if value else found
    module, _, kind = found.partition(":")
    job: Job = getattr(import_module(f"{__name__}.{module}"), kind)()
    return job

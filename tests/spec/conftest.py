"""A way to write a workload file and see what comes of it."""

import textwrap

import pytest
from hypothesis import settings

from shoal import spec
from shoal.errors import SpecError

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")

MINIMAL = """
    kind: sweep
    name: x
    trials: {table: t.csv}
    run: {command: "python train.py"}
"""


@pytest.fixture
def load(tmp_path):
    """Load text as `sweep.yaml`; extra keyword arguments go to `spec.load`."""

    def load(text=MINIMAL, *sets, file="sweep.yaml", **options):
        path = tmp_path / file
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return spec.load(path, sets, **options)

    return load


@pytest.fixture
def problems(load, tmp_path):
    """The problems of a text, with hints, without the folder."""

    def problems(text=MINIMAL, *sets, **options):
        with pytest.raises(SpecError) as caught:
            load(text, *sets, **options)
        assert caught.value.exit_code == 2
        found = [" | ".join(part for part in problem if part) for problem in caught.value.problems]
        return [problem.replace(f"{tmp_path}/", "") for problem in found]

    return problems

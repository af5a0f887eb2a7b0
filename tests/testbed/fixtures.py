"""For pytest: where no bed can be had, tests marked `cluster` are skipped with the reason. No bed is made here."""

from __future__ import annotations

import pytest

from testbed.requirements import why_not_here


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the fixtures of the test, which would start hosts."""
    if item.get_closest_marker("cluster") is not None and (reason := why_not_here()) is not None:
        pytest.skip(reason)

"""Where no bed can be had, the reason is told: these tests need neither root nor Linux."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import needs
from testbed import requirements


@pytest.fixture(autouse=True)
def _look_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As root on Linux, whatever this is; and what was found is forgotten."""
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    requirements.why_not_here.cache_clear()
    yield
    requirements.why_not_here.cache_clear()


def test_a_user_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert requirements.why_not_here() == "needs root, for network namespaces"


def test_a_kernel_without_tun_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "exists", lambda path: path != "/dev/net/tun")
    assert requirements.why_not_here() == "needs /dev/net/tun, and there is none here"


@pytest.mark.parametrize(("tool", "package"), [("ip", "iproute2"), ("sshd", "openssh-server")])
def test_a_missing_command_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, tool: str, package: str
) -> None:
    monkeypatch.setattr(os.path, "exists", lambda path: True)
    monkeypatch.setattr("shutil.which", lambda name, path: None if name == tool else f"/bin/{name}")
    assert requirements.why_not_here() == f"needs the command {tool}: apt-get install {package}"


def test_another_system_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert requirements.why_not_here() == "needs Linux, and this is darwin"


def test_a_marked_test_is_skipped_with_the_reason_and_others_run(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    needs.pytest_runtest_setup(request.node)
    request.node.add_marker(pytest.mark.hosts)
    with pytest.raises(pytest.skip.Exception, match="needs root, for network namespaces"):
        needs.pytest_runtest_setup(request.node)

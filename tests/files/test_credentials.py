"""Where keys, region and endpoint of an S3 server come from, and what is said when something is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.errors import AccessDenied, SpecError
from shoal.files.credentials import REGION, s3_settings

KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hunter2"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    return tmp_path / ".aws"


def test_without_anything_the_region_is_the_usual_one(home: Path) -> None:
    assert s3_settings(None, KEYS) == ({"region": REGION}, None, None)


def test_variables_win_over_the_profile_and_an_endpoint_over_both(home: Path) -> None:
    (home / "config").write_text("[default]\nregion = eu-north-1\nendpoint_url = http://profile:1\n")
    settings = s3_settings(None, KEYS)
    assert (settings.config["region"], settings.endpoint) == ("eu-north-1", "http://profile:1")
    settings = s3_settings(None, {**KEYS, "AWS_REGION": "here", "AWS_ENDPOINT_URL": "http://variable:1"})
    assert (settings.config["region"], settings.endpoint) == ("here", "http://variable:1")
    assert s3_settings("http://given:1", {**KEYS, "AWS_ENDPOINT_URL": "x"}).endpoint == "http://given:1"


def test_a_profile_is_put_together_from_both_files(home: Path) -> None:
    (home / "config").write_text("[profile lab]\nregion = eu-north-1\n[default]\nregion = other\n")
    (home / "credentials").write_text("[lab]\naws_access_key_id = id\naws_secret_access_key = 100%secret\n")
    settings = s3_settings(None, {"AWS_PROFILE": "lab"})
    assert settings.config == {
        "region": "eu-north-1",
        "access_key_id": "id",
        "secret_access_key": "100%secret",
    }


def test_a_misspelt_profile_is_an_error_with_the_nearest(home: Path) -> None:
    (home / "config").write_text("[profile laboratory]\nregion = x\n")
    with pytest.raises(SpecError) as caught:
        s3_settings(None, {"AWS_PROFILE": "labratory"})
    assert caught.value.hint == "Did you mean 'laboratory'?"


def test_a_broken_file_is_named_and_its_content_not_shown(home: Path) -> None:
    (home / "credentials").write_text("hunter2 = no section\n")
    with pytest.raises(SpecError, match="credentials cannot be read") as caught:
        s3_settings(None, {})
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"


def test_a_server_of_ones_own_without_keys_is_an_error_at_once(home: Path) -> None:
    with pytest.raises(AccessDenied, match="no credentials for http://mine:1"):
        s3_settings("http://mine:1", {})
    assert s3_settings("http://mine:1", {"AWS_SKIP_SIGNATURE": "true"}).endpoint == "http://mine:1"
    with pytest.raises(AccessDenied, match="AWS_SECRET_ACCESS_KEY is not"):
        s3_settings(None, {"AWS_ACCESS_KEY_ID": "id"})


def test_roles_and_single_sign_on_are_left_to_boto(home: Path) -> None:
    (home / "config").write_text("[profile sso]\nsso_session = x\n")
    assert s3_settings(None, {"AWS_PROFILE": "sso"}).profile_for_boto == "sso"

"""Who we are to an S3 server: the AWS variables of the environment, and the user's profiles. Contacts nobody."""

from __future__ import annotations

import os
from collections.abc import Mapping
from configparser import ConfigParser, Error
from typing import Any, NamedTuple

from shoal.errors import AccessDenied, SpecError, unknown

REGION = "us-east-1"
"""What servers other than Amazon's take, and where Amazon's own begin."""
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_ELSEWHERE = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
"""Set by clusters and clouds that hand out credentials; the client library knows how to ask for them."""
_NEEDS_BOTO = ("role_arn", "sso_session", "sso_start_url", "credential_process", "login_session")
_HINT = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; AWS_SKIP_SIGNATURE=true for public buckets."


class S3Settings(NamedTuple):
    """What the client is made with. `config` may hold secrets: it is never printed."""

    config: Mapping[str, str]
    endpoint: str | None
    profile_for_boto: str | None = None


def s3_settings(endpoint: str | None, environ: Mapping[str, str]) -> S3Settings:
    """Settings from the environment, then from the profile. Variables win over profiles, `endpoint` over both."""
    profile = _profile(environ)
    endpoint = endpoint or next((environ[each] for each in _ENDPOINTS if environ.get(each)), None)
    endpoint = endpoint or profile.get("endpoint_url")
    config = {
        "region": environ.get("AWS_REGION")
        or environ.get("AWS_DEFAULT_REGION")
        or profile.get("region", REGION)
    }
    if endpoint is not None:
        config["aws_endpoint_url_s3"] = endpoint
    if environ.get("AWS_SKIP_SIGNATURE", "").lower() in ("true", "1"):
        return S3Settings(config, endpoint)
    if environ.get("AWS_ACCESS_KEY_ID"):
        if not environ.get("AWS_SECRET_ACCESS_KEY"):
            raise AccessDenied(
                "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not.",
                hint="Set both.",
                is_general=True,
            )
        return S3Settings(config, endpoint)
    if profile.get("aws_access_key_id") and profile.get("aws_secret_access_key"):
        config["access_key_id"] = profile["aws_access_key_id"]
        config["secret_access_key"] = profile["aws_secret_access_key"]
        if profile.get("aws_session_token"):
            config["session_token"] = profile["aws_session_token"]
        return S3Settings(config, endpoint)
    if any(profile.get(each) for each in _NEEDS_BOTO):
        return S3Settings(config, endpoint, _name(environ))
    if endpoint is not None and not any(environ.get(each) for each in _ELSEWHERE):
        raise AccessDenied(f"There are no credentials for {endpoint}.", hint=_HINT, is_general=True)
    return S3Settings(config, endpoint)


def boto_provider(profile: str) -> Any:
    """Credentials by roles, single sign-on or a program, which boto3 can do, where it is installed."""
    try:
        from boto3 import Session
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise SpecError(
            f"The AWS profile {profile!r} has no keys of its own: it uses a role, single sign-on or a program.",
            hint="pip install boto3, which knows how to ask for them.",
        ) from None
    return Boto3CredentialProvider(Session(profile_name=profile))


def _name(environ: Mapping[str, str]) -> str:
    return environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE") or "default"


def _profile(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The chosen profile, from both of the user's files; empty where nothing is chosen and there is no default."""
    name = _name(environ)
    settings = _sections(environ.get("AWS_CONFIG_FILE") or "~/.aws/config")
    secrets = _sections(environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials")
    settings = {each.removeprefix("profile ").strip(): values for each, values in settings.items()}
    if name != "default" and name not in settings and name not in secrets:
        raise unknown("AWS profile", name, {*settings, *secrets})
    return {**settings.get(name, {}), **secrets.get(name, {})}


def _sections(path: str) -> dict[str, dict[str, str]]:
    parser = ConfigParser(interpolation=None, default_section="", strict=False)
    try:
        parser.read(os.path.expanduser(path), encoding="utf-8")
    except (Error, UnicodeDecodeError, OSError):  # The text may hold secrets: the message has none of it.
        raise SpecError(
            f"{path} cannot be read.", hint="It has [profile] lines and NAME = VALUE lines."
        ) from None
    return {name: dict(parser.items(name)) for name in parser.sections()}

"""Joining a Ray cluster that is there already. Its token, if it has one, is where Ray itself looks for it."""

from __future__ import annotations

import logging
from contextlib import suppress

from shoal.errors import EngineError, SpecError


def connect(address: str) -> None:
    """Connect this process to the cluster at `address`; a process that is connected already stays where it is."""
    try:
        import ray
    except ImportError:
        raise SpecError(
            "provider: ray needs the package ray, which is not installed.", hint="pip install 'shoal[ray]'"
        ) from None
    if ray.is_initialized():
        return
    try:
        ray.init(
            address=address,
            namespace="shoal",
            log_to_driver=False,
            configure_logging=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        with suppress(Exception):
            ray.shutdown()
        raise EngineError(
            f"No Ray cluster can be joined at {address}: {_first_line(error)}",
            hint="Is it up, can it be reached from here, and does RAY_AUTH_TOKEN_PATH name its token?",
        ) from error


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)

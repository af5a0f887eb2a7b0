"""A folder to run the real command in, and a disk of its own."""

from faults.conftest import mount, place

__all__ = ["mount", "place"]

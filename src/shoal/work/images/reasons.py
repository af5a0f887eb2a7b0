"""Why an image cannot be used, in one line each."""

from __future__ import annotations

from shoal.work.protocols import Unreadable

LONGEST = 300


def one_line(text: str) -> str:
    """A library's message as a part of a sentence: no line ends, not too long."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 3] + "..."


def too_many_pixels(width: int, height: int, most_pixels: int, when: str = "") -> Unreadable:
    """An image that is not decoded, for it would fill the memory."""
    return Unreadable(f"{width} x {height} pixels{when}, more than most_pixels: {most_pixels}")


def damaged(name: str, message: str) -> Unreadable:
    """The picture is not as it was written; `message` says how that is known."""
    return Unreadable(f"damaged {name}: {one_line(message)}")


def not_decoded(name: str, error: Exception) -> Unreadable:
    """It begins as this format does, and its decoder does not take it."""
    return Unreadable(f"not readable as {name}: {one_line(str(error)) or type(error).__name__}")

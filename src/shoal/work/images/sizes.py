"""How large an image becomes before its middle is cut out, as torchvision's Resize and CenterCrop have it. Pure."""

from __future__ import annotations

from typing import NamedTuple


class Box(NamedTuple):
    """A part of an image; may lie outside of it."""

    left: int
    top: int
    width: int
    height: int


def shorter_side(width: int, height: int, side: int) -> tuple[int, int]:
    """Width and height after the shorter side became `side`."""
    if width <= height:
        return side, int(side * height / width)
    return int(side * width / height), side


def middle(width: int, height: int, crop_width: int, crop_height: int) -> Box:
    """Where the middle is; halves are rounded to even, and an image that is too small has a border around it."""
    return Box(_start(width, crop_width), _start(height, crop_height), crop_width, crop_height)


def _start(length: int, crop: int) -> int:
    return round((length - crop) / 2) if crop <= length else -((crop - length) // 2)

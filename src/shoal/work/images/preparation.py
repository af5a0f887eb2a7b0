"""Image preparation as a file asks for it: decode, convert, resize; then batches of numbers, or of bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from shoal.spec.shared_sections import ImagePreparation
from shoal.work.images import jpeg
from shoal.work.images.formats import format_of
from shoal.work.images.pillow import check_size, converted, decode
from shoal.work.protocols import Unreadable

Array = np.ndarray[Any, Any]

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
    "box": Image.Resampling.BOX,
    "hamming": Image.Resampling.HAMMING,
}


def image_preparation(spec: ImagePreparation, *, on_gpu: bool = False) -> ImagePrepare:
    """What `preprocess: {image: ...}` asks for; `on_gpu` leaves the arithmetic of batches to the GPU."""
    return ImagePrepare(spec, on_gpu=on_gpu)


class ImagePrepare:
    """`Prepare` for images. Holds nothing that changes; decoding and resizing let other threads run."""

    def __init__(self, spec: ImagePreparation, *, on_gpu: bool = False) -> None:
        self._spec = spec
        self._on_gpu = on_gpu and spec.resize != "affine"
        self._filter = FILTERS[spec.filter]
        self._scale = np.float32(spec.scale)
        mean, deviation = spec.normalize
        self._mean = _per_channel(mean, spec.channels)
        self._deviation = _per_channel(deviation, spec.channels)

    def one(self, raw: bytes | bytearray | memoryview) -> Array:
        """Height x width x channels, uint8; with `resize: affine`, float32 from 0 to 255. Raises `Unreadable`."""
        if not isinstance(raw, bytes | bytearray | memoryview):
            raise Unreadable(f"expected the bytes of an image, found {type(raw).__name__}")
        try:
            return self._fitted(*self._decoded(bytes(raw)))
        except MemoryError:
            raise Unreadable("memory does not suffice for it") from None

    def batch(self, prepared: Sequence[Array]) -> Array | Pixels:
        """Float32, batch x channels x height x width, divided by `scale` and normalised; or what becomes of it."""
        if not self._on_gpu:
            return self._computed(prepared)
        values = np.stack(prepared)
        return Pixels(values, self._scale, self._mean, self._deviation, lambda: self._computed(values))

    def _computed(self, prepared: Sequence[Array] | Array) -> Array:
        spec = self._spec
        result = np.empty((len(prepared), spec.channels, spec.height, spec.width), np.float32)
        for image, pixels in zip(result, prepared, strict=True):
            image[:] = pixels.transpose(2, 0, 1)
            for channel, mean, deviation in zip(image, self._mean, self._deviation, strict=True):
                # A channel at a time: it stays in the processor's cache from one step to the next.
                if self._scale != 1:
                    np.divide(channel, self._scale, out=channel)
                if mean != 0:
                    np.subtract(channel, mean, out=channel)
                if deviation != 1:
                    np.divide(channel, deviation, out=channel)
        return result

    def _decoded(self, raw: bytes) -> tuple[Array | Image.Image, tuple[int, int]]:
        """Pixels in the mode asked for, and the width and height that the file has."""
        spec = self._spec
        name = format_of(raw)
        found = jpeg.header(raw) if name == "JPEG" else None
        if found is not None:
            size = (found.width, found.height)
            check_size(size, spec.most_pixels)
            pixels = self._plain_jpeg(raw, found)
            if pixels is not None:
                return pixels, size
        image, size = decode(raw, name, spec.most_pixels, self._resized if spec.decode == "scaled" else None)
        return converted(image, spec.mode), size

    def _plain_jpeg(self, raw: bytes, found: jpeg.Header) -> Array | Image.Image | None:
        """The pixels without Pillow; None where it has to decode them. Raises `Unreadable` when they are damaged."""
        spec = self._spec
        if found.colours not in jpeg.PLAIN:
            jpeg.check(raw, spec.most_pixels)
            return None
        # Grey from colours as Pillow computes it, not the brightness that is stored.
        colours = "GRAY" if spec.mode == "L" and found.colours == "Gray" else "RGB"
        scaled = spec.decode == "scaled"
        factor = jpeg.factor_for(found, *self._resized(found.width, found.height)) if scaled else 1
        pixels = jpeg.decode(raw, found, colours, factor)
        if pixels is None or spec.mode == "RGB" or colours == "GRAY":
            return pixels
        return Image.fromarray(pixels).convert("L")

    def _resized(self, width: int, height: int) -> tuple[int, int]:
        """The width and height that an image is resized to."""
        spec = self._spec
        if spec.resize == "none":
            return width, height
        if spec.resize != "shorter":
            return spec.width, spec.height
        return shorter_side(width, height, spec.resize_to or max(spec.size))

    def _fitted(self, pixels: Array | Image.Image, size: tuple[int, int]) -> Array:
        spec = self._spec
        if spec.resize == "affine":
            return resized(_array(pixels), spec.height, spec.width)
        wanted = self._resized(*size)
        if spec.resize == "none" and wanted != (spec.width, spec.height):
            wanted_text = f"{spec.width} x {spec.height}"
            raise Unreadable(f"{size[0]} x {size[1]} pixels, not {wanted_text}, and resize is none")
        check_size(wanted, spec.most_pixels, " after resizing")
        if _size(pixels) != wanted:
            pixels = _image(pixels).resize(wanted, self._filter)
        return _array(pixels) if spec.resize != "shorter" else self._middle(_array(pixels))

    def _middle(self, pixels: Array) -> Array:
        spec = self._spec
        height, width = pixels.shape[:2]
        box = middle(width, height, spec.width, spec.height)
        if box.left < 0 or box.top < 0:
            result = np.zeros((box.height, box.width, spec.channels), np.uint8)
            part = pixels[max(box.top, 0) :, max(box.left, 0) :][: box.height, : box.width]
            top, left = max(-box.top, 0), max(-box.left, 0)
            result[top : top + part.shape[0], left : left + part.shape[1]] = part
            return result
        return np.ascontiguousarray(pixels[box.top : box.top + box.height, box.left : box.left + box.width])


def _per_channel(values: Sequence[float], channels: int) -> list[np.float32]:
    return [np.float32(value) for value in (tuple(values) * channels if len(values) == 1 else values)]


def _size(pixels: Array | Image.Image) -> tuple[int, int]:
    if isinstance(pixels, np.ndarray):
        return pixels.shape[1], pixels.shape[0]
    size: tuple[int, int] = pixels.size
    return size


def _image(pixels: Array | Image.Image) -> Image.Image:
    if isinstance(pixels, np.ndarray):
        return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    return pixels


def _array(pixels: Array | Image.Image) -> Array:
    array: Array = np.asarray(pixels)
    return array if array.ndim == 3 else array[:, :, None]


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


class Pixels:
    """Looks like the array that it stands for, as far as anybody asks before it is computed."""

    dtype = np.dtype(np.float32)

    def __init__(
        self,
        values: Array,
        scale: np.float32,
        mean: list[np.float32],
        deviation: list[np.float32],
        compute: Callable[[], Array],
    ) -> None:
        self.values = values
        """Batch x height x width x channels, uint8."""
        self.scale = scale
        self.mean = mean
        self.deviation = deviation
        self._compute = compute

    @property
    def shape(self) -> tuple[int, ...]:
        count, height, width, channels = self.values.shape
        return (count, channels, height, width)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return len(self.values)

    def array(self) -> Array:
        """The numbers, computed here."""
        return self._compute()


def resized(pixels: Array, height: int, width: int) -> Array:
    """Height x width x channels as float32, in the units of the input."""
    rows, columns, channels = pixels.shape
    flat = pixels.reshape(rows, columns * channels)
    above, below, lower_share = _samples(rows, height)
    upper = _columns(flat.take(above, axis=0), columns, channels, width)
    lower = _columns(flat.take(below, axis=0), columns, channels, width)
    return _mixed(upper, lower, lower_share[:, None]).reshape(height, width, channels)


def _columns(flat: Array, columns: int, channels: int, width: int) -> Array:
    """Each row resampled. Channels count as columns: numpy takes single bytes much faster than three at once."""
    left, right, right_share = _samples(columns, width)
    channel = np.arange(channels)
    lefts, rights = ((side[:, None] * channels + channel).ravel() for side in (left, right))
    return _mixed(flat.take(lefts, axis=1), flat.take(rights, axis=1), np.repeat(right_share, channels))


def _mixed(first: Array, second: Array, share: Array) -> Array:
    result: Array = np.multiply(first, 1 - share, dtype=np.float32)
    result += np.multiply(second, share, dtype=np.float32)
    return result


@lru_cache(maxsize=1024)
def _samples(size: int, count: int) -> tuple[Array, Array, Array]:
    """For each of `count` samples along an axis of `size` pixels: its two neighbours, and the share of the second."""
    last = np.float32(size - 1)
    places = np.abs((_line(count) + np.float32(1)) * np.float32((size - 1) / 2))
    places = np.where(places > last, last - (places - last), places).clip(0, last)
    first = np.floor(places)
    share = (places - first).astype(np.float32)
    first_index = first.astype(np.intp)
    return first_index, np.minimum(first_index + 1, size - 1), share


def _line(count: int) -> Array:
    """From -1 to 1 as `torch.linspace` gives it: from both ends to the middle, each with one rounding."""
    if count == 1:
        return np.zeros(1, np.float32)
    step = float(np.float32(2) / np.float32(count - 1))
    index = np.arange(count)
    line = np.where(index < count // 2, step * index - 1, 1 - step * (count - 1 - index))
    return line.astype(np.float32)

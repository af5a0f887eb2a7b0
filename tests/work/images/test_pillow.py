"""What is not a good image: each kind of it is an `Unreadable` with a reason in one line, and nothing else happens."""

from __future__ import annotations

import io
import pickle
import struct
import subprocess
import sys
import warnings
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shoal.spec.shared_sections import ImagePreparation
from shoal.work.images import image_preparation, open_image
from shoal.work.protocols import Unreadable

BOMB = 30_000
SLOPES = np.stack([np.mgrid[:24, :32][0] * 9, np.mgrid[:24, :32][1] * 7, np.full((24, 32), 90)], -1)
PICTURE = Image.fromarray(SLOPES.astype(np.uint8))
PALETTE = PICTURE.quantize(16)


def encoded(image: Image.Image, name: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, name, **options)
    return file.getvalue()


FILES = {
    "jpeg": encoded(PICTURE, "JPEG"),
    "jpeg-progressive": encoded(PICTURE, "JPEG", progressive=True),
    "jpeg-cmyk": encoded(PICTURE.convert("CMYK"), "JPEG"),
    "png": encoded(PICTURE, "PNG"),
    "png-palette": encoded(PALETTE, "PNG"),
    "gif": encoded(PALETTE, "GIF"),
    "gif-animated": encoded(PALETTE, "GIF", save_all=True, append_images=[PALETTE.rotate(90)]),
    "bmp": encoded(PICTURE, "BMP"),
    "tiff": encoded(PICTURE, "TIFF"),
    "tiff-lzw": encoded(PICTURE, "TIFF", compression="tiff_lzw"),
    "tiff-jpeg": encoded(PICTURE, "TIFF", compression="jpeg"),
    "webp": encoded(PICTURE, "WEBP"),
    "webp-lossless": encoded(PICTURE, "WEBP", lossless=True),
    "webp-animated": encoded(PICTURE, "WEBP", save_all=True, append_images=[PICTURE.rotate(180)]),
    "ppm": encoded(PICTURE, "PPM"),
    "pgm-plain": b"P2 32 24 255\n" + b"77 " * (32 * 24),
}
prepare = image_preparation(ImagePreparation(size=(24, 32)))


def reason(raw: Any, **asked: Any) -> str:
    with pytest.raises(Unreadable) as caught:
        image_preparation(ImagePreparation(**{"size": (24, 32), **asked})).one(raw)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def pillow(raw: bytes) -> np.ndarray[Any, Any]:
    return np.asarray(Image.open(io.BytesIO(raw)).convert("RGB"))


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_known_by_its_content_and_has_pillows_pixels(name: str) -> None:
    assert np.array_equal(prepare.one(FILES[name]), pillow(FILES[name]))
    assert np.array_equal(np.asarray(open_image(FILES[name], 10**6).convert("RGB")), pillow(FILES[name]))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_bytes_will_do(kind: Callable[[bytes], Any]) -> None:
    for raw in (FILES["jpeg"], FILES["png"]):
        assert np.array_equal(prepare.one(kind(raw)), pillow(raw))


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_off_anywhere_is_unreadable_or_still_the_same_picture(name: str) -> None:
    raw = FILES[name]
    whole = pillow(raw)
    refused = 0
    for length in range(0, len(raw), 7 if len(raw) > 1000 else 1):
        try:
            pixels = prepare.one(raw[:length])
        except Unreadable:
            refused += 1
        else:
            assert np.array_equal(pixels, whole), f"{length} of {len(raw)} bytes"
    assert refused > 50


@pytest.mark.parametrize("name", FILES)
def test_no_byte_that_is_changed_makes_anything_but_a_picture_or_an_unreadable(name: str) -> None:
    raw = FILES[name]
    chance = np.random.default_rng(4)
    for _ in range(300):
        changed = bytearray(raw)
        changed[chance.integers(min(len(raw), 400))] = chance.integers(256)
        for take in (prepare.one, lambda each: open_image(bytes(each), 10**6)):
            with suppress(Unreadable):
                take(changed)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", "empty: 0 bytes"),
        (b"hello, this is a text\n" * 10, "but text"),
        ("Grüße aus dem Süden, ein längerer Text ".encode() * 3, "but text"),
        (b"\xef\xbb\xbf<!DOCTYPE html><html><body>404</body></html>", "but an HTML page"),
        (b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>', "but an SVG drawing"),
        (b"PK\x03\x04" + bytes(60), "but a zip archive"),
        (b"%PDF-1.7\n", "but a PDF document"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "but a PostScript document"),
        (b"\xd7\xcd\xc6\x9a" + bytes(40), "but a Windows metafile"),
        (bytes(100), "but zero bytes"),
        (b"\0\0\0 ftypavif" + bytes(40), "but an AVIF image"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "but a pointer of git-lfs"),
        (b"\x01\x02\x03\x04\xff\xfe", "but data that begin with 01 02 03 04"),
    ],
    ids=lambda value: value[:12] if isinstance(value, bytes) else None,
)
def test_what_is_not_an_image_is_named(raw: bytes, expected: str) -> None:
    assert expected in reason(raw)


@pytest.mark.parametrize("raw", ["text", 7, None, [1, 2]])
def test_what_is_not_even_bytes_is_named(raw: Any) -> None:
    assert reason(raw) == f"expected the bytes of an image, found {type(raw).__name__}"


def test_an_image_of_a_format_that_may_start_programs_is_not_opened() -> None:
    eps = encoded(PICTURE, "EPS")
    assert "a PostScript document" in reason(eps)
    with pytest.raises(Unreadable, match="a PostScript document"):
        open_image(eps, 10**6)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, rows: int) -> bytes:
    """Light grey, with so many rows in it."""
    return png_of(width, height, (b"\0" + b"\xc8" * (width * 3)) * rows)


def png_of(width: int, height: int, data: bytes, interlaced: bool = False) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, interlaced)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def patched(name: str, format_: str, marker: bytes, offset: int) -> bytes:
    raw = bytearray(FILES[name])
    struct.pack_into(format_, raw, raw.index(marker) + offset, BOMB, BOMB)
    return bytes(raw)


def webp_bomb() -> bytes:
    raw = bytearray(FILES["webp-animated"])
    assert raw[12:16] == b"VP8X"
    raw[24:27] = raw[27:30] = (BOMB - 1).to_bytes(3, "little")
    return bytes(raw)


def tiff_bomb() -> bytes:
    tags = [
        (256, BOMB),
        (257, BOMB),
        (258, 8),
        (259, 5),
        (262, 1),
        (273, 8),
        (277, 1),
        (278, BOMB),
        (279, 100),
    ]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    return b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(tags)) + entries + bytes(104)


def tile_bomb() -> bytes:
    """A small image in a tile of 900 million pixels."""
    tags = [
        (256, 32),
        (257, 24),
        (258, 8),
        (259, 5),
        (262, 1),
        (277, 1),
        (322, BOMB),
        (323, BOMB),
        (324, 8),
        (325, 100),
    ]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    return b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(tags)) + entries + bytes(104)


BOMBS = {
    "png": png(BOMB, BOMB, 1),
    "jpeg": patched("jpeg", ">HH", b"\xff\xc0", 5),
    "jpeg-progressive": patched("jpeg-progressive", ">HH", b"\xff\xc2", 5),
    "jpeg-cmyk": patched("jpeg-cmyk", ">HH", b"\xff\xc0", 5),
    "gif": patched("gif", "<HH", b"GIF8", 6),
    "gif-frame": patched("gif", "<HH", b"," + struct.pack("<HHHH", 0, 0, 32, 24), 5),
    "bmp": patched("bmp", "<ii", b"BM", 18),
    "tiff": tiff_bomb(),
    "tiff-tile": tile_bomb(),
    "webp": webp_bomb(),
    "ppm": b"P6 30000 30000 255\n" + bytes(100),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_from_its_header(name: str) -> None:
    assert "30000 x 30000 pixels" in reason(BOMBS[name]) or name == "gif-frame"
    with pytest.raises(Unreadable):
        open_image(BOMBS[name], 10**6)


PEAK = """
import pickle, resource, sys
from shoal.work.images import open_image
good, bombs = pickle.load(sys.stdin.buffer)
def tried(data):
    try:
        open_image(data, 10**6)
    except Exception:
        pass
for data in good:
    tried(data)
before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for data in bombs * 3:
    tried(data)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib)
"""


def test_bombs_cost_no_memory() -> None:
    """In a process of its own: the most that this one ever needed may be more than any bomb takes."""
    files = pickle.dumps((list(FILES.values()), list(BOMBS.values())))
    done = subprocess.run([sys.executable, "-c", PEAK], input=files, capture_output=True, check=True)
    assert int(done.stdout) < 20_000


@pytest.mark.parametrize("name", FILES)
def test_the_largest_size_is_the_one_that_was_asked_for(name: str) -> None:
    assert reason(FILES[name], most_pixels=767) == "32 x 24 pixels, more than most_pixels: 767"
    image_preparation(ImagePreparation(size=(24, 32), most_pixels=768)).one(FILES[name])


def test_more_pixels_than_pillow_likes_are_fine_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    for raw in FILES.values():
        image_preparation(ImagePreparation(size=(24, 32), most_pixels=10_000)).one(raw)


def test_rows_that_were_never_written_are_damage_not_black() -> None:
    assert pillow(png(32, 24, 12))[-1].max() == 0  # Pillow sees nothing.
    assert reason(png(32, 24, 12)) == "damaged PNG: rows are missing"
    assert prepare.one(png(32, 24, 24)).min() == 200


def passes(width: int, height: int) -> list[bytes]:
    """The rows of an interlaced picture, by the positions of its pixels in each square of 8 x 8."""
    steps = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
    found = []
    for top, left, down, right in steps:
        columns = len(range(left, width, right))
        found += [b"\0" + b"\xc8" * (columns * 3) for _ in range(top, height, down) if columns]
    return found


def test_an_interlaced_png_is_whole_with_all_its_rows_and_damaged_with_fewer() -> None:
    for width, height in ((1, 1), (1, 9), (9, 1), (3, 5), (8, 8), (17, 33)):
        rows = passes(width, height)
        prepare = image_preparation(ImagePreparation(size=(height, width)))
        assert prepare.one(png_of(width, height, b"".join(rows), interlaced=True)).min() == 200
        with pytest.raises(Unreadable, match="PNG"):
            prepare.one(png_of(width, height, b"".join(rows[:-1]), interlaced=True))


def test_a_png_that_ends_in_black_rows_is_whole() -> None:
    for mode in ("RGB", "L", "P", "1", "RGBA", "LA"):
        raw = encoded(Image.new(mode, (32, 24)), "PNG")
        assert np.array_equal(prepare.one(raw), pillow(raw))


def test_changed_pixels_of_a_png_are_damage() -> None:
    raw = FILES["png"]
    start = raw.index(b"IDAT") + 4
    for position in range(start, start + int.from_bytes(raw[start - 8 : start - 4], "big"), 5):
        changed = raw[:position] + bytes([raw[position] ^ 16]) + raw[position + 1 :]
        assert reason(changed) == "damaged PNG: wrong checksum of a IDAT chunk"


def noisy_files() -> dict[str, bytes]:
    """Files about which Pillow warns, or would."""
    large = png(10_000, 10_000, 1)
    palette = PALETTE.copy()
    exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x1a\x01\x05\0\x01\0\0\0\xff\xff\xff\x7f\0\0\0\0"
    return {
        "pixels": large,
        "transparency": encoded(palette, "PNG", transparency=bytes(range(0, 160, 10))),
        "exif": encoded(PICTURE.convert("CMYK"), "JPEG", exif=exif),
        "tiff": FILES["tiff"][:120],
    }


REFUSED = ("pixels", "tiff")


@pytest.mark.parametrize("name", noisy_files())
@pytest.mark.parametrize("how", ["always", "error"])
def test_no_warning_of_pillow_comes_out(name: str, how: Any) -> None:
    raw = noisy_files()[name]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter(how)
        for take in (prepare.one, lambda each: open_image(each, 10**6).convert("RGB")):
            with pytest.raises(Unreadable) if name in REFUSED else nullcontext():
                take(raw)
    assert [str(each.message) for each in heard] == []


def test_many_threads_get_what_one_gets() -> None:
    raws = [*FILES.values(), b"no image"] * 20

    def take(raw: bytes) -> Any:
        try:
            return prepare.one(raw).tobytes()
        except Unreadable as error:
            return str(error)

    expected = [take(raw) for raw in raws]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(take, raws)) == expected

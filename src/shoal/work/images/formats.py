"""Which format some bytes are in, by how they begin, and why an image cannot be used."""

from __future__ import annotations

from shoal.work.protocols import Unreadable

READ = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WebP", "PPM")

_BEGINNINGS = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"BM", "BMP"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"II+\0", "TIFF"),
    (b"MM\0+", "TIFF"),
    *((b"P%d%c" % (number, space), "PPM") for number in range(1, 7) for space in b" \t\r\n#"),
)
_OTHERS = (
    (b"%PDF", "a PDF document"),
    (b"%!PS", "a PostScript document"),
    (b"\xc5\xd0\xd3\xc6", "a PostScript document"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"8BPS", "a Photoshop image"),
    (b"\0\0\x01\0", "an icon"),
    (b"\xd7\xcd\xc6\x9a", "a Windows metafile"),
    (b"\0\0\0\x0cjP  ", "a JPEG 2000 image"),
    (b"\xff\x4f\xff\x51", "a JPEG 2000 image"),
    (b"\xff\x0a", "a JPEG XL image"),
    (b"\x93NUMPY", "a numpy array"),
    (b"PAR1", "a Parquet file"),
    (b"version https://git-lfs", "a pointer of git-lfs, not the file itself"),
)
_BOXES = {
    b"avif": "an AVIF image",
    b"avis": "an AVIF image",
    b"heic": "a HEIC image",
    b"mif1": "a HEIF image",
}
LONGEST = 300


def format_of(raw: bytes) -> str:
    """One of `READ`; `Unreadable` with what it is instead."""
    head = bytes(raw[:64])
    if not head:
        raise Unreadable("empty: 0 bytes")
    for beginning, name in _BEGINNINGS:
        if head.startswith(beginning):
            return name
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "WebP"
    raise Unreadable(f"not an image that is read ({', '.join(READ)}), but {_looks_like(head)}")


def _looks_like(head: bytes) -> str:
    if not head.strip(b"\0"):
        return "zero bytes"
    for beginning, name in _OTHERS:
        if head.startswith(beginning):
            return name
    if head[4:8] == b"ftyp":
        return _BOXES.get(head[8:12], "a video or an image in a video container")
    text = head.lstrip(b"\xef\xbb\xbf").lstrip().lower()
    if text.startswith((b"<!doctype html", b"<html")):
        return "an HTML page"
    if text.startswith(b"<svg") or (text.startswith(b"<?xml") and b"svg" in text):
        return "an SVG drawing"
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # else a character that is cut off by our own 64 bytes
            return f"data that begin with {head[:4].hex(' ')}"
    return "text" if min(head) >= 9 else f"data that begin with {head[:4].hex(' ')}"


def webp_size(raw: bytes) -> tuple[int, int] | None:
    """Width and height from the header: Pillow's decoder takes memory for the pixels as soon as it opens a WebP."""
    if len(raw) < 30:
        return None
    chunk = raw[12:16]
    if chunk == b"VP8X":
        return int.from_bytes(raw[24:27], "little") + 1, int.from_bytes(raw[27:30], "little") + 1
    if chunk == b"VP8L" and raw[20] == 0x2F:
        bits = int.from_bytes(raw[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if chunk == b"VP8 " and raw[23:26] == b"\x9d\x01\x2a":
        width, height = int.from_bytes(raw[26:28], "little"), int.from_bytes(raw[28:30], "little")
        return width & 0x3FFF, height & 0x3FFF
    return None


def gif_size(raw: bytes) -> tuple[int, int]:
    """Of the canvas. As with WebP, opening may take memory for it."""
    return int.from_bytes(raw[6:8], "little"), int.from_bytes(raw[8:10], "little")


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

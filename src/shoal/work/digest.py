"""A short name for a text, the same on every machine."""

from __future__ import annotations

try:
    from _blake2 import blake2b  # `hashlib` loads OpenSSL: 2 ms that every start would pay.
except ImportError:
    from hashlib import blake2b

DIGEST_BYTES = 8


def digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()

"""The job `words`: how often each word is in the texts of a crawl, or in the lines and rows of tables."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from functools import cache
from typing import Any

from shoal.work.process.jobs.base import TABLES, Job
from shoal.work.protocols import Unreadable
from shoal.work.records.record import ROW, Record

_WORD = re.compile(r"\w+")
_SPACED = bytes(code if code > 127 or chr(code).isalnum() or chr(code) == "_" else 32 for code in range(256))
"""ASCII characters that are in no word become spaces; bytes of other characters stay."""


class Words(Job):
    r"""Counts the matches of `\w+` in the lower-cased text of WET `conversion` records (of tables: of column `text`).

    | word | count |
    |---|---|
    | the | 5120 |
    | and | 2817 |

    Arrow counts the pieces of the text between ASCII characters that are in no word, which no match spans. Only
    distinct pieces with other characters of that kind (quotation marks, ideographic spaces) are taken apart after that.
    """

    key = ("word",)
    records = frozenset(("conversion",))
    formats = TABLES | {"wet"}

    def map(self, record: Record) -> bytes:
        """The text in lower case, with spaces instead of ASCII characters that are in no word."""
        if record.type == ROW:
            text = _text_of(record)
        else:
            data = record.body()
            if data.isascii():
                return data.lower().translate(_SPACED)
            text = str(data, "utf-8", "replace")
        return text.lower().encode("utf-8", "replace").translate(_SPACED)

    def gather(self, found: Sequence[bytes]) -> Any:
        import pyarrow
        from pyarrow import compute

        pieces = compute.ascii_split_whitespace(_one_text(b" ".join(found))).flatten()
        table = _counts(*compute.value_counts(pieces).flatten())
        is_odd = compute.match_substring_regex(table.column("word"), _no_word_character())
        odd = table.filter(is_odd)
        if not odd.num_rows:
            return table
        return pyarrow.concat_tables([table.filter(compute.invert(is_odd)), _found_in(odd)])


def _counts(words: Any, counts: Any) -> Any:
    """A table of those that are not empty."""
    import pyarrow
    from pyarrow import compute

    is_word = compute.cast(compute.binary_length(words), pyarrow.bool_())
    return pyarrow.table([words, counts], ["word", "count"]).filter(is_word)


def _found_in(odd: Any) -> Any:
    """The words in these pieces, each as often as its piece."""
    from pyarrow import compute

    pieces, counts = odd.combine_chunks().columns
    spaced = compute.replace_substring_regex(pieces.combine_chunks(), f"{_no_word_character()}+", " ")
    words = compute.ascii_split_whitespace(spaced)
    return _counts(words.flatten(), counts.combine_chunks().take(compute.list_parent_indices(words)))


def _text_of(record: Record) -> str:
    text = record.row.get("text")
    if not isinstance(text, str):
        raise Unreadable("it has no text in a column `text`")
    return text


def _one_text(data: bytes) -> Any:
    """An Arrow array of this text."""
    import pyarrow

    offsets = pyarrow.py_buffer(array("i", (0, len(data))))
    return pyarrow.Array.from_buffers(pyarrow.string(), 1, [None, offsets, pyarrow.py_buffer(data)])


@cache
def _no_word_character() -> str:
    r"""A pattern for Arrow of all that `\w` is not, by what Python knows of Unicode.

    Beyond the third plane of Unicode there are no letters and no digits.
    """
    others = "".join(map(chr, (*range(0x80, 0xD800), *range(0xE000, 0x40000))))
    ranges = (rf"\x{{{ord(found[0][0]):x}}}-\x{{{ord(found[0][-1]):x}}}" for found in _WORD.finditer(others))
    return f"[^0-9A-Za-z_{''.join(ranges)}]"

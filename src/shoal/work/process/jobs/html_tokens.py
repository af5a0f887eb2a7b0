"""Tags in the source of a page, as the tokenizer of the WHATWG's HTML standard sees them; no tree is built.

The parser of the standard tells its tokenizer after which start tags text follows that has no tags. So that no tree
is needed, here that goes by the name of the start tag alone: after `title` and `textarea` (RCDATA), `style`, `xmp`,
`iframe`, `noembed` and `noframes` (raw text), `script` (with its escaped states) and `plaintext`. Nothing is foreign
(SVG, MathML): `<![CDATA[` is a comment there, too. `noscript` has tags, as where no scripts are run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from html.entities import html5
from itertools import chain
from typing import NamedTuple

_SPACE = r" \t\n\f\r"
_END = rf"[{_SPACE}/>]"
_NAME = rf"[A-Za-z][^{_SPACE}/>]*+"
_VALUE = rf"(?>\"[^\"]*\"|'[^']*'|[^{_SPACE}>\"'][^{_SPACE}>]*+|(?=>))"
_ATTRIBUTE = rf"[^{_SPACE}/>][^{_SPACE}/>=]*+(?>[{_SPACE}]*+=[{_SPACE}]*+{_VALUE}|(?![{_SPACE}]*+=))"
_REST = rf"(?>[{_SPACE}/]++|{_ATTRIBUTE})*+>"
"""Of a tag after its name. No match where the page ends within the tag: then it is none."""
_RAW = "title|textarea|style|xmp|iframe|noembed|noframes"
_DOUBLY_ESCAPED = (
    rf"<(?ai:script){_END}(?>[^<-]++|-(?!->)|<(?!/(?ai:script){_END}))*+(?:</(?ai:script){_END})?+"
)
_ESCAPED = rf"<!(?=--)(?>[^<-]++|-(?!->)|<(?!/?(?ai:script){_END})|{_DOUBLY_ESCAPED})*+(?:-->)?+"
_SCRIPT = rf"(?>[^<]++|<(?!/(?ai:script){_END}|!--)|{_ESCAPED})*+"


def _tokens(end_name: str) -> re.Pattern[str]:
    """Whatever begins with `<` and is not text; a group has the name of a start tag."""
    return re.compile(
        rf"<(?>((?ai:{_RAW})(?={_END})){_REST}(?>[^<]++|<(?!/(?ai:\1){_END}))*+"
        rf"|((?ai:script)(?={_END})){_REST}{_SCRIPT}"
        rf"|((?ai:plaintext)(?={_END})){_REST}.*+"
        rf"|({_NAME}){_REST}"
        r"|!--(?>-?>|(?>[^-]++|-(?!-!?>))*+(?:--!?>)?+)"
        rf"|/{end_name}{_REST}"
        r"|/?[A-Za-z].*+"
        r"|(?>[!?]|/(?!>))[^>]*+)",
        re.DOTALL,
    )


_STARTS = _tokens(_NAME)
_STARTS_AND_ENDS = _tokens(f"({_NAME})")
_END_GROUP = 5
_REST_OF_TAG = re.compile(_REST)
_ATTRIBUTES = re.compile(
    rf"([^{_SPACE}/>][^{_SPACE}/>=]*+)"
    rf"(?>[{_SPACE}]*+=[{_SPACE}]*+(?>\"([^\"]*)\"|'([^']*)'|([^{_SPACE}>\"'][^{_SPACE}>]*+)|(?=>)))?+"
)
_REFERENCE = re.compile(r"&(?:#([xX][0-9A-Fa-f]+|[0-9]+);?|([A-Za-z][A-Za-z0-9]*)(;|(?!=)))")
_LOWER = {**{code: code + 32 for code in range(65, 91)}, 0: 0xFFFD}


class Tag(NamedTuple):
    """A start tag: its name, and the source between that and the `>`."""

    name: str
    rest: str

    def attribute(self, name: str) -> str | None:
        """The value of the first attribute with this name, with its character references resolved."""
        for found, *values in _ATTRIBUTES.findall(self.rest):
            if lower_case(found) == name:
                return _REFERENCE.sub(_resolved, "".join(values))
        return None


def start_tags(source: str) -> list[str]:
    """The names of all start tags, as they are written."""
    return [*filter(None, chain.from_iterable(_STARTS.findall(source)))]


@lru_cache(4096)
def lower_case(name: str) -> str:
    """The name of a tag or attribute as the standard has it: A to Z are lower-cased, and nothing else."""
    return name.translate(_LOWER)


def tags_named(source: str, names: Collection[str]) -> Iterator[Tag]:
    """The start tags with these names, for those who look at attributes."""
    for match in _STARTS.finditer(source):
        group = match.lastindex
        if group is not None and (name := lower_case(match[group])) in names:
            rest = _REST_OF_TAG.match(source, match.end(group))
            yield Tag(name, rest[0][:-1] if rest is not None else "")


def tags(source: str) -> Iterator[tuple[str, bool]]:
    """The names of all tags, and whether it is an end tag."""
    for match in _STARTS_AND_ENDS.finditer(source):
        group = match.lastindex
        if group is not None:
            yield lower_case(match[group]), group == _END_GROUP


def _resolved(match: re.Match[str]) -> str:
    number, name, end = match.groups()
    if number is not None:
        digits, base = (number[1:], 16) if number[0] in "xX" else (number, 10)
        code = int(digits.lstrip("0")[:8] or "0", base)  # With more digits it is no character either.
        return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
    return html5.get(name + end, match[0])

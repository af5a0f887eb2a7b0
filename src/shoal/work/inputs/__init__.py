"""The inputs of inference: the driver lists them and cuts them into items, a worker opens an item.

`listing` and `opening` are all that other parts call. What each kind of input is made of is in a module of its own, and
is loaded when it is first needed: it brings in numpy or pyarrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from shoal.work.inputs.base import Changes, Listing

if TYPE_CHECKING:
    from shoal.spec.shared_sections import Input
    from shoal.work.protocols import Opened

__all__ = ["Changes", "Listing", "listing", "opening"]


def listing(
    input_: Input,
    folder: str,
    *,
    known: Iterable[Mapping[str, Any]] = (),
    ordered: bool,
    limit: int | None,
    now: Callable[[], float],
) -> Listing:
    """Begin to list. `known` are the params of all items of earlier sessions: gone through before this returns.

    Relative paths are below `folder`. With `ordered`, inputs come by the names of their files. With `limit`, there are
    at most so many inputs in all sessions together. `now` is called from another thread. An address that is wrong is a
    `SpecError` at once; everything else that goes wrong comes out of `take`.
    """
    from shoal.work.inputs.lister import begun

    return begun(input_, folder, known, ordered, limit, now)


def opening(input_: Input, folder: str) -> Callable[[Mapping[str, Any]], Opened]:
    """What opens items by their params, in a worker. It reads nothing yet, and nor does opening an item."""
    from shoal.work.inputs.places import Places

    places = Places(folder, input_.endpoint)
    if input_.kind == "images":
        from shoal.work.inputs.image_files import Images

        return lambda params: Images(places.at(params["root"]), params)
    if input_.kind == "parquet":
        from shoal.work.inputs.row_reader import Groups, Rows

        groups = Groups(input_)
        return lambda params: Rows(places.at(params["root"]), params, input_, groups)
    from shoal.work.inputs.gzip_lines import Unpacked
    from shoal.work.inputs.line_reader import JsonLines, TextLines

    unpacked = Unpacked()
    if input_.kind == "jsonl":
        return lambda params: JsonLines(places.at(params["root"]), params, unpacked, input_)
    return lambda params: TextLines(places.at(params["root"]), params, unpacked)

"""What tests of inputs share: listing everything, and reading all of it back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import ShoalError
from shoal.spec.shared_sections import Input
from shoal.work.inputs import Listing, listing, opening

PATIENCE_S = 60.0

Params = Mapping[str, Any]


class Inputs:
    """The inputs below a folder, listed and read as driver and worker do."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = str(folder)

    def listing(
        self, input_: Input, known: Iterable[Params] = (), *, ordered: bool = False, limit: int | None = None
    ) -> Listing:
        return listing(input_, self.folder, known=known, ordered=ordered, limit=limit, now=time.monotonic)

    def items(
        self, input_: Input, sizes: Sequence[int] = (1000,), known: Iterable[Params] = (), **options: Any
    ) -> list[Params]:
        """All items, when so many inputs are asked for in turn."""
        found = self.listing(input_, known, **options)
        try:
            return list(taken(found, sizes))
        finally:
            found.close()

    def keys(self, input_: Input, items: Iterable[Params]) -> list[tuple[Any, ...]]:
        """The key of each input of these items."""
        found: list[tuple[Any, ...]] = []
        for params in items:
            opened = opening(input_, self.folder)(params)
            columns = opened.keys(range(len(opened))).values()
            found += zip(
                *(getattr(each, "to_pylist", lambda each=each: each)() for each in columns), strict=True
            )
        return found

    def read(self, input_: Input, items: Iterable[Params]) -> list[Any]:
        """Each input of these items; an exception in its place where it cannot be read."""
        found = []
        for params in items:
            opened = opening(input_, self.folder)(params)
            for position in range(len(opened)):
                try:
                    found.append(opened.read(position))
                except Exception as error:  # noqa: BLE001 - looked at by the test
                    found.append(error)
        return found


def taken(found: Listing, sizes: Sequence[int] = (1000,)) -> Iterator[Params]:
    """Items until there are no more."""
    deadline = time.monotonic() + PATIENCE_S
    turns = cycle(sizes)
    while not found.finished():
        assert time.monotonic() < deadline, "it never finishes"
        size = next(turns)
        params = found.take(size)
        if params is None:
            time.sleep(0.0005)
            continue
        assert 1 <= len(params.get("files", ())) + params.get("rows", 0) <= size
        yield params


@pytest.fixture
def inputs(tmp_path: Path) -> Inputs:
    """Inputs below the test's own folder."""
    return Inputs(tmp_path)


@pytest.fixture(scope="session")
def inputs_at() -> Callable[[Path | str], Inputs]:
    """Inputs below any folder: for tests that make several."""
    return Inputs


@pytest.fixture(scope="session")
def until() -> Callable[[Callable[[], object]], None]:
    """Wait until something is so."""

    def wait(is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, "it never became so"
            time.sleep(0.001)

    return wait


@pytest.fixture(scope="session")
def failure(until: Callable[[Callable[[], object]], None]) -> Callable[[Listing], Exception]:
    """What comes out of `take` when listing fails; nothing is found before."""

    def wait(found: Listing) -> Exception:
        errors: list[Exception] = []

        def has_failed() -> bool:
            try:
                assert found.take(1) is None
                assert not found.finished()
            except ShoalError as error:
                errors.append(error)
            return bool(errors)

        until(has_failed)
        return errors[0]

    return wait

"""What an input becomes before the model gets it: images in files and columns, functions, rows, text, or nothing."""

from __future__ import annotations

import base64
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shoal.spec.infer import Preprocess
from shoal.spec.shared_sections import ImagePreparation, Input
from shoal.work.infer.preprocess import preparation
from shoal.work.protocols import Unreadable

MODULE = "preparing_test_functions"
CODE = """
from shoal.work.protocols import Unreadable

seen = []

def remember(value):
    seen.append(value)
    return value

def brightness(image):
    return [float(sum(image.convert("L").getpixel((0, y)) for y in range(image.height))), float(image.width)]

def fails(value):
    raise KeyError("two\\nlines")

def refuses(value):
    raise Unreadable("not this one")

def ragged(text):
    return [1] * len(text)

def add(row):
    return row["a"] + row["b"]
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / f"{MODULE}.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    import importlib

    yield importlib.import_module(MODULE)
    sys.modules.pop(MODULE, None)


def called(name: str) -> Preprocess:
    return Preprocess(function=f"{MODULE}:{name}")


def png(colour: tuple[int, int, int] = (10, 20, 30)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (4, 3), colour).save(file, "PNG")
    return file.getvalue()


IMAGE = Preprocess(image=ImagePreparation(size=(2, 5)))


def test_images_are_prepared_from_their_bytes() -> None:
    prepare = preparation(IMAGE, Input(images="pictures/"))
    batch = prepare.batch([prepare.one(png()), prepare.one(png((0, 255, 0)))])
    assert batch.shape == (2, 3, 2, 5)
    assert batch[1, :, 0, 0].tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        (Input(parquet="t.parquet", column=("picture",)), png()),
        (Input(parquet="t.parquet", column=("picture",)), {"bytes": png(), "path": "a.png"}),
        (Input(jsonl="t.jsonl", column=("picture",)), base64.b64encode(png()).decode()),
        (
            Input(jsonl="t.jsonl", column=("picture",)),
            "data:image/png;base64," + base64.b64encode(png()).decode(),
        ),
        (Input(jsonl="t.jsonl", column=("picture",)), base64.encodebytes(png()).decode()),
    ],
    ids=["bytes", "struct", "base64", "data-url", "base64-in-lines"],
)
def test_images_are_prepared_from_the_one_column(source: Input, value: Any) -> None:
    prepare = preparation(IMAGE, source)
    one = prepare.one({"id": 7, "picture": value})
    assert one.reshape(-1, 3).tolist() == [[10, 20, 30]] * 10
    assert prepare.batch([one]).shape == (1, 3, 2, 5)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"picture": None}, "nothing in column 'picture'"),
        ({"id": 1}, "there is no column 'picture', only 'id'"),
        ({"picture": "no base64 !"}, "the text in column 'picture' is not Base64"),
        ({"picture": "ß"}, "the text in column 'picture' is not Base64"),
        ({"picture": 7}, "expected the bytes of an image, found int"),
        ({"picture": b""}, "empty: 0 bytes"),
        ({"picture": ""}, "empty: 0 bytes"),
    ],
)
def test_a_row_without_an_image_is_unreadable(row: dict[str, Any], reason: str) -> None:
    prepare = preparation(IMAGE, Input(jsonl="t.jsonl", column=("picture",)))
    with pytest.raises(Unreadable) as caught:
        prepare.one(row)
    assert str(caught.value) == reason


def test_a_function_gets_a_decoded_image(functions: Any) -> None:
    prepare = preparation(called("remember"), Input(images="pictures/"))
    value = prepare.one(png())
    assert isinstance(value, Image.Image)
    assert value.getpixel((0, 0)) == (10, 20, 30)
    assert functions.seen == [value]


def test_a_function_is_not_called_with_what_is_no_image(functions: Any) -> None:
    prepare = preparation(called("remember"), Input(images="pictures/"))
    for raw in (b"", b"text", png()[:-30]):
        with pytest.raises(Unreadable):
            prepare.one(raw)
    assert functions.seen == []


def test_what_a_function_gives_for_images_becomes_a_batch(functions: Any) -> None:
    prepare = preparation(called("brightness"), Input(images="pictures/"))
    batch = prepare.batch([prepare.one(png()), prepare.one(png((255, 255, 255)))])
    assert batch.dtype == np.float32
    assert batch.tolist() == [[54.0, 4.0], [765.0, 4.0]]


ROW = {"id": 1, "a": 2, "b": 3.5, "c": None}


@pytest.mark.parametrize(
    ("columns", "keys", "expected"),
    [
        ((), (), ROW),
        ((), ("id", "c"), {"a": 2, "b": 3.5}),
        (("a",), (), 2),
        (("c",), (), None),
        (("b", "a"), ("id",), {"b": 3.5, "a": 2}),
    ],
)
@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
@pytest.mark.parametrize("function", [None, "remember"])
def test_a_row_is_what_was_asked_of_it(
    kind: str, columns: Any, keys: Any, expected: Any, function: str | None, functions: Any
) -> None:
    source = Input(**{kind: "t"}, column=columns, key=keys)
    prepare = preparation(called(function) if function else None, source)
    assert prepare.one(ROW) == expected


def test_a_column_that_is_not_there_is_unreadable() -> None:
    for columns in (("d",), ("a", "d")):
        prepare = preparation(None, Input(parquet="t", column=columns))
        with pytest.raises(Unreadable, match="there is no column 'd', only 'id', 'a', 'b', 'c'"):
            prepare.one(ROW)


def test_a_line_of_text_stays_text(functions: Any) -> None:
    prepare = preparation(None, Input(text="t.txt"))
    assert prepare.batch([prepare.one("one"), prepare.one("two")]) == ["one", "two"]
    prepare = preparation(called("ragged"), Input(text="t.txt"))
    assert prepare.batch([prepare.one("a"), prepare.one("bc")]) == [[1], [1, 1]]


def test_an_image_without_a_preparation_is_a_decoded_image() -> None:
    prepare = preparation(None, Input(images="pictures/"))
    value = prepare.one(png())
    assert isinstance(value, Image.Image)
    assert prepare.batch([value, value]) == [value, value]


def test_what_a_function_raises_is_the_reason_in_one_line(functions: Any) -> None:
    with pytest.raises(Unreadable) as caught:
        preparation(called("fails"), Input(text="t.txt")).one("x")
    assert str(caught.value) == r"KeyError: 'two\nlines'"
    with pytest.raises(Unreadable) as caught:
        preparation(called("add"), Input(parquet="t", column=("a", "b"))).one({"a": 1, "b": "x"})
    assert str(caught.value) == "TypeError: unsupported operand type(s) for +: 'int' and 'str'"
    with pytest.raises(Unreadable, match=r"^not this one$"):
        preparation(called("refuses"), Input(text="t.txt")).one("x")


def test_a_function_that_is_not_there_fails_when_it_is_loaded(functions: Any) -> None:
    with pytest.raises(AttributeError):
        preparation(called("missing"), Input(text="t.txt"))


def test_rows_and_text_need_no_image_library() -> None:
    """A worker on rows starts without Pillow, which may not even be installed."""
    import subprocess

    code = (
        "import sys; from shoal.spec.infer import Input; from shoal.work.infer.preprocess import preparation\n"
        "preparation(None, Input(text='t')); assert 'PIL' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

"""Inputs and models as they come: what can be read gets a row, what cannot gets a reason, what is no model is told."""

from __future__ import annotations

import io
import struct
import zlib

import pytest

from faults.pictures import SIZE, fill, inference, output, picture, write_model

LIGHT, DARK = (240, 240, 240), (10, 10, 10)


def encoded(image, form, **settings):
    buffer = io.BytesIO()
    image.save(buffer, form, **settings)
    return buffer.getvalue()


def bomb():
    """A PNG of a bit for each of 30,000 x 30,000 pixels: 110 kB that would become 900 MB as grey values."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    side = 30_000
    packer = zlib.compressobj(1)
    rows = b"".join(packer.compress(bytes(1 + side // 8) * 100) for _ in range(side // 100)) + packer.flush()
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def jpeg_bomb():
    """A JPEG that says it has 30,000 x 30,000 pixels."""
    data = picture(1)
    at = data.index(b"\xff\xc0")
    return data[: at + 5] + struct.pack(">HH", 30_000, 30_000) + data[at + 9 :]


def odd_but_good():
    """Names and bytes, and the label that each has."""
    from PIL import Image

    def plain(colour, mode="RGB"):
        return Image.new(mode, (24, 24), colour)

    moving = encoded(plain(DARK), "GIF", save_all=True, append_images=[plain(LIGHT)] * 3)
    palette = plain(LIGHT).convert("P", palette=Image.Palette.ADAPTIVE)
    jpeg = {True: encoded(plain(LIGHT), "JPEG"), False: encoded(plain(DARK), "JPEG")}
    return {
        "png named as.jpg": (encoded(plain(LIGHT), "PNG"), "light"),
        "jpeg-named.png": (jpeg[False], "dark"),
        "without-extension": (jpeg[True], "light"),
        "cmyk.jpg": (encoded(plain((0, 0, 0, 0), "CMYK"), "JPEG"), "light"),
        "cmyk-dark.jpg": (encoded(plain((255, 255, 255, 255), "CMYK"), "JPEG"), "dark"),
        # Cut off at 255 instead of scaled, it would be white.
        "sixteen-bit.png": (encoded(Image.new("I;16", (24, 24), 3000), "PNG"), "dark"),
        "animated.gif": (moving, "dark"),
        "palette.png": (encoded(palette, "PNG", transparency=0), "light"),
        "transparent.png": (encoded(plain((*LIGHT, 0), "RGBA"), "PNG"), "light"),
        "grey.jpg": (encoded(plain(10, "L"), "JPEG"), "dark"),
        "name with spaces.jpg": (jpeg[True], "light"),
        "größe-кот-猫-🐟.jpg": (jpeg[False], "dark"),
        "new\nline.jpg": (jpeg[True], "light"),
        "-leading-dash.jpg": (jpeg[True], "light"),
        "100% [of] {it} *?.jpg": (jpeg[False], "dark"),
        "tief/unten/im ordner.jpg": (jpeg[True], "light"),
    }


def bad():
    """Names and bytes, and how the reason begins."""
    good = picture(3)
    return {
        "truncated.jpg": (good[: len(good) // 2], "not readable as JPEG"),
        "header-only.jpg": (good[:4], "not readable as JPEG"),
        "truncated.png": (picture(3, form="PNG")[:-30], "not readable as PNG"),
        "empty.jpg": (b"", "empty: 0 bytes"),
        "text.jpg": (b"I am not a picture.\n", "not an image that is read"),
        "page.jpg": (b"<!DOCTYPE html><html>404</html>", "not an image that is read"),
        "bomb.png": (bomb(), "30000 x 30000 pixels, more than most_pixels"),
        "bomb.jpg": (jpeg_bomb(), "30000 x 30000 pixels, more than most_pixels"),
    }


def write_all(place, files):
    for name, (data, _) in files.items():
        path = place.folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def test_every_input_of_a_wild_folder_has_a_row_or_a_reason(place):
    good, wrong = odd_but_good(), bad()
    write_all(place, good | wrong)
    (place.folder / "in" / ".hidden.jpg").write_bytes(picture(1))
    undecodable = place.folder / "in" / "no-text-\udcff.jpg"
    undecodable.write_bytes(picture(1))
    write_model(place.folder / "model.onnx")
    file = inference(place, limits={"errors": "40%"})
    ended = place.json("run", file, "--json")
    found = output(place.folder / "out")
    expected = {f"in/{name}": label for name, (_, label) in good.items()}
    expected["in/no-text-\\xff.jpg"] = found.rows["in/no-text-\\xff.jpg"]["label"]
    assert {path: row["label"] for path, row in found.rows.items()} == expected
    assert all(0.9 < found.rows[f"in/{name}"]["prob"] <= 1 for name in good)
    assert found.errors.keys() == {f"in/{name}" for name in wrong}
    for name, (_, reason) in wrong.items():
        assert found.errors[f"in/{name}"].startswith(reason), found.errors[f"in/{name}"]
        assert "\n" not in found.errors[f"in/{name}"]
    assert ended["state"] == "succeeded"
    assert (ended["infer"]["rows"], ended["infer"]["errors"]) == (len(good) + 1, len(wrong))
    assert sum(ended["infer"]["reasons"].values()) == len(wrong)
    assert ended["items"]["failed"] == 0


def test_more_errors_than_are_allowed_make_the_run_fail_with_all_rows_there(place):
    good, wrong = odd_but_good(), bad()
    write_all(place, good | wrong)
    write_model(place.folder / "model.onnx")
    done = place.shoal("run", inference(place, limits={"errors": "5%"}), "--json", code=1)
    assert '"state": "failed"' in done.stdout
    assert "33.3% of the inputs could not be used, and limits.errors allows 5%" in done.stdout
    found = output(place.folder / "out")
    assert (len(found.rows), len(found.errors)) == (len(good), len(wrong))
    said = place.shoal("resume", "i", code=1).stderr
    assert "limits.errors allows 5%" in said
    assert output(place.folder / "out") == found


def test_a_folder_without_any_image_has_errors_alone(place):
    write_all(place, bad())
    write_model(place.folder / "model.onnx")
    ended = place.json("run", inference(place, limits={"errors": "100%"}), "--json")
    assert (ended["infer"]["rows"], ended["infer"]["errors"]) == (0, len(bad()))
    assert output(place.folder / "out").errors.keys() == {f"in/{name}" for name in bad()}
    assert (
        "empty: 0 bytes"
        in place.shoal("show", "i", code=0).stdout + place.shoal("resume", "i", code=0).stderr
    )


def test_an_empty_folder_is_refused_with_a_sentence(place):
    (place.folder / "in").mkdir()
    write_model(place.folder / "model.onnx")
    done = place.shoal("run", inference(place), code=2)
    assert "There is no file in in/" in done.stderr


# Models.


def attempts(place):
    with place.store() as store:
        return [record.item.used for record in store.items(("failed",))]


def fails(place, file, code=1):
    """The run fails without trying anything again, and with sentences: what it said."""
    done = place.shoal("run", file, code=code)
    if code == 1:
        assert attempts(place)
        assert set(attempts(place)) == {1}
        assert done.stderr.count("Failed: ") == 1, done.stderr
    return done.stderr


def test_a_text_as_model_is_refused_before_anything_is_started(place):
    fill(place.folder / "in", 20)
    (place.folder / "model.onnx").write_text("not a model\n")
    assert "model.onnx is not an ONNX file: it is text, not a model." in place.refused(
        "run", inference(place)
    )


def test_a_torchscript_file_given_as_onnx_is_refused_with_the_key_to_write(place):
    import zipfile

    fill(place.folder / "in", 20)
    with zipfile.ZipFile(place.folder / "model.onnx", "w") as archive:
        for name in ("constants.pkl", "code/__torch__.py", "data.pkl", "version"):
            archive.writestr(f"model/{name}", "x")
    said = place.refused("run", inference(place))
    assert "seems to be a TorchScript file, not an ONNX file: write model: {torchscript: ...}" in said


def test_a_model_that_is_damaged_fails_the_run_in_a_sentence(place):
    fill(place.folder / "in", 200)
    write_model(place.folder / "model.onnx", work=8)
    model = place.folder / "model.onnx"
    model.write_bytes(model.read_bytes()[: model.stat().st_size // 2])
    said = fails(place, inference(place, tune={"item": 10, "runtime": "as-given"}))
    assert "cannot be loaded by ONNX Runtime" in said


def test_a_model_that_wants_another_shape_fails_the_run_with_what_to_set(place):
    fill(place.folder / "in", 200)
    write_model(place.folder / "model.onnx", size=2 * SIZE)
    said = fails(place, inference(place, tune={"item": 10, "runtime": "as-given"}))
    assert "The model takes 3x32x32, preprocessing gives 3x16x16: set preprocess.image.size: 32." in said


def test_inputs_for_which_a_model_gives_nan_are_errors_of_their_own(place):
    write_all(place, odd_but_good())
    write_model(place.folder / "model.onnx", nan_below=0.2)
    ended = place.json("run", inference(place, limits={"errors": "60%"}), "--json")
    dark = {f"in/{name}" for name, (_, label) in odd_but_good().items() if label == "dark"}
    found = output(place.folder / "out")
    assert found.errors == dict.fromkeys(dark, "the model returned NaN")
    assert ended["infer"]["rows"] == len(odd_but_good()) - len(dark)


def test_a_class_that_cannot_be_made_fails_the_run_with_its_own_words(place):
    fill(place.folder / "in", 200)
    place.write("mine.py", "class Model:\n    def __init__(self): raise ValueError('no weights here')\n")
    model = {"model": {"function": "mine:Model"}, "postprocess": None}
    said = fails(place, inference(place, tune={"item": 10}, **model))
    assert "ValueError: no weights here" in said


def test_a_class_that_fails_on_one_input_gives_rows_for_all_others(place):
    fill(place.folder / "in", 200)
    place.write(
        "mine.py",
        """
        class Model:
            def __call__(self, batch):
                if any(image.size == (31, 31) for image in batch):
                    raise ValueError("too odd for me")
                return {"width": [image.size[0] for image in batch]}
        """,
    )
    # The first of all: nothing that went well before shows that it is not the model.
    (place.folder / "in" / "000" / "00.jpg").write_bytes(picture(1, size=31))
    changed = {"model": {"function": "mine:Model"}, "preprocess": None, "postprocess": None}
    changed |= {"output": {"path": "out/", "preserve_order": True}, "tune": {"batch": 1}}
    place.json("run", inference(place, limits={"errors": "1%"}, **changed), "--json")
    found = output(place.folder / "out")
    assert found.errors == {"in/000/00.jpg": "the model failed: ValueError: too odd for me"}
    assert len(found.rows) == 200


@pytest.mark.torch
def test_an_onnx_file_given_as_torchscript_is_refused_with_the_key_to_write(place):
    fill(place.folder / "in", 20)
    write_model(place.folder / "model.onnx")
    said = place.refused("run", inference(place, model={"torchscript": "model.onnx"}))
    assert "seems to be an ONNX file, not a TorchScript file: write model: {onnx: ...}" in said

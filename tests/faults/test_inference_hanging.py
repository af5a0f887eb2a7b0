"""Inputs at which a model hangs: with a timeout they become errors, and all others get their rows."""

from __future__ import annotations

import pytest

from faults.pictures import fill, inference, output, picture

pytestmark = pytest.mark.long

HANGS = """
    import time

    class Model:
        def __call__(self, batch):
            while any(image.size == (40, 40) for image in batch):
                HANG
            return {"size": [len(batch)] * len(batch)}
"""
WAYS = {
    "when asked to end": "time.sleep(3600)",
    "when killed": """
                try:
                    time.sleep(3600)
                except BaseException:
                    pass""",
}


@pytest.mark.parametrize("way", WAYS)
def test_an_input_at_which_the_model_hangs_is_an_error_and_all_others_are_done(place, way):
    fill(place.folder / "in", 100)
    (place.folder / "in" / "000" / "000050x.jpg").write_bytes(picture(1, size=40))
    place.write("mine.py", HANGS.replace("HANG", WAYS[way]))
    changed = {"model": {"function": "mine:Model"}, "preprocess": None, "postprocess": None}
    changed |= {"limits": {"errors": "5%", "timeout": "1.5s"}, "tune": {"batch": 8, "item": 40}}
    ended = place.json("run", inference(place, **changed), "--json")
    found = output(place.folder / "out")
    (reason,) = found.errors.values()
    assert found.errors.keys() == {"in/000/000050x.jpg"}
    assert "timed out" in reason
    assert len(found.rows) == 100
    assert (ended["items"]["failed"], ended["infer"]["errors"]) == (0, 1)
    with place.store(ended["run"]) as store:
        assert {record.item.used for record in store.items()} == {1, 5}
        assert not any(store.reports(record.item.seq) for record in store.items())


def test_items_that_take_longer_than_the_timeout_are_done_when_their_inputs_do_not(place):
    """What came through in time is no hang, however long all of an item takes."""
    fill(place.folder / "in", 12)
    place.write(
        "mine.py",
        """
        import time

        class Model:
            def __call__(self, batch):
                time.sleep(0.4 * len(batch))
                return {"size": [len(batch)] * len(batch)}
        """,
    )
    changed = {"model": {"function": "mine:Model"}, "preprocess": None, "postprocess": None}
    limits = {"timeout": "1.5s"}
    steady = inference(place, limits=limits, tune={"batch": 1, "item": 6}, **changed)
    ended = place.json("run", steady, "--json")
    assert (ended["infer"]["rows"], ended["infer"]["errors"]) == (12, 0)
    with place.store(ended["run"]) as store:
        assert {record.item.used for record in store.items()} == {1}
    (place.folder / "out").rename(place.folder / "first")
    lumpy = inference(
        place, limits=limits, tune={"batch": 6, "item": 6}, **changed
    )  # A batch takes too long.
    ended = place.json("run", lumpy, "--json")
    assert (ended["infer"]["rows"], ended["infer"]["errors"]) == (12, 0)
    with place.store(ended["run"]) as store:
        assert {record.item.used for record in store.items()} == {3}

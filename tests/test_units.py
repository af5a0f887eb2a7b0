"""Durations, sizes and shares, as people write them."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.units import format_seconds, format_size, seconds, share, size


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("90s", 90),
        ("30m", 1800),
        ("2h", 7200),
        ("500ms", 0.5),
        ("1d", 86400),
        ("1w", 604800),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        (" 1.5h ", 5400),
        ("90", 90),
        (90, 90),
        (0.25, 0.25),
        (0, 0),
    ],
    ids=str,
)
def test_a_duration_is_read_in_seconds(written, meant):
    assert seconds(written) == pytest.approx(meant)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "s",
        "90 parsecs",
        "30m1h",
        "1h1h",
        "-5s",
        "1e3s",
        "5s;",
        "٣s",
        -1,
        math.nan,
        math.inf,
        True,
        None,
        10**400,
    ],
    ids=repr,
)
def test_what_is_not_a_duration_is_refused_with_an_example(written):
    with pytest.raises(ValueError, match="duration such as 90s"):
        seconds(written)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("512MiB", 512 << 20),
        ("4GiB", 4 << 30),
        ("4Gi", 4 << 30),
        ("4gib", 4 << 30),
        ("1.5GB", 1_500_000_000),
        ("1.5 GB", 1_500_000_000),
        ("2TB", 2 * 10**12),
        ("1PiB", 1 << 50),
        ("17B", 17),
        ("17", 17),
        (17, 17),
        (17.0, 17),
        (2**60 + 1, 2**60 + 1),
        ("0.1KiB", 102),
    ],
    ids=str,
)
def test_a_size_is_read_in_bytes(written, meant):
    assert size(written) == meant


@pytest.mark.parametrize(
    "written", ["", "GiB", "4 apples", "-4GiB", "1e9", "4GiBs", -1, math.nan, math.inf, False, None], ids=repr
)
def test_what_is_not_a_size_is_refused_with_an_example(written):
    with pytest.raises(ValueError, match="size such as 512MiB"):
        size(written)


def test_a_size_that_could_mean_two_things_is_refused_and_both_are_named():
    with pytest.raises(ValueError, match=r"GiB \(1024\) or GB \(1000\)"):
        size("4G")


@pytest.mark.parametrize(
    ("written", "meant"),
    [("1%", 0.01), ("100 %", 1.0), ("0%", 0.0), ("0.5%", 0.005), (0.2, 0.2), (1, 1.0), ("0.2", 0.2)],
    ids=str,
)
def test_a_share_is_read_as_a_fraction(written, meant):
    assert share(written) == pytest.approx(meant)


@pytest.mark.parametrize("written", ["101%", 5, -0.1, "one percent", "%", math.nan, True, ""], ids=repr)
def test_what_is_not_a_share_is_refused_with_an_example(written):
    with pytest.raises(ValueError, match="share such as 1%"):
        share(written)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0s"),
        (0.0004, "0.40ms"),
        (0.0027, "2.7ms"),
        (0.85, "850ms"),
        (0.99999, "1.0s"),
        (5.24, "5.2s"),
        (42, "42s"),
        (59.9, "1m"),
        (80, "1m 20s"),
        (3599.9, "1h"),
        (7200, "2h"),
        (5430, "1h 30m"),
        (90061, "1d 1h"),
        (-80, "-1m 20s"),
        (math.nan, "unknown"),
        (math.inf, "unknown"),
    ],
    ids=str,
)
def test_a_duration_is_shown_with_two_units_at_most(amount, text):
    assert format_seconds(amount) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (2**20 - 1, "1.0 MiB"),
        (4 << 30, "4.0 GiB"),
        (3 << 50, "3.0 PiB"),
        (-2048, "-2.0 KiB"),
    ],
    ids=str,
)
def test_a_size_is_shown_in_powers_of_1024(amount, text):
    assert format_size(amount) == text


@given(st.floats(min_value=0.001, max_value=1e9))
def test_a_duration_that_is_shown_reads_back_as_about_the_same(amount):
    assert seconds(format_seconds(amount)) == pytest.approx(amount, rel=0.06)


@given(st.integers(min_value=0, max_value=2**60))
def test_a_size_that_is_shown_reads_back_as_about_the_same(amount):
    assert size(format_size(amount)) == pytest.approx(amount, rel=0.06)


@given(st.integers(0, 10**6), st.sampled_from(["KiB", "MiB", "GiB", "KB", "MB", "GB"]))
def test_a_whole_size_is_exact(count, unit):
    base = 1024 if "i" in unit else 1000
    assert size(f"{count}{unit}") == count * base ** ("KMG".index(unit[0]) + 1)


@given(st.one_of(st.text(), st.floats(), st.integers(), st.booleans(), st.none()))
def test_nothing_but_a_value_error_comes_of_nonsense(written):
    for read in (seconds, size, share):
        with contextlib.suppress(ValueError):
            assert read(written) >= 0

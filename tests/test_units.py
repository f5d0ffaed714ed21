"""Byte counts and durations, read and written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raybench.errors import UsageError
from raybench.units import exact_bytes, format_bytes, format_seconds, parse_amount, parse_bytes


@pytest.mark.parametrize(
    ("text", "byte_count"),
    [
        ("1", 1), ("8", 8), ("8B", 8), ("8b", 8), ("4K", 4096), ("4k", 4096), ("4KB", 4096), ("4KiB", 4096),
        ("1.5G", 3 * 2**29), ("2T", 2**41), (" 64M ", 64 * 2**20), ("64 M", 64 * 2**20), ("0.5K", 512),
        ("9007199254740993", 2**53 + 1),
    ],
)  # fmt: skip
def test_a_size_is_read(text: str, byte_count: int) -> None:
    assert parse_bytes(text) == byte_count


@pytest.mark.parametrize(
    "text", ["", " ", "K", "-1", "+1", "1e3", "0x10", "1P", "1KK", "1i", "nan", "inf", "1,5K", "1.K"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size in bytes"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["0", "0K", "0.1", "1.5", "0.0001K"])
def test_less_than_a_byte_or_a_part_of_one_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="whole number of at least 1 byte"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["abc", "-1", "0", "nan", "5"])
def test_a_wrong_amount_names_its_option(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--memory "):
        parse_amount("--memory", text, "64M")


def test_a_size_beyond_all_machines_is_refused_and_not_a_crash() -> None:
    with pytest.raises(UsageError):
        parse_bytes("1" + "0" * 400)
    with pytest.raises(UsageError):
        parse_bytes("1" * 30 + "T")


@pytest.mark.parametrize(
    ("byte_count", "text"),
    [
        (1, "1"),
        (1023, "1023"),
        (1024, "1K"),
        (1536, "1.5K"),
        (2**20, "1M"),
        (2**30, "1G"),
        (2**40, "1T"),
        (3 * 2**29, "1.5G"),
    ],
)
def test_a_size_is_written_shortest(byte_count: int, text: str) -> None:
    assert format_bytes(byte_count) == text


@given(st.integers(1, 2**50))
def test_an_exact_text_reads_back(byte_count: int) -> None:
    text = format_bytes(byte_count)
    if "." not in text:
        assert parse_bytes(text) == byte_count


@given(st.integers(0, 2**50), st.integers(0, 2**50))
def test_two_sizes_never_have_one_exact_text(one: int, other: int) -> None:
    for near in (other, one + 1, 2 * one):
        assert (exact_bytes(one) == exact_bytes(near)) == (one == near)
    assert exact_bytes(one).startswith(format_bytes(one))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(12.34e-6, "12.3 us"), (4.56e-3, "4.56 ms"), (0.9994, "999.40 ms"), (7.84, "7.8 s"), (119.9, "119.9 s"),
     (120, "2 min 0 s"), (125.4, "2 min 5 s"), (179.7, "3 min 0 s")],
)  # fmt: skip
def test_a_duration_is_in_the_unit_of_a_person(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text

"""Sweeps of sizes: what is read, and what is refused with a message that says what to write."""

import pytest

from raybench.errors import UsageError
from raybench.sizes import MAX_SIZES, elements_of, parse_sizes


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("8:64:2", (8, 16, 32, 64)),
        ("8:63:2", (8, 16, 32)),
        ("8:8:2", (8,)),
        ("8:64", (8, 16, 32, 64)),
        ("1K:9K:3", (1024, 3072, 9216)),
        ("1M:3M:+1M", (2**20, 2 * 2**20, 3 * 2**20)),
        ("1M:3M:+1M ", (2**20, 2 * 2**20, 3 * 2**20)),
        ("4K", (4096,)),
        ("1M,4K,4K", (4096, 2**20)),
        ("0.5K:2KiB:2", (512, 1024, 2048)),
        (" 8 : 32 : 2", (8, 16, 32)),
    ],
)
def test_a_sweep_is_read(text: str, sizes: tuple[int, ...]) -> None:
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8:1:2", r"end \(1 B\) below their beginning \(8 B\)"),
        ("8:8G:1", "factor '1' .* does not grow"),
        ("8:8G:0", "factor '0' .* does not grow"),
        ("8:8G:-2", "factor '-2' .* does not grow"),
        ("8:8G:1.5", "factor '1.5' .* does not grow"),
        ("8:1M:x", "factor 'x' .* does not grow"),
        ("8:1M:", "factor '' .* does not grow"),
        ("8:1M:+", "'' is not a size"),
        ("8:1M:+0", "at least 1 byte"),
        ("", "'' is not a size"),
        ("0", "at least 1 byte"),
        ("0:8:2", "at least 1 byte"),
        ("-8:8:2", "'-8' is not a size"),
        ("8,,16", "'' is not a size"),
        ("1:2:3:4", "not a range of sizes"),
        ("8:16X:2", "'16X' is not a size"),
        ("0.3", "a whole number of at least 1 byte"),
        ("1.0001K", "a whole number of at least 1 byte"),
        ("8:inf:2", "'inf' is not a size"),
        ("1:8K:+1", f"more than {MAX_SIZES}"),
        ("9" * 400, "is not a size"),
        ("8:1M:" + "9" * 5000, "does not grow"),
    ],
)
def test_what_is_no_sweep_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_sizes(text)


def test_the_most_sizes_allowed_are_allowed() -> None:
    assert len(parse_sizes(f"1:{MAX_SIZES}:+1")) == MAX_SIZES
    with pytest.raises(UsageError, match="more than"):
        parse_sizes(f"1:{MAX_SIZES + 1}:+1")


@pytest.mark.parametrize(
    ("message_bytes", "element_bytes", "multiple", "elements"),
    [
        (8, 4, 1, 2),
        (9, 4, 1, 2),
        (3, 4, 1, 1),
        (8, 4, 3, 3),
        (24, 4, 3, 6),
        (23, 4, 3, 3),
        (1, 1, 8, 8),
        (100, 1, 8, 96),
    ],
)
def test_elements_fill_the_message_in_whole_parts(
    message_bytes: int, element_bytes: int, multiple: int, elements: int
) -> None:
    assert elements_of(message_bytes, element_bytes, multiple) == elements

"""Fewer rows of a node's samples, with what matters of those that go: extremes of levels, totals of counters. Pure."""

from collections.abc import Callable, Iterator, Sequence

Values = Sequence[float | None]
Pair = tuple[float | None, float | None]
BUCKET = 4  # rows that become two


def merged_levels(values: Values, bucket: int = BUCKET) -> list[float | None]:
    """Of each bucket of rows the least and the largest, in the order in which they came."""
    return list(_merged(values, bucket, _extremes))


def merged_counters(values: Values, bucket: int = BUCKET) -> list[float | None]:
    """Of each bucket of rows what the counter stood at by its half and by its end."""
    return list(_merged(values, bucket, _standings))


def _merged(values: Values, bucket: int, pair: Callable[[Values], Pair]) -> Iterator[float | None]:
    for first in range(0, len(values), bucket):
        part = values[first : first + bucket]
        yield from part if len(part) == 1 else pair(part)


def _extremes(part: Values) -> Pair:
    known = [value for value in part if value is not None]
    if not known:
        return None, None
    least, largest = min(known), max(known)
    return (least, largest) if known.index(least) <= known.index(largest) else (largest, least)


def _standings(part: Values) -> Pair:
    half = len(part) // 2
    return _last(part[:half]), _last(part[half:])


def _last(part: Values) -> float | None:
    return next((value for value in reversed(part) if value is not None), None)

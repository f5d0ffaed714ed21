"""Arithmetic of time intervals. Pure; an interval is (begin, end), in any one unit."""

from collections.abc import Iterable, Sequence

Interval = tuple[float, float]


def merged(intervals: Iterable[Interval], gap: float = 0.0) -> list[Interval]:
    """The union, ascending and disjoint; what is no more than ``gap`` apart becomes one."""
    result: list[Interval] = []
    for begin, end in sorted(intervals):
        if result and begin <= result[-1][1] + gap:
            result[-1] = result[-1][0], max(result[-1][1], end)
        else:
            result.append((begin, end))
    return result


def length(intervals: Iterable[Interval]) -> float:
    """Time covered by disjoint intervals."""
    return sum(end - begin for begin, end in intervals)


def common(first: Sequence[Interval], second: Sequence[Interval]) -> list[Interval]:
    """What two lists of ascending, disjoint intervals share."""
    result, index, other = [], 0, 0
    while index < len(first) and other < len(second):
        begin, end = max(first[index][0], second[other][0]), min(first[index][1], second[other][1])
        if begin < end:
            result.append((begin, end))
        if first[index][1] < second[other][1]:
            index += 1
        else:
            other += 1
    return result


def within(intervals: Iterable[Interval], frame: Interval) -> list[Interval]:
    """The parts inside a frame."""
    cut = ((max(begin, frame[0]), min(end, frame[1])) for begin, end in intervals)
    return [(begin, end) for begin, end in cut if begin < end]


def serial_end(ready: Sequence[float], durations: Sequence[float]) -> float:
    """When the last of these is done that run one after another, each not before it is ready."""
    end = 0.0
    for moment, duration in zip(ready, durations, strict=True):
        end = max(moment, end) + duration
    return end


def without(first: Sequence[Interval], second: Sequence[Interval]) -> list[Interval]:
    """What the first of two lists of ascending, disjoint intervals has and the second has not."""
    result, index = [], 0
    for whole in first:
        begin, end = whole
        while index < len(second) and second[index][1] <= begin:
            index += 1
        other = index
        while other < len(second) and second[other][0] < end:
            if begin < second[other][0]:
                result.append((begin, second[other][0]))
            begin = max(begin, second[other][1])
            other += 1
        if begin < end:
            result.append((begin, end))
    return result

"""The largest number that fits, by doubling and then bisection. Pure."""

from collections.abc import Callable, Generator


def search(most: int) -> Generator[int, bool, int]:
    """Yield numbers to try, of 1 to ``most``, each once; send whether it fits. Returns the largest that does; 0: none.

    Every number below a fitting one has to fit. Asks about 2 log2 of the answer times.
    """
    good, trial = 0, 1
    while trial <= most and (yield trial):
        good, trial = trial, trial * 2
    if good == most:
        return good
    if trial > most and (yield most):
        return most
    bad = min(trial, most)
    while bad - good > 1:
        middle = (good + bad) // 2
        if (yield middle):
            good = middle
        else:
            bad = middle
    return good


def largest_fitting(fits: Callable[[int], bool], *, most: int) -> int:
    """The same, with ``fits`` asked about each number."""
    asking = search(most)
    try:
        trial = next(asking)
        while True:
            trial = asking.send(fits(trial))
    except StopIteration as end:
        return int(end.value)

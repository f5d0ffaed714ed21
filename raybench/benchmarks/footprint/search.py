"""The largest number that fits, by doubling and then bisection. Pure."""

from collections.abc import Callable


def largest_fitting(fits: Callable[[int], bool], *, most: int) -> int:
    """The largest of 1 to ``most`` for which ``fits`` says yes, where every number below a fitting one fits; 0: none.

    Asks about 2 log2 of the answer times, each number once.
    """
    good, trial = 0, 1
    while trial <= most and fits(trial):
        good, trial = trial, trial * 2
    if good == most:
        return good
    if trial > most and fits(most):
        return most
    bad = min(trial, most)
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(middle):
            good = middle
        else:
            bad = middle
    return good

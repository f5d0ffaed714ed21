"""``python -m tests.comparison.stolen_pairs`` (root): what compare says where other virtual machines took processors.

Recorded launches over a shaped link (shaped_samples.json), three a run, drawn at random; on top of them losses of two
nodes by a model, and what of a loss reaches a launch's times by another. Pairs of the same, and of 5 % slower ones.
Limits: a difference that there is not is told of at most 5 % of pairs, and "no difference" of at most 5 % of slower.
"""

import argparse
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from raybench.comparison.comparing import compare
from raybench.comparison.side import Side
from tests.comparison.live_pairs import word_of
from tests.comparison.recorded import SERIES, sampled_run
from tests.measurements.table import print_table, write_json

MOST_WRONG = 0.05
_SLOWER = 1.05
_SIZES = ("512K", "1024K")
_POOL = [
    {size: run["microseconds"][size][launch] for size in _SIZES}
    for run in SERIES["load 1.1 to 2.1"]
    if run["rate"] == "100mbit"
    for launch in range(3)
]
# What launches lost on a host that took much, as it was recorded beside nothing else (live_pairs): a row a run.
_HOST = (
    (0.07, 0.02, 0.01), (0.013, 0.012, 0.014), (0.062, 0.068, 0.005), (0.015, 0.002, 0.005), (0.002, 0.017, 0.022),
    (0.022, 0.019, 0.025), (0.021, 0.07, 0.192), (0.153, 0.069, 0.024), (0.007, 0.005, 0.056), (0.027, 0.073, 0.179),
    (0.211, 0.05, 0.008), (0.178, 0.092, 0.15), (0.078, 0.14, 0.045), (0.002, 0.0, 0.008), (0.012, 0.025, 0.281),
    (0.043, 0.059, 0.017), (0.01, 0.029, 0.07), (0.248, 0.269, 0.084),
)  # fmt: skip

Lost = tuple[tuple[float, float], ...]  # [launch][node]
Draw = Callable[[random.Random], tuple[float, ...]]


def _even(least: float, most: float) -> Draw:
    return lambda drawn: tuple(drawn.uniform(least, most) for _ in range(3))


def _host(drawn: random.Random) -> tuple[float, ...]:
    return drawn.choice(_HOST)


def _alike(one: Draw, other: Draw) -> Callable[[random.Random], tuple[Lost, Lost]]:
    """Both nodes are of one machine."""
    return lambda drawn: tuple(tuple((share, share) for share in draw(drawn)) for draw in (one, other))  # type: ignore[return-value]


def _apart(one: Sequence[Draw], other: Sequence[Draw]) -> Callable[[random.Random], tuple[Lost, Lost]]:
    """Each node is of a machine of its own."""
    return lambda drawn: tuple(tuple(zip(*(draw(drawn) for draw in nodes), strict=True)) for nodes in (one, other))  # type: ignore[return-value]


_NONE = _even(0.0, 0.01)
LOSSES: Mapping[str, Callable[[random.Random], tuple[Lost, Lost]]] = {
    "both on that host": _alike(_host, _host),
    "one on that host, one quiet": _alike(_NONE, _host),
    "6 % steadily, and none": _alike(_NONE, _even(0.055, 0.065)),
    "0 to 3 %, and 5 to 12 %": _alike(_even(0.0, 0.03), _even(0.05, 0.12)),
    "0 to 5 %, and 10 to 30 %": _alike(_even(0.0, 0.05), _even(0.1, 0.3)),
    "nodes by themselves": _apart((_host, _host), (_host, _host)),
    "the one node, and the other": _apart((_even(0.0, 0.15), _NONE), (_NONE, _even(0.05, 0.15))),
    "the one node, and the other steadily": _apart((_even(0.0, 0.15), _NONE), (_NONE, _even(0.07, 0.08))),
}
# What of the losses of both nodes reaches a launch, as a logarithm.
Reach = Callable[[tuple[float, float], random.Random], float]
REACHES: Mapping[str, Reach] = {
    "nothing": lambda *_: 0.0,
    "a third": lambda lost, _: max(lost) / 3,
    "all": lambda lost, _: max(lost),
    "above 10 %": lambda lost, _: max(max(lost) - 0.1, 0.0),
    "of the second node": lambda lost, _: lost[1],
    "half of each": lambda lost, _: sum(lost) / 2,
    "now and then": lambda lost, drawn: max(lost) * drawn.choice((0.0, 0.0, 0.0, 2.0)),
    "by chance": lambda lost, drawn: max(lost) * min(drawn.expovariate(1.0), 3.0),
    "the first 5 %": lambda lost, _: min(max(lost), 0.05),
}


def pair(drawn: random.Random, losses: str, reach: str, *, slower: int | None, spread: float) -> tuple[Side, Side]:
    """Two runs; the side ``slower`` is slower by 5 %. ``spread``: of launches besides, a standard deviation."""
    lost = LOSSES[losses](drawn)
    if drawn.random() < 0.5:
        lost = lost[::-1]
    found = [_run(drawn, one, reach, _SLOWER if number == slower else 1.0, spread) for number, one in enumerate(lost)]
    return found[0], replace(found[1], name="other")


def _run(drawn: random.Random, lost: Lost, reach: str, factor: float, spread: float) -> Side:
    microseconds: dict[str, list[list[float]]] = {size: [] for size in _SIZES}
    for shares in lost:
        stretches = -math.log1p(-shares[0]), -math.log1p(-shares[1])
        launch = drawn.choice(_POOL)
        level = factor * math.exp(drawn.gauss(0, spread) if spread else 0.0)
        for size in _SIZES:
            times = level * math.exp(REACHES[reach](stretches, drawn))
            microseconds[size].append([times * sample for sample in launch[size]])
    side = sampled_run({"microseconds": microseconds})
    share = sum(map(max, lost)) / len(lost)
    figures = {key: replace(one, stolen=(share,), lost=(lost,)) for key, one in side.figures.items()}
    return replace(side, figures=figures)


def words(losses: str, reach: str, *, count: int, seed: int, spread: float) -> tuple["Counter[str]", "Counter[str]"]:
    """What is said of ``count`` pairs of the same, and of as many of which one is slower: "found", or a word."""
    drawn = random.Random(f"{losses} {reach} {seed}")
    same = Counter(word_of(compare(pair(drawn, losses, reach, slower=None, spread=spread))) for _ in range(count))
    other: Counter[str] = Counter()
    for number in range(count):
        word = word_of(compare(pair(drawn, losses, reach, slower=number % 2, spread=spread)))
        other["found" if word == ("faster", "slower")[number % 2] else word] += 1
    return same, other


def main() -> int:
    """Draw, compare, print. Returns 1 where a share is above its limit."""
    options = _options()
    rows, wrong = [], 0
    for losses, reach in product(LOSSES, REACHES):
        same, other = words(losses, reach, count=options.count, seed=options.seed, spread=options.spread)
        told = same["slower"] + same["faster"]
        missed = other.total() - other["found"] - other["cannot tell"]
        wrong += max(told, missed) > MOST_WRONG * options.count
        shares = (told, same["no difference"], missed, other["found"])
        rows.append([losses, reach, *(f"{one / options.count:.3f}" for one in shares)])
        print(*rows[-1], sep=" | ", flush=True)
    names = ["lost", "reaches times", "same: different", "no difference", "5 %: missed", "found"]
    print_table(f"{options.count} pairs a row", names, rows)
    write_json(options.output, "stolen_pairs", {"rows": rows})
    return int(wrong > 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.comparison.stolen_pairs", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--count", type=int, default=400, help="pairs of the same, and of slower ones, a row")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn")
    parser.add_argument("--spread", type=float, default=0.0, help="of launches, besides that which was recorded")
    parser.add_argument("--output", type=Path, help="JSON file for the figures")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

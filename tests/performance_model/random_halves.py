"""How far estimates of memory are from sources that had no part in any constant: half of them, drawn at random.

    python -m tests.performance_model.random_halves

The sources are split twenty times. On one half the shares are fitted of what an allocator holds beside what it has
handed out, and the margin of what fits is chosen; the other half is judged. Each source has one vote: its median error,
and what nine in ten of its rows are within. What stays as it is: which tensors there are, by formulas. Before that the
tree's own constants, by what was measured.
"""

import math
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.memory.pools import (
    FULLY_SHARD_FRAGMENTATION_SHARES,
    STREAMS_FRAGMENTATION_SHARES,
    STREAMS_SHARES,
)
from raybench.performance_model.memory.rank import fragmentation_share
from raybench.performance_model.parallel.megatron import MEGATRON_FRAGMENTATION_SHARE, is_megatrons
from tests.performance_model.leave_one_out import VARYING_SHARE, margin_of, memory_of
from tests.performance_model.published_run import PublishedRun
from tests.performance_model.published_runs import all_runs

_SPLITS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A row's memory: what is estimated, what was measured and what comes and goes, bytes; the share that it has.

    ``room``: of the GPU's memory above the estimated peak, as a share of that; ``fits``: whether it ran.
    """

    source: str
    kind: str
    name: str
    fits: bool | None
    room: float
    estimated: float | None = None
    measured: float | None = None
    dynamic: float = 0.0
    share: float = 0.0


def held(run: PublishedRun) -> Held:
    """Of one row, with the tree's own constants."""
    ask = run.request
    memory = estimate(ask, alone=False).memory
    limit = float(ask.memory_bytes or 0)
    name, share = _share_of(run)
    return Held(
        source=run.source,
        kind=run.memory_is,
        name=name,
        fits=run.fits,
        room=limit / memory.peak - 1,
        estimated=memory_of(memory, run.memory_is, limit) if run.memory_bytes else None,
        measured=run.memory_bytes,
        dynamic=float(memory.dynamic),
        share=share,
    )


def _share_of(run: PublishedRun) -> tuple[str, float]:
    """The share of what comes and goes that the estimate adds, by what it tells apart; none where it was allocated."""
    setup, kind = run.request.setup, run.memory_is
    of_streams = kind.endswith("-streams")
    if kind == "allocated" or (of_streams and setup.strategy == "zero3"):
        return "", 0.0
    if kind == "reserved-varying":
        return kind, VARYING_SHARE
    trained = "adapters" if setup.lora_rank else "whole"
    if of_streams:
        name = "chunked" if setup.loss == "chunked" and setup.lora_rank else trained
        return f"streams {name}", STREAMS_SHARES[name]
    return _fragmentation_of(run, trained)


def _fragmentation_of(run: PublishedRun, trained: str) -> tuple[str, float]:
    ask = run.request
    again = "computed again" if ask.setup.checkpointing else "kept"
    if is_megatrons(ask.model, ask.setup, ask.layout):
        return "Megatron-LM", MEGATRON_FRAGMENTATION_SHARE
    if not ask.setup.is_sharded:
        return f"replicas {again}", fragmentation_share(ask.setup)
    if ask.setup.on_streams:
        return f"pools {trained}", STREAMS_FRAGMENTATION_SHARES[trained]
    return f"fully_shard {again}", FULLY_SHARD_FRAGMENTATION_SHARES[again]


def fitted(rows: Iterable[Held]) -> dict[str, float]:
    """Of each kind the share with which its sources, each with its own median, are neither too low nor too high."""
    needed: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.name and row.estimated is not None and row.measured is not None and row.dynamic:
            needed[row.name][row.source].append(row.share + (row.measured - row.estimated) / row.dynamic)
    return {name: max(0.0, median(map(median, of.values()))) for name, of in needed.items()}


def errors(rows: Iterable[Held], shares: Mapping[str, float]) -> dict[str, list[float]]:
    """Of each source how far its rows are off, with these shares; a kind that has none keeps the tree's."""
    found = defaultdict(list)
    for row in rows:
        if row.estimated is not None and row.measured is not None:
            more = (shares.get(row.name, row.share) - row.share) * row.dynamic
            found[row.source].append((row.estimated + more) / row.measured - 1)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Of one split: medians over the sources, and verdicts that were wrong of so many."""

    median_error: float
    ninth_error: float
    bias: float
    promised: int
    failed: int


def judged(fit: Sequence[Held], rest: Sequence[Held]) -> Judged:
    """The other half, with what was fitted to this one."""
    by_source = errors(rest, fitted(fit))
    each = [sorted(map(abs, own)) for own in by_source.values()]
    short = margin_of([row.room for row in fit if row.fits is False])
    failed = [row for row in rest if row.fits is False]
    return Judged(
        median_error=median(median(own) for own in each),
        ninth_error=_ninth([_ninth(own) for own in each]),
        bias=median(median(own) for own in by_source.values()),
        promised=sum(row.room >= short for row in failed),
        failed=len(failed),
    )


def _ninth(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[math.ceil(0.9 * len(ordered)) - 1]


def splits(rows: Sequence[Held], count: int = _SPLITS) -> list[Judged]:
    """Each with half of the sources, drawn anew; the same ones every time."""
    sources, draw = sorted({row.source for row in rows}), random.Random(0)
    answers = []
    for _ in range(count):
        chosen = set(draw.sample(sources, len(sources) // 2))
        fit = [row for row in rows if row.source in chosen]
        answers.append(judged(fit, [row for row in rows if row.source not in chosen]))
    return answers


def by_kind(rows: Sequence[Held]) -> str:
    """A line for each kind of measure, with the tree's constants: rows, sources, their median error and bias."""
    lines = []
    for kind in sorted({row.kind for row in rows if row.measured}):
        found = errors((row for row in rows if row.kind == kind), {})
        off, bias = median(median(map(abs, own)) for own in found.values()), median(map(median, found.values()))
        lines.append(f"{kind:18}{sum(map(len, found.values())):5} rows {len(found):3} sources {off:5.0%} {bias:+5.0%}")
    return "\n".join(lines)


def main() -> None:
    """Print the error by what was measured, and the means over the splits."""
    rows = [held(run) for run in all_runs() if run.memory_bytes or run.fits is not None]
    found = splits(rows)
    promised, failed = sum(one.promised for one in found), sum(one.failed for one in found)
    sys.stdout.write(
        f"{by_kind(rows)}\n{_SPLITS} random halves of {len({row.source for row in rows})} sources, each judged by "
        f"constants of the other: memory is {_mean(one.median_error for one in found):.0%} off in the median source "
        f"(bias {_mean(one.bias for one in found):+.0%}), of nine in ten sources nine in ten rows within "
        f"{_mean(one.ninth_error for one in found):.0%}; {promised / failed:.1%} of what ran out of memory is told to "
        "fit\n"
    )


def _mean(values: Iterable[float]) -> float:
    every = list(values)
    return sum(every) / len(every)


if __name__ == "__main__":
    main()

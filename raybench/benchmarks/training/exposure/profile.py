"""The ranks' traces beside each other: who the others wait for, and which operations take the time. Pure."""

from collections.abc import Iterator, Mapping
from statistics import median

from raybench.benchmarks.training.exposure.division import Division, OperationTime
from raybench.documents.run.profile import Profile, ProfiledOperation, RankProfile

LATE = 1.1  # times the median of the others' own time, in every traced step
_LEAST_RANKS, _LEAST_STEPS = 3, 2
_MOST_OPERATIONS = 15


def profile_of(divisions: Mapping[int, Division]) -> Profile | None:
    """Of the ranks whose traces are known; None where there is none."""
    if not divisions:
        return None
    reason = _not_compared(divisions)
    return Profile(
        ranks=tuple(_rank(rank, one) for rank, one in sorted(divisions.items())),
        operations=tuple(_operations(divisions)),
        stragglers=() if reason else tuple(rank for rank in sorted(divisions) if _is_late(rank, divisions)),
        straggler_reason=reason,
    )


def _rank(rank: int, one: Division) -> RankProfile:
    return RankProfile(
        rank=rank,
        device=one.device,
        steps=one.steps,
        seconds=one.seconds,
        computation=one.computation,
        communication=one.communication,
        exposed=one.exposed,
        memory=one.memory,
        idle=one.idle,
    )


def _not_compared(divisions: Mapping[int, Division]) -> str | None:
    if len(divisions) < _LEAST_RANKS:
        return "with fewer than three ranks nobody is the odd one out"
    steps = {one.steps for one in divisions.values()}
    if len(steps) > 1 or min(steps) < _LEAST_STEPS or not all(one.framed for one in divisions.values()):
        return "the traces do not have the same two steps or more"
    return None


def _is_late(rank: int, divisions: Mapping[int, Division]) -> bool:
    """Whether its own time is longer in every step, and the others wait for at least half of that more than it does."""
    mine, others = divisions[rank], [one for number, one in divisions.items() if number != rank]
    usual = [median(step) for step in zip(*(one.own_steps for one in others), strict=True)]
    if not all(own > LATE * theirs for own, theirs in zip(mine.own_steps, usual, strict=True)):
        return False
    more = sum(mine.own_steps) / mine.steps - sum(usual) / mine.steps
    return bool(median(one.exposed for one in others) - mine.exposed > more / 2)


def _operations(divisions: Mapping[int, Division]) -> Iterator[ProfiledOperation]:
    """Those with most time over all ranks."""
    kinds = {name: each.kind for one in divisions.values() for name, each in one.operations.items()}
    rows = []
    for name, kind in kinds.items():
        none = OperationTime(kind=kind, calls=0.0, seconds=0.0)
        spent = {rank: one.operations.get(name, none) for rank, one in divisions.items()}
        slowest = max(spent, key=lambda rank: spent[rank].seconds)
        rows.append(
            ProfiledOperation(
                name=name,
                kind=kind,
                calls=sum(each.calls for each in spent.values()) / len(spent),
                seconds=sum(each.seconds for each in spent.values()) / len(spent),
                slowest_rank=slowest,
                slowest_seconds=spent[slowest].seconds,
            )
        )
    yield from sorted(rows, key=lambda row: -row.seconds)[:_MOST_OPERATIONS]

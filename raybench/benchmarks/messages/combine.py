"""The samples of all ranks to one point of the result."""

from collections.abc import Mapping, Sequence

from raybench.benchmarks.spec import RankSamples
from raybench.documents.run.point import Point

Block = tuple[float, ...]


def operation_seconds(stamps: Sequence[Sequence[float]]) -> Block:
    """Seconds of each operation of one block, from ``stamps[rank][iteration]``: the slowest rank decides.

    Operation i counts as complete when the last rank has completed it; its time runs from the completion of operation
    i-1. So the times of a block add up to the block's own length on its slowest rank, and waiting for a late partner is
    not counted twice, as it is when each rank's own maximum is taken operation by operation.
    """
    completions = [max(column) for column in zip(*stamps, strict=True)]
    return tuple(after - before for before, after in zip([0.0, *completions], completions, strict=False))


def point_of(launches: Sequence[Mapping[int, RankSamples]]) -> Point:
    """One point from the samples of every contributing rank, ``launches[launch][rank]``.

    ``rank_seconds`` is each rank's own mean over all blocks. Raises ValueError where the launches measured different
    messages.
    """
    first = next(iter(launches[0].values()))
    ranks = tuple(sorted(launches[0]))
    if any(samples.message_bytes != first.message_bytes for launch in launches for samples in launch.values()):
        raise ValueError("samples of different message sizes cannot be one point")
    return Point(
        message_bytes=first.message_bytes,
        element_count=first.element_count,
        bus_factor=first.bus_factor,
        launches=tuple(_blocks(launch) for launch in launches),
        rank_seconds=tuple(_own_mean([launch[rank] for launch in launches]) for rank in ranks),
        verified=_verified(launches),
        wrong_elements=sum(samples.wrong_elements for launch in launches for samples in launch.values()),
        source_rank=first.source_rank,
        destination_rank=first.destination_rank,
        wrong_by_rank=_wrong_by_rank(launches),
        ranks=ranks if first.source_rank is not None else (),
        own_seconds=_own_seconds(launches, ranks),
    )


def _own_seconds(launches: Sequence[Mapping[int, RankSamples]], ranks: Sequence[int]) -> tuple[tuple[float, ...], ...]:
    """Of the launches in which every rank has as many: sample i of one rank belongs to sample i of the others."""
    whole = [launch for launch in launches if len({len(launch[rank].own_seconds) for rank in ranks}) == 1]
    seconds = tuple(tuple(one for launch in whole for one in launch[rank].own_seconds) for rank in ranks)
    return seconds if any(seconds) else ()


def _blocks(launch: Mapping[int, RankSamples]) -> tuple[Block, ...]:
    by_rank = [launch[rank].stamps for rank in sorted(launch)]
    return tuple(operation_seconds(block) for block in zip(*by_rank, strict=True))


def _own_mean(samples: Sequence[RankSamples]) -> float:
    blocks = [block for one in samples for block in one.stamps if block]
    return sum(block[-1] for block in blocks) / sum(len(block) for block in blocks)


def _wrong_by_rank(launches: Sequence[Mapping[int, RankSamples]]) -> dict[int, int]:
    counts = {rank: sum(launch[rank].wrong_elements for launch in launches) for rank in sorted(launches[0])}
    return {rank: count for rank, count in counts.items() if count}


def _verified(launches: Sequence[Mapping[int, RankSamples]]) -> bool | None:
    checked = [samples for launch in launches for samples in launch.values()]
    if not all(samples.verified for samples in checked):
        return None
    return not any(samples.wrong_elements for samples in checked)

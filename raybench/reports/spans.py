"""Ranks and names as short text: neighbours joined, and of many a few with the number of the others. Pure."""

from collections.abc import Sequence

from raybench.reports.text import printable

MOST_SPANS = 8


def spans_in_short(ranks: Sequence[int], most: int = MOST_SPANS) -> str:
    """``0-7`` or ``0, 2, 4-6``; of many spans the first: ``0, 2, 4, 6 and 3,996 more``."""
    runs = _runs(ranks)
    if len(runs) <= most:
        return ", ".join(map(_span_text, runs))
    omitted = sum(last - first + 1 for first, last in runs[most:])
    return f"{', '.join(map(_span_text, runs[:most]))} and {omitted:,} more"


def ranks_in_short(ranks: Sequence[int], most: int = MOST_SPANS) -> str:
    """``rank 17``, ``ranks 0-7`` or ``ranks 0, 2, 4, 6 and 3,996 more``."""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {spans_in_short(ranks, most)}"


def names_in_short(names: Sequence[object], most: int = MOST_SPANS) -> str:
    """``node-a, node-b and 998 more``, each printable."""
    shown = ", ".join(printable(name) for name in names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown


def _runs(ranks: Sequence[int]) -> list[tuple[int, int]]:
    """(first, last) of each run of neighbours."""
    runs: list[tuple[int, int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], rank)
        else:
            runs.append((rank, rank))
    return runs


def _span_text(run: tuple[int, int]) -> str:
    return f"{run[0]}-{run[1]}" if run[1] > run[0] else str(run[0])

"""Pairing of ranks or hosts in rounds, so that in one round nobody takes part twice."""


def disjoint_rounds(count: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Rounds of disjoint pairs of ``range(count)`` that together hold every unordered pair exactly once.

    The circle method of round-robin tournaments: one stays, the others turn. An even ``count`` needs count - 1 rounds,
    an odd one ``count`` rounds in each of which one sits out; both are the least possible.
    """
    seats: list[int | None] = list(range(count))
    if count % 2:
        seats.append(None)
    rounds = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        facing = zip(seats[:half], reversed(seats[half:]), strict=True)
        rounds.append(tuple((min(a, b), max(a, b)) for a, b in facing if a is not None and b is not None))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return tuple(rounds)

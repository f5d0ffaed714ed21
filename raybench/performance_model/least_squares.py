"""Small linear systems without a library, and relative least squares with no coefficient below zero."""

from collections.abc import Sequence
from itertools import combinations


def nonnegative_fit(rows: Sequence[Sequence[float]], values: Sequence[float]) -> tuple[float, ...]:
    """Coefficients c >= 0 that make ``sum((row . c / value - 1)^2)`` least.

    With few columns (three here) every subset of them is solved without the constraint, and the best of those solutions
    that satisfy it is the constrained one: the optimum has some coefficients at zero and is free in the others.
    """
    columns = len(rows[0])
    scaled = [[cell / value for cell in row] for row, value in zip(rows, values, strict=True)]
    best: tuple[float, ...] = (0.0,) * columns
    least = float(len(rows))
    for size in range(1, columns + 1):
        for chosen in combinations(range(columns), size):
            solution = _solve_normal(scaled, chosen)
            if solution is None or min(solution) < 0:
                continue
            full = [0.0] * columns
            for column, coefficient in zip(chosen, solution, strict=True):
                full[column] = coefficient
            error = sum((sum(cell * weight for cell, weight in zip(row, full, strict=True)) - 1) ** 2 for row in scaled)
            if error < least - 1e-12:
                best, least = tuple(full), error
    return best


def _solve_normal(rows: Sequence[Sequence[float]], chosen: Sequence[int]) -> list[float] | None:
    """Least squares of ``rows . c = 1`` in the chosen columns; None where they do not determine it."""
    scale = [max(abs(row[column]) for row in rows) or 1.0 for column in chosen]
    picked = [[row[column] / unit for column, unit in zip(chosen, scale, strict=True)] for row in rows]
    size = len(chosen)
    matrix = [[sum(row[i] * row[j] for row in picked) for j in range(size)] for i in range(size)]
    found = solved(matrix, [sum(row[i] for row in picked) for i in range(size)])
    return None if found is None else [value / unit for value, unit in zip(found, scale, strict=True)]


def solved(matrix: Sequence[Sequence[float]], values: Sequence[float]) -> list[float] | None:
    """x of ``matrix . x = values``, by elimination; None where the matrix is singular."""
    size = len(values)
    system = [[*row, value] for row, value in zip(matrix, values, strict=True)]
    for pivot in range(size):
        largest = max(range(pivot, size), key=lambda row: abs(system[row][pivot]))
        system[pivot], system[largest] = system[largest], system[pivot]
        if abs(system[pivot][pivot]) < 1e-12:
            return None
        for row in range(size):
            if row != pivot:
                factor = system[row][pivot] / system[pivot][pivot]
                system[row] = [cell - factor * other for cell, other in zip(system[row], system[pivot], strict=True)]
    return [system[i][size] / system[i][i] for i in range(size)]

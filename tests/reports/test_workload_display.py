"""Every kind of workload has its display in one table, and nothing else in the reports asks for a kind."""

import ast
from pathlib import Path

import pytest

import raybench.reports
from raybench.benchmarks.registry import WORKLOADS
from raybench.reports.workloads.table import DISPLAYS, workload_columns

REPORTS = Path(raybench.reports.__file__).parent
POINTS = {"TrainingPoint", "MemoryPoint", "CheckpointPoint", "FiguresPoint"}


def test_every_kind_of_the_registry_has_a_display_and_no_other_has() -> None:
    assert set(DISPLAYS) == set(WORKLOADS)


def dispatches(source: str) -> list[int]:
    """Lines that ask for the type of a point or for a kind by its name, or cast to a type."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"isinstance", "cast"}:
            names = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
            found += [node.lineno] if names & POINTS or node.func.id == "cast" else []
        elif isinstance(node, ast.Compare):
            words = {word.value for word in ast.walk(node) if isinstance(word, ast.Constant)}
            found += [node.lineno] if words & set(WORKLOADS) else []
    return found


def test_nothing_else_chooses_by_the_kind_of_a_workload() -> None:
    found = {
        f"{path.relative_to(REPORTS)}:{line}"
        for path in REPORTS.rglob("*.py")
        for line in dispatches(path.read_text(encoding="utf-8"))
    }
    assert found == set()


@pytest.mark.parametrize(
    "source", ["isinstance(point, TrainingPoint)", "table.kind in {'collective', 'p2p'}", "cast(MemoryPoint, point)"]
)
def test_a_choice_by_kind_would_be_seen(source: str) -> None:
    assert dispatches(source) == [1]


def test_the_columns_of_all_kinds_are_apart() -> None:
    columns = [name for display in dict.fromkeys(DISPLAYS.values()) for name in display.columns]
    assert columns == list(workload_columns())

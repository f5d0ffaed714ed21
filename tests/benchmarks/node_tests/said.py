"""What tests of a node say, taken from their output."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from raybench.benchmarks.node_tests.plan import Plan

SMALL = Plan(
    tests=(), seconds=60.0, samples=3, block_seconds=0.005, memory_mib=1, message_mib=1, disk_mib=2, burn_seconds=1.2,
    cpu_widths=(64, 64),
)  # fmt: skip


def figures_of(
    run: Callable[[Plan], None], capsys: pytest.CaptureFixture[str], plan: Plan = SMALL
) -> Sequence[Mapping[str, Any]]:
    """The figures of a test, in the order in which it said them."""
    run(plan)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [line["figure"] for line in lines if "figure" in line]

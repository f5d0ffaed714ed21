"""A run of twelve nodes with its samples, for reports: one GPU node runs hot, one port has errors, one leaks memory."""

import random
from collections.abc import Callable

from raybench.documents.run.node_samples import SampledNode
from raybench.documents.run.result import RunResult
from raybench.timeline.judging import with_samples
from tests.timeline.runs import collective, run_of, training
from tests.timeline.streams import sampled, samples_of

ROWS = 90
HOT, FAULTY, LEAKY = 3, 5, 2


def sampled_run(nodes: int = 12) -> RunResult:
    """Two launches of an all_reduce, the second slow, then a training."""
    run = run_of(collective((0.10, 0.16)), training([0.1] * 300, data=0.02, begin=52.0), nodes=nodes, per_node=2)
    source = random.Random(7)
    return with_samples(run, samples_of(*(_node(number, source) for number in range(nodes))))


def _counter(grows: Callable[[int], float]) -> list[float | None]:
    total = 0.0
    return [total := total + grows(row) for row in range(ROWS)]


def _node(number: int, source: random.Random) -> SampledNode:
    is_hot = number == HOT
    low, high = (45, 60) if is_hot else (85, 99)
    series: dict[str, list[float | None]] = {}
    for gpu in range(2):
        used = [source.randint(low, high) if 10 <= row < 85 else source.randint(0, 4) for row in range(ROWS)]
        series[f"gpu/{gpu}/utilization_percent"] = [*used]
        series[f"gpu/{gpu}/throttle_thermal"] = [int(is_hot and 30 < row < 45) for row in range(ROWS)]
    for port in range(2):
        bad = number == FAULTY and port == 1
        sent = _counter(lambda row: source.randint(20, 24) * 10**9 if 10 <= row < 85 else 10**6)
        errors = _counter(lambda row, bad=bad: 410 if bad and 30 < row <= 40 else 0)  # type: ignore[misc]
        series |= {f"port/mlx5_{port}:1/sent_bytes": sent, f"port/mlx5_{port}:1/symbol_errors": errors}
    series["host/cpu/cores"] = [64] * ROWS
    series["host/cpu/busy_seconds"] = _counter(lambda _: 64 * source.uniform(0.2, 0.3))
    leak = 4 if number == LEAKY else 0
    series["host/memory/available_bytes"] = [(900 - leak * row) * 2**30 for row in range(ROWS)]
    return sampled(f"node-{number}", series, bound=0.02)
